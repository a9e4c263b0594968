#!/usr/bin/env python3
"""Times one engine on one model, on request: benches/gpu/run.py starts it.

    python3 benches/gpu/worker.py ENGINE --model model.json --rows rows.npy --out DIR --device cuda|cpu

Requests come a line each on standard input, answers go as lines of JSON to
standard output, as in `fangorn-benches gpu --serve`:

    open BATCH SECONDS   load the first BATCH rows, warm up, write margins and leaves to DIR
    time SECONDS         time the engine
    quit

Engines: xgboost (inplace_predict), xgboost-dmatrix, nvforest, hummingbird.
All of them predict margins: nothing after the sums is in any figure.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import sys
import time

MOST = 4000  # samples of one measurement
LEAST = 3
QUEUED = 16  # calls before one wait
QUEUED_BYTES = 512 << 20
MOST_LEAVES = 1 << 24


class Cupy:
    """Arrays on the device, its clock, and the wait for it."""

    def __init__(self):
        import cupy

        self.cupy = cupy
        self.name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()

    def to_device(self, rows):
        return self.cupy.asarray(rows)

    def to_host(self, values):
        return self.cupy.asnumpy(values)

    def sync(self):
        self.cupy.cuda.runtime.deviceSynchronize()

    def free(self):
        self.cupy.get_default_memory_pool().free_all_blocks()

    def clocked(self, call):
        """Microseconds of a call between two events. The legacy default stream waits for the others, and they for it."""
        stream = self.cupy.cuda.Stream.null
        begin, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        begin.record(stream)
        kept = call()
        end.record(stream)
        end.synchronize()
        del kept
        return self.cupy.cuda.get_elapsed_time(begin, end) * 1e3


class Host:
    """The same where everything lies in the host's memory."""

    name = "the host's processor"

    def to_device(self, rows):
        return rows

    def to_host(self, values):
        return values

    def sync(self):
        pass

    def free(self):
        pass

    def clocked(self, call):
        return None


