#!/usr/bin/env python3
"""Times contributions (SHAP values) and interactions beside other libraries: by covers or against a background.

Each folder of MODELS holds model.json, model.ubj or model.txt, and rows.npy (float32, NaN is missing). Rows are repeated
with a small noise until there are enough. Fangorn (`fangorn bench --output contributions`) and every peer that takes a
model compute the contributions of the same number of rows in turns, each in a process of its own, with one thread. The
figures are medians over all rounds, of the processor time of the thread that computes (of the process, for peers: they
have no other thread). Making the peers' own row structures and explainers is not timed. Values are compared first:
they agree where the largest difference is at most 1e-5 of the largest contribution, and 1e-4 of interactions.

With --backend a GPU computes, and the figures are wall times of a call. Fangorn's rows and contributions stay on the
device; XGBoost's rows do, and its contributions come back to the host, as it has no other call.

With --output interactions a model takes as many rows as keep the result under 256 MB. With --background N
contributions are against the first N of the rows (interventional); the peer is then shap's TreeExplainer, and Woodelf
for interactions.

Peers are packages of the Python that runs this file, or of the one that --python names for a peer: xgboost 3.2,
lightgbm and catboost; woodelf_explainer and fasttreeshap where they install; xgboost-new is another XGBoost in an environment of
its own. A peer that is not there, or does not take a model, is left out and named.

Example:
  cargo build --release
  python3 benches/contributions/run.py shared/zoo --python xgboost-new=venv/bin/python --json contributions.json
  python3 benches/contributions/run.py shared/zoo --output interactions --peers xgboost
  python3 benches/contributions/run.py shared/zoo --background 100 --rows 256
  python3 benches/contributions/run.py shared/zoo --background 100 --output interactions --peers woodelf
  python3 benches/contributions/run.py shared/zoo --backend cuda --peers xgboost --rows 32768
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = (
    "xgb-higgs xgb-airline xgb-airline-ohe xgb-year xgb-bosch xgb-epsilon xgb-letters xgb-covtype lgb-higgs cat-higgs"
).split()
PEERS = ["xgboost", "xgboost-new", "lightgbm", "catboost", "woodelf", "fasttreeshap", "shap"]
TOLERANCE = {"contributions": 1e-5, "interactions": 1e-4}
# What computes: cpu, or the backend of a GPU.
BACKEND = "cpu"
# The peers that compute on a GPU.
ON_GPU = ("xgboost", "xgboost-new")
# The largest result of a call, in bytes.
MOST_BYTES = 256e6


def note(text):
    print(f"run.py: {text}", file=sys.stderr, flush=True)


def model_file(folder):
    for name in ("model.json", "model.ubj", "model.txt"):
        if (folder / name).is_file():
            return folder / name
    return None


def make_rows(folder, count):
    """The folder's rows, then the same ones with a noise of a thousandth."""
    import numpy as np

    rows = np.load(folder / "rows.npy").astype(np.float32)
    repeated = np.resize(rows, (count, rows.shape[1]))
    rng = np.random.default_rng(1)
    noise = 1 + 1e-3 * (2 * rng.random(repeated.shape, dtype=np.float32) - 1)
    noise[: len(rows)] = 1
    return np.ascontiguousarray((repeated * noise).astype(np.float32))


# ---------------------------------------------------------------- a peer's process


def xgboost_call(file, rows, output, background):
    import xgboost

    booster = xgboost.Booster({"nthread": 1}, model_file=str(file))
    booster.set_param({"nthread": 1})
    if BACKEND != "cpu":
        booster.set_param({"device": "cuda"})
    matrix = xgboost.DMatrix(rows, nthread=1)
    # Otherwise names in the file are asked of the rows.
    booster.feature_names = None
    if output == "interactions":
        return xgboost.__version__, lambda: booster.predict(matrix, pred_interactions=True)
    return xgboost.__version__, lambda: booster.predict(matrix, pred_contribs=True)


def lightgbm_call(file, rows, output, background):
    import lightgbm

    booster = lightgbm.Booster(model_file=str(file))
    rows = rows.astype("float64")
    return lightgbm.__version__, lambda: booster.predict(rows, pred_contrib=True, num_threads=1)


