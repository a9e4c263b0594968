"""The table of what a campaign compared, in Markdown."""

import collections
import datetime
import pathlib
import platform
import re
import subprocess

COUNTS = ["models", "rows", "leaves", "margins", "bits", "values", "classes"]


def lost(producer, index, words):
    """The result of a case whose process was lost."""
    return {
        "name": f"{producer}-{index}", "producer": producer, "kind": "none", "note": {}, "counts": dict.fromkeys(COUNTS, 0),
        "refused": None, "not_trained": words, "left_out": {}, "failures": [], "refusals": [],
    }  # fmt: skip


def first_line(command, folder):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return (done.stdout.strip().splitlines() or ["unknown"])[0]


def processor():
    """What the processor is called and can do, as far as Linux says it."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    info = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = (info.get("flags") or info.get("Features") or "").split()
    able = [f for f in ("avx2", "avx512f", "avx512vbmi", "asimd", "sve") if f in flags]
    return f"{info.get('model name', platform.machine())} ({', '.join(able) or 'no vector extension named'})"


def facts(args, versions, seconds, root):
    commit = ["git", "rev-parse", "--short", "HEAD"]
    again = [f"--models {args.models}", f"--seed {args.seed}"]
    again += [f"--first {args.first}"] if args.first else []
    again += [f"--only {','.join(args.only)}"] if args.only else []
    return {
        "date": datetime.date.today().isoformat(),
        "processor": processor(),
        "fangorn": f"{first_line([str(args.fangorn), '--version'], root)}, the checkout at {first_line(commit, root)}",
        "python": platform.python_version(),
        "libraries": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "run": f"`{' '.join(again)}`, {seconds / 60:.0f} minutes, {args.jobs} at a time",
    }


def message(refused):
    """A refusal without the file's name, and numbers of nodes and trees as `n`."""
    words = re.sub(r"fangorn: (\S*?(model|less|schedule|out)\.\w+: )?", "", refused)
    return re.sub(r"\b\d+\b", "n", words)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join("---" if i < 2 else "---:" for i in range(len(head))) + "|"]
    return lines + ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]


def text(results, about):
    lines = ["# What the campaign compared", ""]
    lines += [f"- {name}: {value}" for name, value in about.items()] + [""]
    sums = collections.defaultdict(collections.Counter)
    for result in results:
        for key in ((result["producer"], result["kind"]), (result["producer"], "all"), ("all", "")):
            if result["not_trained"]:
                if key[1] != "none":
                    sums[key]["not trained"] += 1
                continue
            sums[key].update(result["counts"])
            sums[key]["refused"] += result["refused"] is not None
            sums[key]["failures"] += len(result["failures"])
    order = sorted(sums, key=lambda key: (key[0] == "all", key[0], key[1] == "all", key[1]))
    head = [
        "producer",
        "kind",
        *COUNTS[:4],
        "margins, same bits",
        "values",
        "classes",
        "refused",
        "not trained",
        "failures",
    ]
    named = [*COUNTS, "refused", "not trained", "failures"]
    lines += table(head, [[*key, *(f"{sums[key][name]:,}".replace(",", " ") for name in named)] for key in order])
    lines += [
        "",
        "Leaves are compared exactly; margins and values within their bounds; *same bits* are margins of `--sum tree`.",
    ]
    refused = collections.Counter((r["producer"], message(r["refused"])) for r in results if r["refused"])
    lines += ["", "## Refused by fangorn", ""]
    lines += (
        table(["producer", "message", "models"], [(*k, n) for k, n in sorted(refused.items())])
        if refused
        else ["None."]
    )
    asked = collections.Counter((r["producer"], message(words)) for r in results for words in r["refusals"])
    lines += ["", "## Refused when asked to predict: a schedule, an output", ""]
    lines += (
        table(["producer", "message", "times"], [(*k, n) for k, n in sorted(asked.items())]) if asked else ["None."]
    )
    none = collections.Counter((r["producer"], r["not_trained"]) for r in results if r["not_trained"])
    lines += ["", "## Not trained or not converted by the libraries", ""]
    lines += table(["producer", "message", "models"], [(*k, n) for k, n in sorted(none.items())]) if none else ["None."]
    left = collections.Counter()
    for r in results:
        left.update({(r["producer"], reason): n for reason, n in r["left_out"].items() if n})
    lines += ["", "## Rows left out, since the library does not take them", ""]
    lines += table(["producer", "reason", "rows"], [(*k, n) for k, n in sorted(left.items())]) if left else ["None."]
    lines += ["", "## Failures", ""]
    failed = [
        (r["name"], r["kind"], f["what"], f.get("left", f["words"]), f.get("reference", ""))
        for r in results
        for f in r["failures"]
    ]
    lines += [
        f"- `{name}` ({kind}), {what}: {words}; the reference {reference}"
        for name, kind, what, words, reference in failed
    ] or ["None."]
    return "\n".join(lines) + "\n"