class Torch:
    """The same for torch's tensors."""

    def __init__(self, device):
        import torch

        self.torch, self.device = torch, device
        self.name = torch.cuda.get_device_name(0) if device == "cuda" else Host.name

    def to_device(self, rows):
        return self.torch.from_numpy(rows).to(self.device)

    def to_host(self, values):
        return values.cpu().numpy()

    def sync(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def free(self):
        if self.device == "cuda":
            self.torch.cuda.empty_cache()

    def clocked(self, call):
        if self.device != "cuda":
            return None
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        kept = call()
        end.record()
        end.synchronize()
        del kept
        return begin.elapsed_time(end) * 1e3


class Xgboost:
    """`inplace_predict` on an array that lies on the device."""

    versions = ["xgboost"]
    fresh = False  # whether each call needs an input of its own

    def __init__(self, model, device):
        import xgboost

        self.xgb = xgboost
        self.at = Cupy() if device == "cuda" else Host()
        self.device = device
        self.booster = xgboost.Booster(model_file=model)
        self.booster.set_param({"device": device})

    def prepare(self, rows, seconds):
        return "inplace_predict"

    def input(self, x):
        return x

    def margins(self, x):
        return self.booster.inplace_predict(x, predict_type="margin", validate_features=False)

    def leaves(self, x):
        return self.booster.predict(self.xgb.DMatrix(x), pred_leaf=True, validate_features=False)


class XgboostMatrix(Xgboost):
    """`predict` on a DMatrix of such an array. XGBoost remembers what it said of a DMatrix, so each call gets a new one:
    made before the clock starts, but within the total."""

    fresh = True

    def prepare(self, rows, seconds):
        return "predict(DMatrix)"

    def input(self, x):
        return self.xgb.DMatrix(x)

    def margins(self, x):
        return self.booster.predict(x, output_margin=True, validate_features=False)


class Nvforest:
    """nvForest with the layout and chunk size that its own `optimize` finds for the batch."""

    versions = ["nvforest-cu13", "libnvforest-cu13", "treelite"]
    fresh = False

    def __init__(self, model, device):
        import nvforest
        import treelite

        tree_model = treelite.frontend.load_xgboost_model(model, format_choice="json")
        # Margins: no sigmoid, no softmax.
        tree_model.get_header_accessor().set_field("postprocessor", "identity")
        self.at = Cupy() if device == "cuda" else Host()
        kind = "gpu" if device == "cuda" else "cpu"
        self.first = nvforest.load_from_treelite_model(tree_model, device=kind)
        # predict of a classifier would pick a class.
        self.method = "predict_proba" if self.first.is_classifier else "predict"
        self.forest = self.first

    def prepare(self, x, seconds):
        self.forest = self.first.optimize(data=x, timeout=max(0.2, seconds), predict_method=self.method)
        return f"{self.forest.layout}, chunks of {self.forest.default_chunk_size}"

    def input(self, x):
        return x

    def margins(self, x):
        return getattr(self.forest, self.method)(x)

    def leaves(self, x):
        return self.forest.apply(x)


class Hummingbird:
    """Hummingbird's tensor program on torch, of the strategy that it picks by depth. It knows no missing values."""

    versions = ["hummingbird-ml", "torch"]
    fresh = False

    def __init__(self, model, device):
        import types

        import torch
        from hummingbird.ml.operator_converters import _gbdt_commons, _tree_commons

        if device != "cuda" and hasattr(os, "sched_getaffinity"):
            torch.set_num_threads(len(os.sched_getaffinity(0)))
        self.at = Torch(device)
        with open(model) as file:
            learner = json.load(file)["learner"]
        booster = learner["gradient_booster"]["model"]
        outputs = max(1, int(learner["learner_model_param"]["num_class"]))
        trees, info = booster["trees"], booster["tree_info"]
        # The converter wants the trees of one class after those of another.
        trees = [trees[i] for i in sorted(range(len(trees)), key=lambda i: info[i])]
        features = int(learner["learner_model_param"]["num_feature"])
        base = base_margins(learner, outputs)
        # The converter for XGBoost reads dumps of versions before 3; what it makes of them is called here.
        variable = types.SimpleNamespace(full_name="x")
        operator = types.SimpleNamespace(full_name="forest", inputs=[variable], outputs=[variable])
        config = {"post_transform": None}
        classes = list(range(outputs)) if outputs > 1 else None
        made = _gbdt_commons.convert_gbdt_common(
            operator, trees, tree_parameters, features, classes, extra_config=config, decision_cond="<"
        )
        # The margins alone, without the class of the largest.
        made.regression, made.classification = True, False
        made.post_transform = _tree_commons.ApplyBasePredictionPostTransform(torch.tensor(base, device=device))
        self.strategy = type(made).__name__.removesuffix("GBDTImpl")
        self.module, self.torch = made.to(device).eval(), torch

    def prepare(self, x, seconds):
        return self.strategy

    def input(self, x):
        return x

    def margins(self, x):
        with self.torch.no_grad():
            return self.module(x)

    leaves = None


def base_margins(learner, outputs):
    """The base score of each output, as a margin."""
    import math

    text = learner["learner_model_param"]["base_score"]
    scores = [float(word) for word in text.strip("[]").split(",")]
    scores = scores * outputs if len(scores) == 1 else scores
    link = learner["objective"]["name"]
    if link in ("binary:logistic", "reg:logistic"):
        return [math.log(s / (1 - s)) for s in scores]
    if link in ("multi:softprob", "multi:softmax", "reg:squarederror", "binary:logitraw"):
        return scores
    raise SystemExit(f"hummingbird: the base score of {link} is not known here")


def tree_parameters(tree, config):
    """A tree of XGBoost's JSON in Hummingbird's terms, each child behind its parent."""
    from hummingbird.ml.operator_converters._tree_commons import TreeParameters

    left, right = tree["left_children"], tree["right_children"]
    order, at = [0], {0: 0}
    for node in order:
        if left[node] >= 0:
            for child in (left[node], right[node]):
                at[child] = len(order)
                order.append(child)
    inner = [left[n] >= 0 for n in order]
    return TreeParameters(
        [at[left[n]] if i else -1 for n, i in zip(order, inner)],
        [at[right[n]] if i else -1 for n, i in zip(order, inner)],
        [tree["split_indices"][n] if i else 0 for n, i in zip(order, inner)],
        [tree["split_conditions"][n] if i else 0.0 for n, i in zip(order, inner)],
        [[-1.0 if i else tree["split_conditions"][n]] for n, i in zip(order, inner)],
    )


ENGINES = {"xgboost": Xgboost, "xgboost-dmatrix": XgboostMatrix, "nvforest": Nvforest, "hummingbird": Hummingbird}


def samples(seconds, sample):
    begin = time.perf_counter()
    times = []
    while len(times) < MOST and (len(times) < LEAST or time.perf_counter() - begin < seconds):
        took = sample()
        if took is None:
            break
        times.append(took)
    return times


class Session:
    def __init__(self, np, engine, rows, out, check):
        self.np, self.engine, self.rows, self.out, self.check = np, engine, rows, out, check
        self.host = self.x = None

    def open(self, batch, seconds):
        np, engine, at = self.np, self.engine, self.engine.at
        self.host = self.x = None
        at.free()
        # Rows that are fewer than the batch come again.
        self.host = np.ascontiguousarray(np.resize(self.rows, (batch, self.rows.shape[1])))
        self.x = at.to_device(self.host)
        at.sync()
        begin = time.perf_counter()
        first = engine.margins(engine.input(self.x))
        at.sync()
        first_ms = (time.perf_counter() - begin) * 1e3
        setting = engine.prepare(self.x, seconds)
        samples(seconds, self.resident)
        margins = at.to_host(engine.margins(engine.input(self.x))).reshape(batch, -1).astype(np.float32)
        del first
        np.save(self.out / "margins.npy", margins)
        written = {"margins": str(self.out / "margins.npy")}
        if engine.leaves:
            trees = at.to_host(engine.leaves(self.x[:1])).shape[-1]
            count = max(1, min(batch, self.check, MOST_LEAVES // trees))
            leaves = at.to_host(engine.leaves(self.x[:count])).reshape(count, -1)
            np.save(self.out / "leaves.npy", leaves.astype(np.int32))
            written["leaves"] = str(self.out / "leaves.npy")
        self.bytes = margins.nbytes
        return {"kind": "opened", "batch": batch, "setting": setting, "first_ms": first_ms, "written": written}

    def resident(self):
        """A call and the wait for it, of rows on the device to margins on it."""
        x = self.engine.input(self.x)
        self.engine.at.sync()
        begin = time.perf_counter()
        kept = self.engine.margins(x)
        self.engine.at.sync()
        took = (time.perf_counter() - begin) * 1e6
        del kept
        return took

    def device(self):
        x = self.engine.input(self.x)
        self.engine.at.sync()
        return self.engine.at.clocked(lambda: self.engine.margins(x))

    def queued(self):
        calls = max(1, min(QUEUED, QUEUED_BYTES // max(1, self.bytes)))
        begin = time.perf_counter()
        kept = [self.engine.margins(self.x) for _ in range(calls)]
        self.engine.at.sync()
        took = (time.perf_counter() - begin) * 1e6 / calls
        del kept
        return took

    def total(self):
        """From rows in the host's memory to margins in it."""
        begin = time.perf_counter()
        x = self.engine.input(self.engine.at.to_device(self.host))
        margins = self.engine.at.to_host(self.engine.margins(x))
        took = (time.perf_counter() - begin) * 1e6
        del margins
        return took

    def time(self, seconds):
        return {
            "kind": "timed",
            "times": {
                "resident": samples(0.4 * seconds, self.resident),
                "queued": [] if self.engine.fresh else samples(0.2 * seconds, self.queued),
                "device": samples(0.1 * seconds, self.device),
                "total": samples(0.3 * seconds, self.total),
            },
        }


def one_line(error):
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:400]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--model", required=True, help="a model of XGBoost's, .json")
    parser.add_argument("--rows", required=True, help="float32 rows x features, .npy; NaN is missing")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="a folder for results")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--check", type=int, default=4096, help="rows whose leaves are written (default: %(default)s)")
    args = parser.parse_args()

    # Answers have standard output to themselves: libraries print there too.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(what):
        print(json.dumps(what), file=answers, flush=True)

    try:
        import numpy as np

        made = ENGINES[args.engine]
        engine = made(args.model, args.device)
        rows = np.load(args.rows, mmap_mode="r")
        versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in made.versions)
    except Exception as error:  # anything at all may be wrong with a library that is not ours
        say({"kind": "failed", "error": one_line(error)})
        sys.exit(2)
    say({"kind": "device", "version": versions, "device": engine.at.name})
    session = Session(np, engine, rows, args.out, args.check)
    for request in sys.stdin:
        words = request.split()
        try:
            if words[:1] == ["open"]:
                say(session.open(int(words[1]), float(words[2])))
            elif words[:1] == ["time"]:
                say(session.time(float(words[1])))
            elif words == ["quit"]:
                return
            else:
                sys.exit(f"{request.strip()}: not a request; open BATCH SECONDS, time SECONDS or quit")
        except Exception as error:  # out of memory, mostly
            session.x = None
            say({"kind": "failed", "error": one_line(error)})


if __name__ == "__main__":
    main()