def catboost_call(file, rows, output, background):
    import catboost

    model = catboost.CatBoost()
    model.load_model(str(file), format="json")
    pool = catboost.Pool(rows)
    return catboost.__version__, lambda: model.get_feature_importance(pool, type="ShapValues", thread_count=1)


def is_of_catboost(file):
    """Whether a model file is CatBoost's JSON."""
    if file.suffix != ".json":
        return False
    with open(file, encoding="utf-8") as text:
        model = json.load(text)
    return "learner" not in model and ("oblivious_trees" in model or "trees" in model)


def own_model(file):
    """The model as its library's own object."""
    if file.suffix == ".txt":
        import lightgbm

        return lightgbm.Booster(model_file=str(file))
    import xgboost

    booster = xgboost.Booster(model_file=str(file))
    booster.feature_names = None
    return booster


def woodelf_call(file, rows, output, background):
    from importlib.metadata import version

    import numpy as np
    import pandas
    import woodelf

    names = [f"f{i}" for i in range(rows.shape[1])]
    frame = pandas.DataFrame(rows, columns=names)
    if output == "contributions":
        explainer = woodelf.WoodelfExplainer(own_model(file))
        return version("woodelf_explainer"), lambda: explainer.shap_values(frame)
    explainer = woodelf.WoodelfExplainer(own_model(file), pandas.DataFrame(background, columns=names))

    def interactions():
        # Pairs of features, then outputs; without the bias.
        found = np.asarray(explainer.shap_interaction_values(frame))
        return np.moveaxis(found.reshape(*found.shape[:3], -1), 3, 1)

    return version("woodelf_explainer"), interactions


def fasttreeshap_call(file, rows, output, background):
    import fasttreeshap

    explainer = fasttreeshap.TreeExplainer(own_model(file), algorithm="auto", n_jobs=1)
    return fasttreeshap.__version__, lambda: explainer.shap_values(rows, check_additivity=False)


def shap_call(file, rows, output, background):
    import shap

    explainer = shap.TreeExplainer(
        own_model(file), data=background, feature_perturbation="interventional", model_output="raw"
    )
    return shap.__version__, lambda: explainer.shap_values(rows, check_additivity=False)


# For each peer: its call, the files that it reads, and what it computes.
CALLS = {
    "xgboost": (xgboost_call, (".json", ".ubj"), ("contributions", "interactions")),
    "xgboost-new": (xgboost_call, (".json", ".ubj"), ("contributions", "interactions")),
    "lightgbm": (lightgbm_call, (".txt",), ("contributions",)),
    "catboost": (catboost_call, (".json",), ("contributions",)),
    "woodelf": (woodelf_call, (".json", ".ubj", ".txt"), ("contributions", "interactions against a background")),
    "fasttreeshap": (fasttreeshap_call, (".json", ".ubj", ".txt"), ("contributions",)),
    "shap": (shap_call, (".json", ".ubj", ".txt"), ("contributions against a background",)),
}


def flattened(values, columns):
    """Contributions as rows x outputs x columns, without the bias."""
    import numpy as np

    values = np.asarray(values)
    if values.ndim == 3 and values.shape[0] != ROWS:  # outputs first
        values = values.transpose(1, 0, 2)
    if values.ndim == 3 and values.shape[1] == columns:  # outputs last
        values = values.transpose(0, 2, 1)
    if values.ndim == 2:
        wide = columns + 1 if values.shape[1] % (columns + 1) == 0 else columns
        values = values.reshape(len(values), -1, wide)
    return values[:, :, :columns].astype(np.float64)


def peer(name, file, rows, expected, seconds, output, background, backend):
    """A peer's process: answers a line with the version and the difference, then a line of times for each line read."""
    global ROWS, BACKEND
    import numpy as np

    BACKEND = backend
    clock = time.process_time if backend == "cpu" else time.perf_counter

    rows, expected = np.load(rows), np.load(expected, mmap_mode="r")
    ROWS = len(rows)
    background = np.load(background) if background else None
    version, call = CALLS[name][0](pathlib.Path(file), rows, output, background)
    if output == "interactions":
        found, wanted, columns = np.asarray(call()), np.asarray(expected), rows.shape[1]
        if found.shape[-1] == columns:
            wanted = wanted.reshape(len(rows), -1, columns + 1, columns + 1)[..., :columns, :columns]
        found, wanted = found.reshape(-1), wanted.reshape(-1)
    else:
        found, wanted = flattened(call(), rows.shape[1]), flattened(expected, rows.shape[1])
    difference = float(np.abs(found - wanted).max() / np.abs(wanted).max())
    print(json.dumps({"version": version, "difference": difference}), flush=True)
    for _ in sys.stdin:
        times, begin = [], time.perf_counter()
        while not times or time.perf_counter() - begin < seconds:
            start = clock()
            call()
            times.append((clock() - start) * 1e6 / len(rows))
        print(json.dumps(times), flush=True)


