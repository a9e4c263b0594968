#!/usr/bin/env python3
"""Models compiled ahead of time, side by side: `fangorn compile`, tl2cgen, and the library itself.

For each model it writes C by `fangorn compile` and by tl2cgen, compiles both with the same compiler and flags, and
times single rows in turns: the median over turns of the time of a call, on a pool of 16 384 rows. A file of fewer rows
fills the pool again and again, and a branch predictor may learn a few rows. It also says what each adds to a stripped
program, how long the compiler takes, and what each adds to the time of a program that starts, predicts one row and
ends. The library's time is that of `fangorn bench --batch 1`.

Needs numpy; and treelite and tl2cgen, or --without-tl2cgen. Writes Markdown to standard output.

Examples:
  python3 benches/ahead/run.py --fangorn target/release/fangorn shared/zoo/xgb-higgs
  python3 benches/ahead/run.py --fangorn target/release/fangorn --without-tl2cgen tests/zoo/churn
  python3 benches/ahead/run.py --fangorn target/release/fangorn --flags "-O3 -DFOREST_SCALAR" --without-tl2cgen FOLDER
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

POOL = 1 << 14
TURNS = 15
# Programs that are started to time a start.
STARTS = 300
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
{include}
static double now(void) {{ struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }}
int main(int argc, char **argv) {{
    size_t i, j, rows = argc > 2 ? 1 : {rows}, columns = {columns};
    float *all = malloc(rows * columns * sizeof *all);
    FILE *file = fopen(argv[1], "rb");
    double begin, sum = 0;
    if (!file || fread(all, sizeof *all, rows * columns, file) != rows * columns) return 1;
    {prepare}
    for (j = 0; j < 2; j++) {{
        begin = now();
        for (i = 0; i < rows; i++) {{ {call} }}
    }}
    printf("%.9e %.9e\\n", (now() - begin) / rows, sum);
    return 0;
}}
"""
# With it, values lie between those of float, where a model compares in double.
BETWEEN = "1.000000001"
EMPTY = "int main(void) { return 0; }\n"
OURS = {
    "include": '#include "forest.h"',
    "prepare": """static forest_number out[FOREST_OUTPUTS];
    forest_value *own = malloc(rows * columns * sizeof *own);
    for (i = 0; i < rows * columns; i++) own[i] = (forest_value)(all[i] * SCALE);""",
    "call": "forest_margins(own + i * columns, out); sum += out[0];",
}
THEIRS = {
    "include": '#include "header.h"',
    "prepare": """static RESULT out[1 << 12];
    union Entry *data = malloc(rows * columns * sizeof *data);
    for (i = 0; i < rows * columns; i++) { if (all[i] != all[i]) data[i].missing = -1; else data[i].fvalue = all[i] * SCALE; }""",
    "call": "out[0] = 0; predict(data + i * columns, 1, out); sum += out[0];",
}


def compiled(folder, sources, snippets, shape, flags):
    """Compiles a program of a model; returns it, the bytes that the model adds, and the seconds of the compiler."""
    main = folder / "main_of_bench.c"
    main.write_text(MAIN.format(rows=shape[0], columns=shape[1], **snippets))
    empty = folder / "empty_of_bench.c"
    empty.write_text(EMPTY)
    begin = time.perf_counter()
    subprocess.run(["cc", *flags, "-I", folder, *sources, main, "-lm", "-o", folder / "program"], check=True)
    seconds = time.perf_counter() - begin
    subprocess.run(["cc", *flags, "-s", empty, "-o", folder / "empty"], check=True)
    subprocess.run(["strip", "-o", folder / "stripped", folder / "program"], check=True)
    size = [(folder / name).stat().st_size for name in ("stripped", "empty")]
    return folder / "program", size[0] - size[1], seconds


def seconds_of(program, rows):
    """Seconds of a call, and a sum of margins."""
    output = subprocess.run([program, rows], check=True, capture_output=True, text=True).stdout
    return [float(word) for word in output.split()]


def starts(programs, rows):
    """Milliseconds that each program takes longer than one that does nothing, predicting one row."""
    folder = next(iter(programs.values()))[0].parent
    commands = {name: [program, rows, "1"] for name, (program, _, _) in programs.items()}
    commands["empty"] = [folder / "empty"]
    times = {name: [] for name in commands}
    for _ in range(STARTS):
        for name, command in commands.items():
            begin = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times[name].append(time.perf_counter() - begin)
    medians = {name: statistics.median(own) * 1e3 for name, own in times.items()}
    return {name: medians[name] - medians["empty"] for name in programs}


