#!/usr/bin/env python3
"""The machine code of kernels for an NVIDIA GPU that need not be here: registers, spills, instructions a step of a walk.

    python3 benches/gpu/machine_code.py [--fangorn PATH] [--ptxas PATH] [--nvdisasm PATH] [MODEL...]

Without a model: a few of the zoo. Every preset and every file of benches/gpu/schedules is lowered for the architecture,
assembled and disassembled; nothing runs. Needs a fangorn built with `--features cuda`, and NVIDIA's ptxas and nvdisasm
(Python packages nvidia-cuda-nvcc and nvidia-cuda-nvdisasm). Writes Markdown to standard output, and
tab-separated values with --tsv.

Instructions a step: where walks are unrolled, the kernel with n steps less the kernel with n - 1, for one lane of the walk.
Otherwise the loop that walks until a leaf, its leaf test and branch with it.
"""

import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ZOO = HERE.parent.parent / "tests" / "zoo"
MODELS = ["churn", "deep-lossguide", "lightgbm-categories"]
COLUMNS = [
    "model", "schedule", "layout", "words", "rows", "cached", "registers", "spilled bytes", "shared bytes", "instructions",
    "counted", "a step", "LDG", "LDS", "other loads", "compares", "branches",
]
# The table's columns; the others are in the tab-separated values.
SHOWN = [c for c in COLUMNS[1:] if c not in ("other loads", "compares", "branches")]
# The instructions of each kind in a step.
KINDS = {
    "LDG": ("LDG",),
    "LDS": ("LDS",),
    # Loads that find out where they read, and what was spilled.
    "other loads": ("LD", "LDL"),
    "compares": ("ISETP", "FSETP", "PLOP3"),
    "branches": ("BRA", "BSSY", "BSYNC", "EXIT"),
}


class Refused(Exception):
    """A schedule that the model or the device has no room for."""


def fail(what):
    """Ends with one line that says why."""
    sys.exit(f"machine_code.py: {what}")


def tool(given, name, remedy):
    """The program to run: what was given, or what the path has."""
    path = shutil.which(given or name)
    if not path:
        fail(f"no {name}{f' at {given}' if given else ' on the PATH'}: {remedy}")
    return path


def run(arguments):
    """Both streams of a program that has to succeed."""
    ran = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    if ran.returncode:
        raise Refused((ran.stderr.strip() or f"{arguments[0]} ended with {ran.returncode}").splitlines()[0])
    return ran.stdout + ran.stderr


class Instruction:
    """One of nvdisasm's lines; `target` is the index of the instruction that a branch goes to."""

    def __init__(self, text):
        words = [w for w in text.split() if not w.startswith("@")]
        self.name = words[0].rstrip(";").split(".")[0]
        self.target = None
        self.label = re.search(r"`\((\.L_x_\d+)\)", text) if self.name == "BRA" else None


def instructions(listing):
    """The instructions of nvdisasm's listing, without what pads the end: NOPs, and the branch to itself before them."""
    code, labels = [], {}
    for line in listing.splitlines():
        if label := re.match(r"(\.L_x_\d+):", line):
            labels[label[1]] = len(code)
        # Control words stand on lines of their own, without an address.
        elif found := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?);", line):
            code.append(Instruction(found[1]))
    for i in code:
        if i.label:
            i.target = labels[i.label[1]]
    while code and (code[-1].name == "NOP" or code[-1].target == len(code) - 1):
        code.pop()
    return code


