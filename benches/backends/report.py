#!/usr/bin/env python3
"""Makes results.md and results.png of a results.tsv of benches/backends/run.py.

    python3 benches/backends/report.py target/backends-bench/results/results.tsv
    python3 benches/backends/report.py results.tsv --only xgb-higgs,churn --batches 1,4096

Runs may lie in one file, one after the other: a run is a commit's rows of a
day, and what it times is held against its own native target only.

machine.json beside it says what it was measured on. The plot needs matplotlib;
without it one line says so and the table is made alone.
"""

import argparse
import collections
import importlib.util
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("peers_report", HERE.parent / "peers" / "report.py")
peers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peers)
geomean, unique = peers.geomean, peers.unique
NATIVE = "cpu"
LABELS = {NATIVE: "native CPU", "ndarray": "NdArray", "flex": "Flex", "vulkan": "Vulkan", "cubecl-cpu": "cubecl CPU", "cuda": "CUDA"}


def figure(us):
    return peers.figure(us) if us >= 0.001 else "<0.001"


def timed(rows):
    return [r for r in rows if r["resident_us"]]


def runs(rows):
    """The rows of each run, in the file's order."""
    of_run = collections.defaultdict(list)
    for row in rows:
        of_run[row["date"], row["commit"], row["machine"], row["threads"]].append(row)
    return list(of_run.values())


def label(backend, rows):
    """A backend's name; a GPU that is software is said to be."""
    software = any(r["backend"] == backend and r["software"] == "yes" for r in rows)
    return LABELS.get(backend, backend) + (" (software)" if software else "")


def cells(rows):
    """(model, batch) -> backend -> its row, of one run."""
    table = collections.defaultdict(dict)
    for row in timed(rows):
        table[row["model"], int(row["batch"])][row["backend"]] = row
    return table


def devices(rows, backends):
    """What each backend ran on, and what it takes to the first margins."""
    lines = ["| backend | device | models | first margins of a model, ms |", "|---|---|---:|---:|"]
    for backend in backends:
        own = [r for r in timed(rows) if r["backend"] == backend]
        # One for each model: the batches of a model share it.
        compiled = {r["model"]: float(r["compile_ms"]) for r in own}
        took = sorted(compiled.values())
        device = ", ".join(unique(r["device"] for r in own))
        words = f"{figure(took[len(took) // 2])} ({figure(took[0])} to {figure(took[-1])})"
        lines.append(f"| {label(backend, rows)} | {device} | {len(compiled)} | {words} |")
    return lines


def means(rows, backends):
    """Geometric means by batch, over the models that every backend has run."""
    table = cells(rows)
    lines = ["| batch | models | " + " | ".join(label(b, rows) for b in backends) + " |", "|---:|---:|" + "---:|" * len(backends)]
    for batch in sorted({batch for _, batch in table}):
        of_batch = [line for (_, b), line in table.items() if b == batch and all(name in line for name in backends)]
        words = []
        for backend in backends:
            us = geomean([float(line[backend]["resident_us"]) / batch for line in of_batch])
            both = [transfers(line[backend], batch) for line in of_batch]
            moved = "" if not both or None in both else f" + {figure(geomean(both))}"
            words.append(f"{figure(us)}{moved}" if us else "")
        lines.append(f"| {batch} | {len(of_batch)} | " + " | ".join(words) + " |")
    return lines


def transfers(row, batch):
    """Microseconds a row of both ways, where there are any."""
    if not row["to_device_us"]:
        return None
    return max(1e-6, (float(row["to_device_us"]) + float(row["to_host_us"])) / batch)


def comparison(rows, backends, only, batches):
    """Microseconds a row of every backend, the ways of rows and margins behind them."""
    lines = [
        "| model | trees | batch | " + " | ".join(label(b, rows) for b in backends) + " |",
        "|---|---:|---:|" + "---:|" * len(backends),
    ]
    last = None
    for (model, batch), line in cells(rows).items():
        if (only and model not in only) or (batches and batch not in batches):
            continue
        fastest = min(float(r["resident_us"]) for r in line.values())
        words = []
        for backend in backends:
            row = line.get(backend)
            if row is None:
                words.append("")
                continue
            us = float(row["resident_us"])
            word = figure(us / batch)
            word = f"**{word}**" if us == fastest else word
            if row["to_device_us"]:
                word += f" + {figure(float(row['to_device_us']) / batch)} + {figure(float(row['to_host_us']) / batch)}"
            words.append(word)
        trees = next(iter(line.values()))["trees"]
        head = f"{model} | {trees}" if model != last else " | "
        lines.append(f"| {head} | {batch} | " + " | ".join(words) + " |")
        last = model
    return lines


def remarks(rows):
    """Everything that is not timed, each reason once."""
    by_text = collections.defaultdict(list)
    for r in rows:
        if r["check"] != "ok":
            by_text[f"{LABELS.get(r['backend'], r['backend'])}, {r['check']}"].append(r["model"])
    return [f"- {text}" + ("" if models == ["all"] else f" — {', '.join(unique(models))}") for text, models in by_text.items()]