class Peer:
    def __init__(self, name, args, file, rows, expected):
        python = args.python.get(name, sys.executable)
        line = [python, "-W", "ignore", __file__, "--peer", name, file, rows, expected, str(args.seconds), args.output,
                args.background_file or "", args.backend]
        single = dict(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")
        self.process = subprocess.Popen(
            [str(word) for word in line], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**os.environ, **single},
        )
        self.times = []
        answer = self.answer()
        self.version, self.difference = answer["version"], answer["difference"]

    def answer(self):
        while line := self.process.stdout.readline():
            try:
                return json.loads(line)
            except ValueError:  # a warning of the library
                continue
        lines = self.process.stderr.read().strip().splitlines()
        raise RuntimeError(lines[-1] if lines else "it ended without an answer")

    def turn(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.times += self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---------------------------------------------------------------- the run


def against(args):
    return ["--background", args.background_file] if args.background_file else []


def fangorn_turn(args, file, rows, count):
    line = [args.fangorn, "bench", file, "--rows", rows, "--batch", str(count), "--output", args.output,
            "--seconds", str(args.seconds), "--json", "--backend", args.backend, *against(args)]
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["results"][0]


def time_model(args, name, scratch):
    import numpy as np

    folder = args.models / name
    file = model_file(folder)
    if file is None:
        note(f"{name}: no model of XGBoost, LightGBM or CatBoost in {folder}; left out")
        return None
    rows, expected = scratch / "rows.npy", scratch / "expected.npy"
    made = make_rows(folder, args.rows)
    args.background_file = scratch / "background.npy" if args.background else None
    if args.background:
        np.save(args.background_file, made[: args.background])

    def predict():
        np.save(rows, made)
        line = [args.fangorn, "predict", file, "--rows", rows, "--output", args.output, "-o", expected,
                "--backend", args.backend, *against(args)]
        subprocess.run([str(word) for word in line], check=True, capture_output=True)
        return np.load(expected, mmap_mode="r").nbytes / len(made)

    if args.output == "interactions":
        every, made = made, made[:1]
        made = every[: max(1, int(MOST_BYTES / predict()))]
    predict()
    peers, of_catboost = {}, is_of_catboost(file)
    for peer in args.peers:
        asked = f"{args.output} against a background" if args.background else args.output
        if file.suffix not in CALLS[peer][1] or asked not in CALLS[peer][2]:
            continue
        if of_catboost != (peer == "catboost"):
            continue
        if args.backend != "cpu" and peer not in ON_GPU:
            continue
        if peer == "xgboost-new" and peer not in args.python:
            continue
        try:
            peers[peer] = Peer(peer, args, file, rows, expected)
        except RuntimeError as error:
            note(f"{name}: {peer} is left out: {error}")
    ours, plan = [], ""
    for _ in range(args.rounds):
        result = fangorn_turn(args, file, rows, len(made))
        ours.append(result["cpu_us_per_row_median" if args.backend == "cpu" else "wall_us_per_row_median"])
        plan = result["schedule"]
        for peer in peers.values():
            peer.turn()
    found = {"model": name, "rows": len(made), "plan": plan, "fangorn": statistics.median(ours), "peers": {}}
    for peer, timed in peers.items():
        timed.close()
        median = statistics.median(timed.times)
        found["peers"][peer] = {
            "version": timed.version, "us_per_row": median, "ratio": median / found["fangorn"],
            "difference": timed.difference, "agrees": timed.difference <= TOLERANCE[args.output],
        }
    return found


def table(results, peers):
    lines = ["| model | rows | fangorn, us a row | " + " | ".join(f"{p}, us | times" for p in peers) + " |"]
    lines.append("|---|--:|--:" + "|--:|--:" * len(peers) + "|")
    for found in results:
        cells = [found["model"], str(found["rows"]), f"{found['fangorn']:.2f}"]
        for peer in peers:
            timed = found["peers"].get(peer)
            mark = "" if not timed or timed["agrees"] else "†"
            cells += [f"{timed['us_per_row']:.1f}{mark}", f"{timed['ratio']:.1f}"] if timed else ["-", "-"]
        lines.append("| " + " | ".join(cells) + " |")
    cells = ["geometric mean", "", ""]
    for peer in peers:
        ratios = [found["peers"][peer]["ratio"] for found in results if peer in found["peers"]]
        cells += ["", f"{math.exp(statistics.fmean(map(math.log, ratios))):.1f}" if ratios else "-"]
    lines.append("| " + " | ".join(cells) + " |")
    producers = [
        f["peers"][p]["ratio"] for f in results for p in ("xgboost", "lightgbm", "catboost") if p in f["peers"]
    ]
    if producers:
        mean = math.exp(statistics.fmean(map(math.log, producers)))
        lines.append(f"\nBeside the models' own libraries (xgboost, lightgbm, catboost): {mean:.1f} times, geometric mean.")
    for found in results:
        for peer, timed in found["peers"].items():
            if not timed["agrees"]:
                lines.append(f"† {found['model']}, {peer}: values differ by {timed['difference']:.1e} of the largest")
    versions = {p: f["peers"][p]["version"] for f in results for p in peers if p in f["peers"]}
    lines.append("Versions: " + ", ".join(f"{peer} {version}" for peer, version in versions.items()))
    return "\n".join(lines)


def main():
    if sys.argv[1:2] == ["--peer"]:
        name, file, rows, expected, seconds, output, background, backend = sys.argv[2:]
        return peer(name, file, rows, expected, float(seconds), output, background, backend)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("models", type=pathlib.Path, metavar="MODELS", help="the folder of the models' folders")
    add("--only", metavar="NAME,…", help=f"models (default: {','.join(MODELS)})")
    add("--peers", default=",".join(PEERS), metavar="NAME,…", help="peers (default: %(default)s)")
    add("--python", action="append", default=[], metavar="PEER=FILE", help="the Python of a peer")
    add("--fangorn", type=pathlib.Path, default=ROOT / "target/release/fangorn", metavar="FILE",
        help="the program (default: target/release/fangorn)")
    add("--backend", default="cpu", metavar="B", help="cpu, or a GPU's backend that is built in (default: %(default)s)")
    add("--rows", type=int, default=4096, help="rows of a call (default: %(default)s)")
    add("--output", choices=sorted(TOLERANCE), default="contributions", help="what is computed (default: %(default)s)")
    add("--background", type=int, default=0, metavar="N", help="against the first N rows")
    add("--rounds", type=int, default=5, help="turns of each library (default: %(default)s)")
    add("--seconds", type=float, default=1.0, help="least time of a turn (default: %(default)s)")
    add("--json", type=pathlib.Path, metavar="FILE", help="also writes the figures there")
    args = parser.parse_args()
    args.only = args.only.split(",") if args.only else MODELS
    args.peers = args.peers.split(",")
    if unknown := [name for name in args.peers if name not in CALLS]:
        parser.error(f"unknown peer {unknown[0]}; there are {', '.join(PEERS)}")
    if any("=" not in pair for pair in args.python):
        parser.error("--python takes PEER=FILE")
    args.python = dict(pair.split("=", 1) for pair in args.python)
    if not args.fangorn.is_file():
        parser.error(f"{args.fangorn} is not there; cargo build --release makes it, --fangorn names another")
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in args.only:
            note(name)
            if found := time_model(args, name, pathlib.Path(scratch)):
                results.append(found)
    if not results:
        return 2
    print(table(results, [p for p in args.peers if any(p in found["peers"] for found in results)]))
    if args.json:
        args.json.write_text(json.dumps({"output": args.output, "background": args.background, "results": results}, indent=1) + "\n")
    return 0 if all(timed["agrees"] for found in results for timed in found["peers"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
