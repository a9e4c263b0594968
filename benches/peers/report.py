#!/usr/bin/env python3
"""Makes results.md, results.png, results.svg and results-summary.png of a results.tsv of benches/peers/run.py.

    python3 benches/peers/report.py target/peers-bench/results/results.tsv

machine.json beside it says what it was measured on. The plot needs matplotlib;
without it one line says so and the table is made alone.
"""

import collections
import csv
import json
import math
import pathlib
import sys

OURS = "fangorn"
# What the fastest of is the front; LightGBM and CatBoost read only models of their own.
FRONT = ["onedal", "xgboost", "tl2cgen-quantize", "onnxruntime", "lightgbm", "catboost"]


def read(file):
    with open(file, newline="") as f:
        return list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))


def unique(values):
    return list(dict.fromkeys(values))


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def figure(us):
    return f"{us:.0f}" if us >= 1000 else f"{us:.1f}" if us >= 100 else f"{us:.2f}" if us >= 10 else f"{us:.3f}"


def clock(rows):
    """What is compared: time on the processor of one thread, on the wall of more."""
    return "cpu" if rows[0]["threads"] == "1" else "wall"


def cells(rows, metric):
    """(model, batch) -> engine -> the row of a metric."""
    table = collections.defaultdict(dict)
    for row in rows:
        if row["metric"] == metric:
            table[row["model"], int(row["batch"])][row["engine"]] = row
    return table


def counts(row):
    """Whether a figure is of the same work as ours."""
    return not row["check"].startswith("differs")


def front(line, value):
    """The fastest engine of the front, and its time."""
    able = [(float(line[e][value]), e) for e in FRONT if e in line and counts(line[e])]
    return min(able, default=None)


def comparison(rows, engines):
    """Microseconds a row of every engine, the front, and how many times ours it takes."""
    table = cells(rows, clock(rows))
    engines = [e for e in engines if any(e in line for line in table.values())]
    what = "Time of the calling thread on the processor" if clock(rows) == "cpu" else "Time on the wall"
    lines = [
        "## Microseconds a row",
        "",
        f"{what}, medians of all rounds; the fastest of a line in bold. The front is the fastest of "
        f"{', '.join(FRONT[:-1])} and {FRONT[-1]}; the ratio, how many times our default's time it takes: above 1 ours is "
        "faster. In brackets the same ratio of the least times. † differs from our results and counts nowhere; ‡ gives "
        "outputs, not margins.",
        "",
        "| model | batch | " + " | ".join(engines) + " | front | ratio |",
        "|---|---:|" + "---:|" * len(engines) + "---|---:|",
    ]
    ratios = {value: collections.defaultdict(list) for value in ("median", "least")}
    others = collections.defaultdict(lambda: collections.defaultdict(list))
    for (model, batch), line in table.items():
        able = [float(r["median"]) for r in line.values() if counts(r)]
        words = []
        for engine in engines:
            row = line.get(engine)
            if row is None:
                words.append("")
                continue
            us = float(row["median"])
            word = f"**{figure(us)}**" if counts(row) and us == min(able) else figure(us)
            words.append(word + (" †" if not counts(row) else " ‡" if "outputs" in row["check"] else ""))
        ahead, ratio = front(line, "median"), ""
        if OURS in line:
            for engine in engines:
                if engine in line and counts(line[engine]):
                    others[batch][engine].append(float(line[engine]["median"]) / float(line[OURS]["median"]))
            if ahead:
                both = {value: front(line, value)[0] / float(line[OURS][value]) for value in ratios}
                for value, of_batch in ratios.items():
                    of_batch[batch].append(both[value])
                ratio = f"{both['median']:.2f} ({both['least']:.2f})"
        lines.append(f"| {model} | {batch} | " + " | ".join(words) + f" | {ahead[1] if ahead else ''} | {ratio} |")
    return [*lines, "", *means(engines, ratios, others)]


