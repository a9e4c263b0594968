#!/usr/bin/env python3
"""Schedules of many cube shapes, and how they compare with each other and with the presets.

The default schedule on a GPU has a shape for each size of a batch: rows of a
cube, and units that share the trees of a row (src/schedule/cubes.rs). `write`
makes a schedule file for each of many shapes, benches/gpu/run.py times them, and
`compare` prints for each batch size how many times the fastest each schedule
takes, as a geometric mean over the models.

Examples:
  python3 benches/gpu/shapes.py write target/shapes
  python3 benches/gpu/run.py --schedule all,$(ls -d target/shapes/* | paste -sd,)
  python3 benches/gpu/shapes.py compare target/gpu-bench/results/results.tsv
"""

import argparse
import csv
import math
import pathlib
from collections import defaultdict

# Rows of a cube, units of a row.
SHAPES = [(1, 128), (1, 256), (1, 512), (2, 64), (2, 128), (2, 256), (4, 32), (4, 64), (4, 128), (8, 16), (8, 32), (8, 64),
          (16, 8), (16, 16), (16, 32), (32, 8), (32, 16), (32, 32), (64, 4), (64, 8), (128, 2), (256, 1)]
# Shapes that are also tried with other layouts, and without cached rows.
MORE = [(1, 256), (8, 32), (8, 64), (32, 16), (256, 1)]
LAYOUTS = ["sparse", "reorg", "depth_first", "array"]


def directives(rows, units, layout, cached):
    """The schedule of a shape, one directive a line."""
    lines = [f"tile(batch, b0, b1, {rows})"]
    if units > 1:
        lines += [f"tile(tree, t0, t1, {units})", "reorder(b0, b1, t1, t0)"]
    lines += ["gpuDimension(b0, grid.x)", "gpuDimension(b1, block.x)"]
    if units > 1:
        lines += ["gpuDimension(t1, block.y)", "sharedReduce(t1)"]
    if cached:
        lines.append("cache(b0)")
    return lines + [f"layout({layout})"]


def write(folder):
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [(shape, "sparse", True) for shape in SHAPES]
    chosen += [(shape, layout, True) for shape in MORE for layout in LAYOUTS[1:]]
    chosen += [(shape, "sparse", False) for shape in MORE]
    for (rows, units), layout, cached in chosen:
        name = f"{rows}-rows-{units}-units-{layout}{'' if cached else '-uncached'}"
        (folder / name).write_text("\n".join(directives(rows, units, layout, cached)) + "\n")
    print(f"{len(chosen)} schedules in {folder}")


def compare(file, engine, most):
    times = defaultdict(dict)
    with open(file, newline="") as table:
        for row in csv.DictReader(table, delimiter="\t"):
            if row["engine"] == engine and row["metric"] == "trial":
                cell = times[int(row["batch"]), row["model"]]
                cell[row["setting"].rsplit("/", 1)[-1]] = float(row["median_us"])
    names = sorted({name for cell in times.values() for name in cell})
    for batch in sorted({batch for batch, _ in times}):
        cells = {model: cell for (b, model), cell in times.items() if b == batch}
        print(f"\nbatch {batch}: times the fastest; geometric mean, then {', '.join(cells)}")
        lines = []
        for name in names:
            # A schedule that a model refuses is compared on no model.
            if all(name in cell for cell in cells.values()):
                ratios = [cell[name] / min(cell.values()) for cell in cells.values()]
                lines.append((math.exp(sum(map(math.log, ratios)) / len(ratios)), name, ratios))
        for mean, name, ratios in sorted(lines)[:most]:
            print(f"{mean:7.3f}  {name:40}", " ".join(f"{ratio:6.2f}" for ratio in ratios))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("write", help="write the schedule files")
    one.add_argument("folder", type=pathlib.Path)
    two = commands.add_parser("compare", help="compare what benches/gpu/run.py measured")
    two.add_argument("results", type=pathlib.Path, help="its results.tsv")
    two.add_argument("--engine", default="fangorn-cuda", help="(default: %(default)s)")
    two.add_argument("--most", type=int, default=20, help="schedules to print for each batch size (default: %(default)s)")
    args = parser.parse_args()
    if args.command == "write":
        write(args.folder)
    else:
        compare(args.results, args.engine, args.most)


if __name__ == "__main__":
    main()
