#!/usr/bin/env python3
"""Mutation testing of the CPU's kernels and of ranks.

Changes one place of src/cpu or src/ranks at a time (a compare, an offset, a
bound, a constant, a line left out), in a copy of the tree, and runs the tests
that hold engines against the reference. A mutant that no test fails has
survived: it needs a test, or a reason in benches/NOTEBOOK.md.

The list is drawn from a seed, so that a run can be continued with another one.

Examples:
  python3 tests/mutants.py --count 40
  python3 tests/mutants.py --count 10 --only src/ranks/ranker.rs --seed 3
"""

import argparse
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["src/cpu", "src/ranks"]
# What of another architecture is compiled out here shows in no test.
SKIPPED = ["/neon/", "tests.rs"]
# text -> what it becomes; the first group of each pattern is what is changed
CHANGES = [
    (r"(?<=\s)(<)(?=\s)", "<="),
    (r"(?<=\s)(<=)(?=\s)", "<"),
    (r"(?<=\s)(>=)(?=\s)", ">"),
    (r"(?<=\s)(==)(?=\s)", "!="),
    (r"(?<=\s)(\+)(?=\s\d)", "-"),
    (r"(?<=\s)(-)(?=\s1\b)", "+"),
    (r"(?<=\s)(\+)(?=\s[a-z])", "-"),
    (r"(?<=\s)(&&)(?=\s)", "||"),
    (r"(?<=\s)(&)(?=\s[a-z0-9(])", "|"),
    (r"(?<=\W)(0)(?=\.\.)", "1"),
    (r"(Side::Left)\b", "Side::Right"),
    (r"(Missing::Least)\b", "Missing::Most"),
    (r"(\.min)\(", ".max"),
    (r"\b(BLOCK)\b(?= \*| -|\.\.)", "(BLOCK - 1)"),
]


def places(path):
    """Lines of the file that are code of ours, with each change that fits there."""
    found = []
    for number, line in enumerate(path.read_text().splitlines()):
        if "#[cfg(test)]" in line:
            break
        text = line.split("//")[0]
        if not text.strip() or "assert" in text or text.lstrip().startswith(("#", "use ", "const _")):
            continue
        # Bounds of generics and of lifetimes are no arithmetic.
        if re.search(r"\b(fn|impl|struct|trait|where|type)\b", text):
            continue
        for pattern, to in CHANGES:
            for match in re.finditer(pattern, text):
                found.append((path, number, match.start(1), match.end(1), to))
    return found


def mutated(path, place):
    _, number, start, end, to = place
    lines = path.read_text().splitlines(keepends=True)
    lines[number] = lines[number][:start] + to + lines[number][end:]
    return "".join(lines)


def run(tree, target, arguments, limit):
    command = ["cargo", "test", "--quiet", "--locked", "--no-default-features", *arguments]
    environment = {"CARGO_TARGET_DIR": str(target)}
    environment = {**os.environ, **environment, "RUST_BACKTRACE": "0"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return "hangs", ""
    if "could not compile" in done.stderr:
        return "does not compile", ""
    return ("caught" if done.returncode else "survives"), done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40, help="mutants to run (40)")
    parser.add_argument("--seed", type=int, default=0, help="what they are drawn from (0)")
    parser.add_argument("--only", default="", help="files whose path has this text")
    parser.add_argument("--cases", type=int, default=60, help="tables of tests/tables.rs (60)")
    parser.add_argument("--target", type=pathlib.Path, help="cargo's target folder, to keep between runs")
    args = parser.parse_args()
    files = [p for f in FOLDERS for p in sorted((ROOT / f).rglob("*.rs"))]
    files = [p for p in files if args.only in str(p.relative_to(ROOT)) and not any(s in str(p) for s in SKIPPED)]
    all_places = [place for path in files for place in places(path)]
    drawn = random.Random(args.seed).sample(all_places, min(args.count, len(all_places)))
    print(f"{len(drawn)} of {len(all_places)} mutants of {len(files)} files", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="fangorn-mutants-") as folder:
        tree = pathlib.Path(folder) / "tree"
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        for name in listed.decode().split("\0"):
            if name and (ROOT / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, tree / name)
        target = args.target or pathlib.Path(folder) / "target"
        # The quick tests first: most mutants fail there.
        suites = [["--test", "tables"], ["--test", "ranks", "--test", "cpu", "--test", "tiles", "--test", "sums"]]
        counts = {}
        for i, place in enumerate(drawn):
            path, number, start, end, to = place
            name = path.relative_to(ROOT)
            began = time.monotonic()
            (tree / name).write_text(mutated(path, place))
            for suite in suites:
                verdict, _ = run(tree, target, suite, 1800)
                if verdict != "survives":
                    break
            (tree / name).write_text(path.read_text())
            counts[verdict] = counts.get(verdict, 0) + 1
            line = path.read_text().splitlines()[number]
            by = " ".join(suite) if verdict == "caught" else ""
            print(f"{verdict:17} {name}:{number + 1}: `{line[start:end]}` -> `{to}` in `{line.strip()}` {by}", flush=True)
            took = time.monotonic() - began
            print(f"{i + 1} of {len(drawn)}, {took:.0f} s, {counts}", file=sys.stderr)
    return 1 if counts.get("survives") else 0


if __name__ == "__main__":
    sys.exit(main())