def means(engines, ratios, others):
    """Geometric means of ratios to ours, by batch."""
    engines = [e for e in engines if e != OURS]
    lines = [
        "## Geometric means",
        "",
        "How many times our default's time, over the models that the engine takes (how many).",
        "",
        "| batch | front | front, least times | " + " | ".join(engines) + " |",
        "|---:|---:|---:|" + "---:|" * len(engines),
    ]

    def word(values):
        return f"{geomean(values):.2f} ({len(values)})" if values else ""

    pooled = {value: [r for of_batch in ratios[value].values() for r in of_batch] for value in ratios}
    for batch in [*sorted(others), "all"]:
        if batch == "all":
            two = [word(pooled["median"]), word(pooled["least"])]
            rest = [word([r for of_batch in others.values() for r in of_batch[e]]) for e in engines]
        else:
            two = [word(ratios["median"][batch]), word(ratios["least"][batch])]
            rest = [word(others[batch][e]) for e in engines]
        lines.append(f"| {batch} | " + " | ".join(two + rest) + " |")
    return [*lines, ""]


def presets(rows):
    """What our default chose, and what the other schedules would have taken."""
    trials = collections.defaultdict(dict)
    for row in rows:
        if row["metric"] == "trial":
            trials[row["model"], int(row["batch"])][row["setting"]] = row
    if not trials:
        return []
    names = unique(name for line in trials.values() for name in line)
    first = names[0]
    lines = [
        "## Our schedules",
        "",
        f"Microseconds a row, medians of short trials in turns. `{first}` is what is compared above; *lost* is how many "
        "times the fastest trial it takes, and then which that is.",
        "",
        "| model | batch | " + " | ".join(names) + " | lost |",
        "|---|---:|" + "---:|" * len(names) + "---|",
    ]
    lost = []
    for (model, batch), line in trials.items():
        best = min(line, key=lambda name: float(line[name]["median"]))
        words = []
        for name in names:
            word = figure(float(line[name]["median"])) if name in line else "-"
            words.append(f"**{word}**" if name == best else word)
        more = ""
        if first in line:
            lost.append(float(line[first]["median"]) / float(line[best]["median"]))
            more = f"{lost[-1]:.2f}" + (f" {best}" if best != first else "")
        lines.append(f"| {model} | {batch} | " + " | ".join(words) + f" | {more} |")
    if lost:
        lines += ["", f"Geometric mean of what `{first}` loses: {geomean(lost):.3f}."]
    lines += ["", f"What `{first}` is:", ""]
    chosen = collections.defaultdict(list)
    for (model, batch), line in trials.items():
        if first in line:
            chosen[line[first]["check"]].append((model, batch))
    for directives, where in chosen.items():
        of_model = collections.defaultdict(list)
        for model, batch in where:
            of_model[model].append(str(batch))
        batches = {model: sorted({str(b) for m, b in trials if m == model}) for model in of_model}
        words = [m if sorted(b) == batches[m] else f"{m} at {', '.join(b)}" for m, b in of_model.items()]
        lines.append(f"- `{directives}`: {', '.join(words)}")
    return [*lines, ""]


def loading(rows, engines):
    """Loading, compiling and memory."""
    table = collections.defaultdict(dict)
    for row in rows:
        if row["metric"] in ("load", "compile", "kept", "peak"):
            table[row["model"], row["engine"]][row["metric"]] = float(row["median"])
    if not table:
        return []
    engines = [e for e in engines if any(engine == e for _, engine in table)]
    lines = [
        "## Loading, compiling, memory",
        "",
        "Milliseconds to read the model + to make of it what runs (a conversion, a C compiler, LLVM; our lowering), once; "
        "then the peak of memory over what the program had before, in MiB. A conversion or compiler ahead of loading runs "
        "in a process of its own and counts in no memory.",
        "",
        "| model | " + " | ".join(engines) + " |",
        "|---|" + "---:|" * len(engines),
    ]
    for model in unique(model for model, _ in table):
        words = []
        for engine in engines:
            own = table.get((model, engine), {})
            took = " + ".join(figure(own[m]) for m in ("load", "compile") if m in own)
            words.append(took + (f"; {own['peak']:.1f}" if "peak" in own else ""))
        lines.append(f"| {model} | " + " | ".join(words) + " |")
    return [*lines, ""]


