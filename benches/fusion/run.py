"""Compares fused operators with numpy, scipy and PyTorch on the expressions of figure 8 of the fusion paper.

Build first: cargo build --release -p fangorn-fusion --example micro
Then, with a Python that has numpy, scipy and torch:
    python benches/fusion/run.py target/release/examples/micro 100000

Every system runs on all cores, on inputs of the same shapes; medians of nine runs after two to warm up. The memory
bandwidth is measured in the same run, as numpy's sum of a matrix of a GiB and as PyTorch's.
"""

import json
import statistics
import subprocess
import sys
import time

import numpy as np
import scipy.sparse as sp
import torch


def median(run):
    times = []
    for turn in range(11):
        begin = time.perf_counter()
        run()
        if turn > 1:
            times.append(time.perf_counter() - begin)
    return statistics.median(times)


def peers(rows):
    """The expressions by name: numpy (scipy where inputs are sparse), and torch or None."""
    columns = 100
    side = int((rows * columns) ** 0.5)
    random = np.random.default_rng(1)
    x, y, z = (random.random((rows, columns)) + 0.1 for _ in range(3))
    v, w = random.random((columns, 1)), random.random((columns, 2))
    sx, sy, sz = (sp.random(rows, columns, 0.1, format="csr", random_state=k) for k in range(3))
    tx, ty, tz, tv, tw = map(torch.from_numpy, (x, y, z, v, w))
    u = random.random((side, columns)) + 0.1
    t = random.random((side, columns)) + 0.1
    s = sp.random(side, side, 0.01, format="csr", random_state=4)
    dense, tu, tt = torch.from_numpy(s.toarray()), torch.from_numpy(u), torch.from_numpy(t)
    return {
        "cell-dense": (lambda: (x * y * z).sum(), lambda: (tx * ty * tz).sum()),
        "magg-dense": (
            lambda: ((x * y).sum(), (x * z).sum()),
            lambda: ((tx * ty).sum(), (tx * tz).sum()),
        ),
        "row-dense": (lambda: x.T @ (x @ v), lambda: tx.T @ (tx @ tv)),
        "cell-sparse": (lambda: sx.multiply(sy).multiply(sz).sum(), None),
        "magg-sparse": (lambda: (sx.multiply(sy).sum(), sx.multiply(sz).sum()), None),
        "row-sparse": (lambda: sx.T @ (sx @ v), None),
        "row-two-columns": (lambda: x.T @ (x @ w), lambda: tx.T @ (tx @ tw)),
        "outer-0.01": (
            lambda: s.multiply(np.log(u @ t.T + 1e-15)).sum(),
            lambda: (dense * torch.log(tu @ tt.T + 1e-15)).sum(),
        ),
    }


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program, rows = sys.argv[1], int(sys.argv[2])
    whole = np.ones((1 << 27,))
    both = torch.from_numpy(whole)
    for name, run in (("numpy", whole.sum), ("torch", both.sum)):
        print(f"reading, by {name}'s sum: {whole.nbytes / median(run) / 1e9:.1f} GB/s")
    del whole, both
    lines = subprocess.run([program, str(rows)], check=True, capture_output=True, text=True).stdout
    print("expression | fused ms | GB/s | unfused / fused | numpy / fused | torch / fused")
    systems = peers(rows)
    for line in map(json.loads, lines.splitlines()):
        ratios = [f"{median(run) / line['fused']:.2f}" if run else "-" for run in systems[line["name"]]]
        print(
            f"{line['name']} | {line['fused'] * 1e3:.2f} | {line['bytes'] / line['fused'] / 1e9:.1f} | "
            f"{line['unfused'] / line['fused']:.2f} | {ratios[0]} | {ratios[1]}"
        )


main()
