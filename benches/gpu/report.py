#!/usr/bin/env python3
"""Makes results.md, results.png and results.svg of a results.tsv of benches/gpu/run.py.

    python3 benches/gpu/report.py target/gpu-bench/results/results.tsv

The plot needs matplotlib; without it one line says so and the table is made alone.
"""

import collections
import csv
import math
import pathlib
import sys

# metric -> its heading, and what it is
METRICS = {
    "resident": ("Rows on the device", "a call and the wait for it on the host's clock, rows and margins on the device"),
    "queued": ("Queued calls", "a call of up to 16 in a row before one wait, rows and margins on the device"),
    "device": ("By the device's clock", "a call between two events of the device, rows and margins on the device"),
    "total": ("From host to host", "rows from the host's memory, margins back into it"),
}


def is_ours(engine):
    return engine.startswith("fangorn")


def read(file):
    with open(file, newline="") as f:
        return list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))


def unique(values):
    return list(dict.fromkeys(values))


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def figure(us):
    return f"{us:.0f}" if us >= 1000 else f"{us:.1f}" if us >= 100 else f"{us:.2f}"


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


def comparison(rows, metric, engines, base):
    """The Markdown table of a metric: microseconds, and how many times ours that is."""
    table = cells(rows, metric)
    engines = [e for e in engines if any(e in line for line in table.values())]
    if not engines:
        return []
    heading, meaning = METRICS[metric]
    lines = [f"## {heading}", "", f"Microseconds: {meaning}; the median. In brackets, how many times {base}'s.", ""]
    lines += ["| model | batch | " + " | ".join(engines) + " |", "|---|---:|" + "---:|" * len(engines)]
    ratios = collections.defaultdict(lambda: collections.defaultdict(list))
    for (model, batch), line in table.items():
        fastest = min((float(r["median_us"]) for r in line.values() if counts(r)), default=None)
        words = []
        for engine in engines:
            row = line.get(engine)
            if row is None:
                words.append("")
                continue
            us = float(row["median_us"])
            word = f"**{figure(us)}**" if us == fastest and counts(row) else figure(us)
            if not counts(row):
                word += " †"
            elif base in line and engine != base and counts(line[base]):
                ratio = us / float(line[base]["median_us"])
                word += f" ({ratio:.2f})"
                ratios[batch][engine].append(ratio)
                ratios["all"][engine].append(ratio)
            words.append(word)
        lines.append(f"| {model} | {batch} | " + " | ".join(words) + " |")
    for batch in sorted(ratios, key=lambda b: (b == "all", b if b != "all" else 0)):
        means = [f"{m:.2f}" if (m := geomean(ratios[batch].get(e, []))) else "" for e in engines]
        lines.append(f"| geomean | {batch} | " + " | ".join(means) + " |")
    return lines + [""]


def settings(rows, engines):
    """The table of what each engine was set to, and what the default schedule loses."""
    table = cells(rows, "resident")
    engines = [e for e in engines if is_ours(e) or e == "nvforest"]
    engines = [e for e in engines if any(e in line for line in table.values())]
    if not engines:
        return []
    default = {
        (r["engine"], r["model"], int(r["batch"])): float(r["median_us"])
        for r in rows
        if r["metric"] == "trial" and r["setting"] == "default"
    }
    trials = collections.defaultdict(list)
    for row in rows:
        if row["metric"] == "trial":
            trials[row["engine"], row["model"], int(row["batch"])].append(float(row["median_us"]))
    lines = ["## Settings", "", "What each engine ran with; for ours, in brackets, how many times the best trial the default took.", ""]
    lines += ["| model | batch | " + " | ".join(engines) + " |", "|---|---:|" + "---|" * len(engines)]
    for (model, batch), line in table.items():
        words = []
        for engine in engines:
            word = line[engine]["setting"] if engine in line else ""
            key = (engine, model, batch)
            if key in default:
                word += f" ({default[key] / min(trials[key]):.2f})"
            words.append(word)
        lines.append(f"| {model} | {batch} | " + " | ".join(words) + " |")
    return lines + [""]