def remarks(rows):
    """Everything that was left out, refused or failed, that differs, or whose time has something to it, each once."""
    by_text = collections.defaultdict(list)
    for r in rows:
        if r["metric"] in ("left out", "refused", "failed"):
            what = f"{r['engine']}, {r['setting']}" if r["metric"] == "refused" else r["engine"]
            by_text[f"{what}, {r['metric']}: {r['check']}"].append(r["model"])
        elif r["metric"] == clock(rows) and (not counts(r) or ";" in r["check"]):
            by_text[f"{r['engine']}, batch {r['batch']}: {r['check']}"].append(r["model"])
    lines = [f"- {text} — {', '.join(unique(models))}" for text, models in by_text.items()]
    return ["## Left out, refused, failed, differs (†)", "", *lines, ""] if lines else []


def markdown(rows, about):
    first = rows[0]
    engines = unique([OURS] * any(r["engine"] == OURS for r in rows) + [r["engine"] for r in rows])
    named = {r["engine"]: r["version"] for r in rows if r["version"]}
    versions = [f"{OURS} {v}" if e == OURS else v if e in v else f"{e}: {v}" for e, v in named.items()]
    models = unique(f"{r['model']} ({r['trees']} trees, {r['features']} columns)" for r in rows if r["metric"] == "load")
    lines = [
        "# Fangorn on the CPU, beside other engines",
        "",
        f"{first['date']}, commit {first['commit']}, {first['threads']} thread(s) an engine.",
        "",
        *[f"- {key}: {value}" for key, value in (about or {"machine": first["machine"]}).items()],
        "",
        "Engines: " + "; ".join(versions) + ".",
        "",
        "Models: " + "; ".join(models) + ".",
        "",
    ]
    sections = comparison(rows, engines) + presets(rows) + loading(rows, engines) + remarks(rows)
    return "\n".join(lines + sections).rstrip() + "\n"