def walk_loop(code):
    """The last innermost loop that walks: it loads a node and a value, compares integers, and neither stores nor adds floats.

    The last, because rows are cached, and ranked as they are cached, before they are walked.
    """
    loops = [(i.target, end + 1) for end, i in enumerate(code) if i.target is not None and i.target <= end]
    innermost = [a for a in loops if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    found = None
    for start, end in sorted(innermost):
        names = [i.name for i in code[start:end]]
        walks = sum(n in ("LDG", "LDS", "LD") for n in names) >= 2 and "ISETP" in names
        if walks and not any(n in ("STG", "STS", "ST", "FADD", "DADD", "BAR") for n in names):
            found = code[start:end]
    return found


class Tools:
    """The programs, and a folder for what goes from one to the next."""

    def __init__(self, options, folder):
        self.fangorn = tool(options.fangorn, "fangorn", "give --fangorn PATH, built with --features cuda")
        self.ptxas = tool(options.ptxas, "ptxas", "give --ptxas PATH (Python package nvidia-cuda-nvcc)")
        self.nvdisasm = tool(options.nvdisasm, "nvdisasm", "give --nvdisasm PATH (Python package nvidia-cuda-nvdisasm)")
        self.arch = options.arch
        self.folder = pathlib.Path(folder)

    def lower(self, model, schedule, stage, *more):
        to = ["--backend", "cuda", "--arch", self.arch, "--emit", stage]
        return run([self.fangorn, "lower", model, "--schedule", schedule, *to, *more])

    def presets(self, model):
        """The presets' names, which the refusal of an unknown one lists."""
        try:
            self.lower(model, "?", "schedule")
        except Refused as refusal:
            if names := re.search(r"the presets are (.*)", str(refusal)):
                return re.split(r",\s*", names[1])
            fail(refusal)
        fail("fangorn took ? for a schedule")

    def kernel(self, model, schedule):
        """The kernel's instructions, and what its assembler says."""
        ptx, cubin = self.folder / "kernel.ptx", self.folder / "kernel.cubin"
        self.lower(model, schedule, "kernel", "--output", ptx)
        said = run([self.ptxas, "-v", f"-arch={self.arch}", "-o", cubin, ptx])
        return instructions(run([self.nvdisasm, "-c", cubin])), said

    def unrolled(self, model, text, steps):
        """The same schedule with another number of steps unrolled, in a file."""
        path = self.folder / f"{steps}.schedule"
        path.write_text(re.sub(r"unrollWalk\(([\w.]+)[^)]*\)", rf"unrollWalk(\1, {steps})", text))
        return path

    def step(self, model, text, plan, code):
        """How a step was counted, and how often it has each operation."""
        walks = re.findall(r"walk(?: (\d+) lanes)?([^\n]*)", plan)
        unrolled = [(int(lanes or 1), int(n[1]), rest) for lanes, rest in walks if (n := re.search(r"unrolled (\d+)", rest))]
        # A walk that is unrolled to its end has no loop behind it, which the one with a step less has.
        most = min((n if "until leaf" in rest or "counted" in rest else n - 1 for _, n, rest in unrolled), default=0)
        if most >= 2:
            lanes = sum(lanes for lanes, _, _ in unrolled)
            mix = collections.Counter()
            for steps, sign in ((most, 1), (most - 1, -1)):
                for i in self.kernel(model, self.unrolled(model, text, steps))[0]:
                    mix[i.name] += sign
            return f"{most} less {most - 1} steps", {name: n / lanes for name, n in mix.items()}
        loop = walk_loop(code)
        return ("loop", collections.Counter(i.name for i in loop)) if loop else ("-", None)

    def row(self, name, model, title, schedule):
        text = self.lower(model, schedule, "schedule")
        plan = self.lower(model, schedule, "plan")
        code, said = self.kernel(model, schedule)
        spills = re.findall(r"(\d+) bytes spill (?:stores|loads)", said)
        caches = [c for c in ("row", "tree") if f"{c} cache:" in plan]
        how, mix = self.step(model, text, plan, code)

        def value(pattern):
            return re.search(pattern, plan)[1]

        step = [sum(mix.values()), *(sum(mix.get(n, 0) for n in names) for names in KINDS.values())] if mix else None
        return [
            name, title, value(r"layout (\w+)"), value(r"words=(\d+)"), value(r"rows=(\w+)"),
            " and ".join(f"{c}s" for c in caches) or "-", re.search(r"Used (\d+) registers", said)[1],
            str(sum(map(int, spills))), value(r"shared (\d+) bytes"), str(len(code)), how,
            *([f"{n:.4g}" for n in step] if step else ["-"] * (1 + len(KINDS))),
        ]


def markdown(rows):
    """A table a model, the columns of numbers aligned right."""
    left = {"schedule", "layout", "rows", "cached", "counted"}
    text = []
    for model in dict.fromkeys(r[0] for r in rows):
        text += [f"**{model}**", "", "| " + " | ".join(SHOWN) + " |"]
        text += ["|" + "|".join("---" if c in left else "---:" for c in SHOWN) + "|"]
        text += ["| " + " | ".join(r[COLUMNS.index(c)] for c in SHOWN) + " |" for r in rows if r[0] == model] + [""]
    return "\n".join(text)


def name_of(model):
    path = pathlib.Path(model)
    return path.parent.name if path.stem == "model" else path.name


def zoo(name):
    found = sorted((ZOO / name).glob("model.*"))
    return found[0] if found else fail(f"no model in {ZOO / name}: name the models")


def main():
    options = argparse.ArgumentParser(description="The machine code of kernels, without a GPU.")
    options.add_argument("models", nargs="*", metavar="MODEL", help="model files (default: a few of the zoo)")
    options.add_argument("--fangorn", metavar="PATH", help="built with --features cuda")
    options.add_argument("--ptxas", metavar="PATH")
    options.add_argument("--nvdisasm", metavar="PATH")
    options.add_argument("--arch", default="sm_90a", metavar="NAME", help="default: sm_90a")
    options.add_argument("--schedule", action="append", metavar="NAME|FILE", help="only these, not every preset and file")
    options.add_argument("--tsv", metavar="FILE", help="write tab-separated values too, - for standard output alone")
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tools = Tools(options, folder)
        models = [pathlib.Path(m) for m in options.models] or [zoo(m) for m in MODELS]
        schedules = options.schedule or [*sorted((HERE / "schedules").glob("*.schedule")), *tools.presets(models[0])]
        rows = []
        for model in models:
            for schedule in schedules:
                title = pathlib.Path(schedule).stem
                try:
                    rows.append(tools.row(name_of(model), model, title, schedule))
                except Refused as refusal:
                    print(f"{name_of(model)}, {title}: {refusal}", file=sys.stderr)
    if not rows:
        fail("nothing was lowered")
    if options.tsv:
        text = "".join("\t".join(r) + "\n" for r in [COLUMNS, *rows])
        if options.tsv == "-":
            return print(text, end="")
        pathlib.Path(options.tsv).write_text(text)
    print(markdown(rows).rstrip())


if __name__ == "__main__":
    main()