def library(fangorn, model, rows):
    """Seconds of a call of the library for one row."""
    command = [fangorn, "bench", model, "--rows", rows, "--batch", "1", "--json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found["results"][0]["cpu_us_per_row_median"] * 1e-6


def model_file(folder):
    """A model's file in a folder of the zoo."""
    found = [file for file in sorted(folder.iterdir()) if file.stem == "model"]
    if not found:
        sys.exit(f"{folder}: no model.*; give a folder of the zoo")
    return found[0]


def row(options, folder, scratch):
    """The cells of a model's line."""
    model, rows = model_file(folder), folder / "rows.npy"
    values = np.load(rows).astype(np.float32)
    pool = scratch / "rows.bin"
    np.resize(values, (POOL, values.shape[1])).tofile(pool)
    ours = scratch / "ours"
    ours.mkdir()
    command = [options.fangorn, "compile", model, "-o", ours / "forest.c"]
    command += ["--smallest"] if options.smallest else []
    subprocess.run(command, check=True, capture_output=True)
    flags = [*options.flags.split(), f"-DSCALE={BETWEEN if options.between else '1'}"]
    programs = {"ours": compiled(ours, [ours / "forest.c"], OURS, (POOL, values.shape[1]), flags)}
    if not options.without_tl2cgen:
        import tl2cgen
        import treelite

        load = {".json": treelite.frontend.load_xgboost_model, ".ubj": treelite.frontend.load_xgboost_model,
                ".txt": treelite.frontend.load_lightgbm_model}
        theirs = scratch / "theirs"
        if model.suffix not in load:
            sys.exit(f"{model}: tl2cgen is given models of XGBoost and LightGBM; say --without-tl2cgen")
        loaded = load[model.suffix](str(model))
        parameters = {"parallel_comp": max(1, loaded.num_tree // 25)}
        tl2cgen.generate_c_code(loaded, str(theirs), params=parameters)
        sources = sorted(theirs.glob("*.c"))
        # LightGBM's sums are doubles.
        result = "double" if model.suffix == ".txt" else "float"
        snippets = {name: text.replace("RESULT", result) for name, text in THEIRS.items()}
        programs["tl2cgen"] = compiled(theirs, sources, snippets, (POOL, values.shape[1]), flags)
    times = {name: [] for name in programs}
    sums = {}
    for _ in range(TURNS):
        for name, (program, _, _) in programs.items():
            seconds, sums[name] = seconds_of(program, pool)
            times[name].append(seconds)
    if "tl2cgen" in sums and abs(sums["ours"] - sums["tl2cgen"]) > 1e-3 * POOL:
        sys.exit(f"{folder.name}: margins differ: {sums}")
    times = {name: statistics.median(own) for name, own in times.items()}
    begun = starts(programs, pool)
    # The library's bench has rows of float.
    native = "" if options.between else f"{library(options.fangorn, model, rows) * 1e6:.2f}"
    cells = [folder.name]
    for name in ("ours", "tl2cgen"):
        if name not in programs:
            cells += ["", "", "", ""]
            continue
        _, size, seconds = programs[name]
        cells += [f"{times[name] * 1e6:.2f}", f"{size / 1000:.0f}", f"{begun[name]:.2f}", f"{seconds:.1f}"]
    return [*cells, native]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folders", nargs="+", metavar="FOLDER", type=pathlib.Path, help="folders of the zoo")
    options.add_argument("--fangorn", required=True, metavar="PATH", help="a release build")
    options.add_argument("--flags", default="-O3", help="of the compiler (default: -O3)")
    options.add_argument("--smallest", action="store_true", help="`fangorn compile --smallest`: from node to node")
    options.add_argument("--between", action="store_true",
                         help="values between those of float; they change models that compare in double alone")
    options.add_argument("--without-tl2cgen", action="store_true")
    options = options.parse_args()
    own = "us a row | KB | start, ms | compiler, s"
    print(f"| model | {own} | tl2cgen: {own} | library: us a row |")
    print("|---" + "|---:" * 9 + "|")
    for folder in options.folders:
        with tempfile.TemporaryDirectory() as scratch:
            print(f"| {' | '.join(row(options, folder, pathlib.Path(scratch)))} |", flush=True)


if __name__ == "__main__":
    main()