def plot(rows, stem):
    """Microseconds a row over the batch, a panel a model; gives whether matplotlib is there."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return False
    timed = [r for r in rows if r["metric"] == clock(rows) and counts(r)]
    engines, models = unique(r["engine"] for r in timed), unique(r["model"] for r in timed)
    if not models:
        return True
    colours = dict(zip(engines, [*plt.get_cmap("tab10").colors, *plt.get_cmap("Dark2").colors]))
    across = min(4, len(models))
    down = math.ceil(len(models) / across)
    drawing, panels = plt.subplots(down, across, figsize=(max(7.6, 3.8 * across), 3.1 * down + 0.8), squeeze=False)
    for panel, model in zip(panels.flat, models):
        for engine in engines:
            own = [r for r in timed if (r["model"], r["engine"]) == (model, engine)]
            points = sorted((int(r["batch"]), float(r["median"])) for r in own)
            if points:
                wide = 2.4 if engine == OURS else 1.0
                panel.plot(*zip(*points), marker="o", markersize=3, linewidth=wide, color=colours[engine])
        panel.set_title(model, fontsize=10)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.grid(True, which="major", alpha=0.3)
    for panel in list(panels.flat)[len(models) :]:
        panel.set_visible(False)
    for panel in panels[:, 0]:
        panel.set_ylabel("microseconds a row")
    for panel in panels[-1]:
        panel.set_xlabel("rows of a call")
    handles = [plt.Line2D([], [], color=colours[e], label=e, linewidth=2.4 if e == OURS else 1.0) for e in engines]
    columns = min(4 if across < 3 else 6, len(handles))
    drawing.legend(handles=handles, loc="lower center", ncols=columns, fontsize=8, frameon=False)
    first = rows[0]
    title = f"{first['machine']}, {first['threads']} thread(s), {first['date']}, commit {first['commit']}"
    tall = 3.1 * down + 0.8
    drawing.suptitle(title, fontsize=9, y=1 - 0.1 / tall)
    drawing.tight_layout(rect=(0, 0.6 / tall, 1, 1 - 0.2 / tall))
    # Text as text: a reader's own font, and a tenth of the file.
    plt.rcParams["svg.fonttype"] = "none"
    for kind in ("png", "svg"):
        drawing.savefig(f"{stem}.{kind}", dpi=150)
    plt.close(drawing)
    return True


def summary(rows, stem):
    """How many times as long each engine takes, a group of bars an engine, a bar a batch; nothing without matplotlib."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return
    others = collections.defaultdict(lambda: collections.defaultdict(list))
    for (_, batch), line in cells(rows, clock(rows)).items():
        for engine, row in line.items():
            if OURS in line and engine != OURS and counts(row):
                others[engine][batch].append(float(row["median"]) / float(line[OURS]["median"]))
    if not others:
        return
    batches = sorted({batch for of_batch in others.values() for batch in of_batch})
    engines = sorted(others, key=lambda e: geomean([r for of in others[e].values() for r in of]))
    drawing, panel = plt.subplots(figsize=(8.4, 3.6))
    width = 0.8 / len(batches)
    shades = plt.get_cmap("Blues")
    for b, batch in enumerate(batches):
        at = [e + (b - (len(batches) - 1) / 2) * width for e in range(len(engines))]
        tall = [geomean(others[engine][batch]) or math.nan for engine in engines]
        shade = shades(0.35 + 0.6 * b / max(1, len(batches) - 1))
        bars = panel.bar(at, tall, width * 0.92, color=shade, label=f"{batch} row" + "s" * (batch > 1))
        panel.bar_label(bars, [f"{t:.0f}" if t >= 10 else f"{t:.1f}" for t in tall], fontsize=7, padding=1)
    # Two engines side by side have room for ten letters each.
    short = [engine.replace("tl2cgen-", "tl2cgen\n").replace("onnxruntime", "onnx\nruntime") for engine in engines]
    short = [name.replace("scikit-", "scikit-\n").replace("hummingbird", "humming-\nbird") for name in short]
    models = [max(len(of) for of in others[engine].values()) for engine in engines]
    names = [f"{name}\n{count} models" for name, count in zip(short, models)]
    panel.set_xticks(range(len(engines)), names, fontsize=7)
    panel.set_yscale("log")
    panel.set_ylim(bottom=1, top=panel.get_ylim()[1] * 1.3)
    panel.set_ylabel(f"times {OURS}'s time")
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    panel.legend(fontsize=8, frameon=False, ncols=len(batches), loc="upper left")
    first = rows[0]
    title = f"Geometric means over models; {first['machine']}, {first['threads']} thread(s), {first['date']}"
    panel.set_title(title, fontsize=8)
    drawing.tight_layout()
    drawing.savefig(f"{stem}-summary.png", dpi=150)
    plt.close(drawing)


def write(file):
    """Writes the table and the plots beside the file."""
    rows = read(file)
    if not rows:
        print(f"report.py: {file} has no rows; nothing was timed", file=sys.stderr)
        return
    stem = file.with_suffix("")
    about = file.with_name("machine.json")
    made = markdown(rows, json.loads(about.read_text()) if about.is_file() else None)
    stem.with_suffix(".md").write_text(made)
    # Rows as JSON have standard output to themselves.
    print(stem.with_suffix(".md"), file=sys.stderr)
    if plot(rows, stem):
        summary(rows, stem)
        print(f"{stem}.png, {stem}.svg, {stem}-summary.png", file=sys.stderr)
    else:
        print("report.py: no plot without matplotlib; pip install matplotlib", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: report.py results.tsv")
    write(pathlib.Path(sys.argv[1]))