def remarks(rows):
    """Everything that differs, failed or was refused, each once."""
    lines = unique(
        f"- {r['model']}, batch {r['batch']}, {r['engine']}"
        + (f", {r['setting']}" if r["metric"] == "refused" else "")
        + f": {r['check']}"
        for r in rows
        if r["metric"] in ("failed", "refused") or (r["metric"] == "resident" and not counts(r))
    )
    return ["## Differs (†), failed, refused", "", *lines, ""] if lines else []


def markdown(rows):
    first = rows[0]
    engines = unique(r["engine"] for r in rows)
    base = next((e for e in engines if is_ours(e)), engines[0])
    versions = unique(f"{r['engine']} {r['version']}" for r in rows if r["version"])
    driver = f", driver {first['driver']}" if first["driver"] else ""
    lines = [
        "# Fangorn on a GPU, beside other engines",
        "",
        f"{first['date']}, commit {first['commit']}; {first['gpu']}{driver}; {first['machine']}.",
        "",
        "Engines: " + "; ".join(versions) + ".",
        "",
        "Models: "
        + "; ".join(unique(f"{r['model']} ({r['trees']} trees, {r['features']} columns, {r['origin']})" for r in rows))
        + ".",
        "",
    ]
    for metric in METRICS:
        lines += comparison(rows, metric, engines, base)
    return "\n".join(lines + settings(rows, engines) + remarks(rows)).rstrip() + "\n"


def plot(rows, stem):
    """Rows a second over the batch, a panel a model; gives whether matplotlib is there."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return False
    engines = unique(r["engine"] for r in rows)
    models = unique(r["model"] for r in rows if r["metric"] in ("resident", "total"))
    if not models:
        return True
    colours = dict(zip(engines, plt.get_cmap("tab10").colors * 2))
    across = min(3, len(models))
    down = math.ceil(len(models) / across)
    drawing, panels = plt.subplots(down, across, figsize=(4.6 * across, 3.4 * down), squeeze=False)
    for panel, model in zip(panels.flat, models):
        for metric, style in (("resident", "-"), ("total", ":")):
            for engine in engines:
                own = [r for r in rows if (r["model"], r["metric"], r["engine"]) == (model, metric, engine) and counts(r)]
                points = sorted((int(r["batch"]), int(r["batch"]) / float(r["median_us"])) for r in own)
                if points:
                    panel.plot(*zip(*points), style, marker="o", markersize=3, color=colours[engine])
        panel.set_title(model, fontsize=10)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.grid(True, which="major", alpha=0.3)
    for panel in list(panels.flat)[len(models) :]:
        panel.set_visible(False)
    for panel in panels[:, 0]:
        panel.set_ylabel("million rows a second")
    for panel in panels[-1]:
        panel.set_xlabel("rows of a call")
    handles = [plt.Line2D([], [], color=colours[e], label=e) for e in engines]
    handles += [plt.Line2D([], [], color="grey", linestyle=s, label=t) for s, t in (("-", "on the device"), (":", "host to host"))]
    drawing.legend(handles=handles, loc="lower center", ncols=min(4, len(handles)), fontsize=8, frameon=False)
    drawing.suptitle(f"{rows[0]['gpu']}, {rows[0]['date']}, commit {rows[0]['commit']}", fontsize=10)
    drawing.tight_layout(rect=(0, 0.4 / (3.4 * down), 1, 1))
    for kind in ("png", "svg"):
        drawing.savefig(f"{stem}.{kind}", dpi=150)
    plt.close(drawing)
    return True


def write(file):
    """Writes the table and the plot beside the file."""
    rows = read(file)
    if not rows:
        print(f"report.py: {file} has no rows; nothing was timed", file=sys.stderr)
        return
    stem = file.with_suffix("")
    stem.with_suffix(".md").write_text(markdown(rows))
    print(stem.with_suffix(".md"))
    if plot(rows, stem):
        print(f"{stem}.png, {stem}.svg")
    else:
        print("report.py: no plot without matplotlib; pip install matplotlib", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: report.py results.tsv")
    write(pathlib.Path(sys.argv[1]))