def markdown(rows, about, only, batches):
    machine = [f"- {key}: {value}" for key, value in (about or {"machine": rows[0]["machine"]}).items()]
    lines = ["# Fangorn's backends", "", *machine, ""]
    for run in runs(rows):
        lines += section(run, only, batches)
    return "\n".join(lines).rstrip() + "\n"


def section(rows, only, batches):
    """A run's tables."""
    first = rows[0]
    backends = unique(r["backend"] for r in timed(rows))
    lines = [f"{first['date']}, commit {first['commit']}, {first['threads']} thread(s).", ""]
    if backends:
        lines += [*devices(rows, backends), ""]
        lines += [
            "Microseconds a row on the wall, medians: rows that lie on the device to margins that are there, + both ways where "
            "there are any. Geometric means over the models that all of these backends ran.",
            "",
            *means(rows, backends),
            "",
            "The same by model, + rows to the device + margins back; the least of a line in bold.",
            "",
            *comparison(rows, backends, only, batches),
            "",
        ]
    left = remarks(rows)
    if left:
        lines += ["Not timed:", "", *left, ""]
    return lines


def plot(rows, file):
    """Each backend's microseconds a row over the native target's, a point a model, a panel a batch size; gives whether
    matplotlib is there."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return False
    tables = [cells(run) for run in runs(rows)]
    batches = sorted({batch for table in tables for _, batch in table})
    backends = [b for b in unique(r["backend"] for r in timed(rows)) if b != NATIVE]
    if not batches or not backends:
        return True
    across = min(2, len(batches))
    down = -(-len(batches) // across)
    drawing, panels = plt.subplots(down, across, figsize=(5.2 * across, 4.4 * down + 0.7), squeeze=False)
    colours = dict(zip(backends, plt.get_cmap("tab10").colors))
    for panel, batch in zip(panels.flat, batches):
        lines = [line for table in tables for (_, b), line in table.items() if b == batch and NATIVE in line]
        for backend in backends:
            pairs = [(float(l[NATIVE]["resident_us"]), l[backend]) for l in lines if backend in l]
            x = [native / batch for native, _ in pairs]
            there = [float(r["resident_us"]) / batch for _, r in pairs]
            moved = [y + (transfers(r, batch) or 0) for y, (_, r) in zip(there, pairs)]
            panel.scatter(x, there, s=14, color=colours[backend], linewidths=0, label=label(backend, rows))
            panel.scatter(x, moved, s=16, facecolors="none", edgecolors=colours[backend], linewidths=0.6)
        native = [float(line[NATIVE]["resident_us"]) / batch for line in lines]
        if native:
            ends = [min(native), max(native)]
            panel.plot(ends, ends, color="black", linewidth=0.8, label=LABELS[NATIVE])
        panel.set_title(f"{batch} row(s) a call", fontsize=10)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.grid(True, which="major", alpha=0.3)
    for panel in list(panels.flat)[len(batches) :]:
        panel.set_visible(False)
    for panel in panels[:, 0]:
        panel.set_ylabel("microseconds a row; hollow: with both ways", fontsize=9)
    for panel in panels[-1]:
        panel.set_xlabel("microseconds a row on the native CPU target, a point a model", fontsize=9)
    handles, labels = panels[0][0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="lower center", ncols=min(5, len(labels)), fontsize=8, frameon=False)
    first = rows[0]
    commits = ", ".join(unique(r["commit"] for r in rows))
    title = f"{first['machine']}, {first['threads']} thread(s), {first['date']}, commit {commits}"
    drawing.suptitle(title, fontsize=9)
    drawing.tight_layout(rect=(0, 0.5 / (4.4 * down + 0.7), 1, 1))
    drawing.savefig(file, dpi=110)
    plt.close(drawing)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path, help="results.tsv")
    parser.add_argument("--only", default="", help="models of the long table, separated by commas (default: all)")
    parser.add_argument("--batches", default="", help="batch sizes of the long table (default: all)")
    args = parser.parse_args()
    rows = peers.read(args.results)
    if not rows:
        print(f"report.py: {args.results} has no rows; nothing was timed", file=sys.stderr)
        return
    stem, about = args.results.with_suffix(""), args.results.with_name("machine.json")
    only = [name for name in args.only.split(",") if name]
    batches = [int(batch) for batch in args.batches.split(",") if batch]
    made = markdown(rows, json.loads(about.read_text()) if about.is_file() else None, only, batches)
    stem.with_suffix(".md").write_text(made)
    # Rows as JSON have standard output to themselves.
    print(stem.with_suffix(".md"), file=sys.stderr)
    if plot(rows, stem.with_suffix(".png")):
        print(stem.with_suffix(".png"), file=sys.stderr)
    else:
        print("report.py: no plot without matplotlib; pip install matplotlib", file=sys.stderr)


if __name__ == "__main__":
    main()
