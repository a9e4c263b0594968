"""Compares four algorithms on fusion plans with PyTorch (eager), on the same rows.

Build first: cargo build --release -p fangorn-fusion --examples
Then, with a Python that has torch:
    python benches/fusion/algorithms.py target/release/examples --rows 12500000 --columns 10

Both train in double precision on all cores, with the same steps from the same start, so they reach the same objective;
the table shows both objectives. Times are medians of three trainings after one to warm up, each algorithm by Fangorn
and then by PyTorch. `--only kmeans,glm` names algorithms.
"""

import argparse
import json
import re
import statistics
import subprocess
import time
from pathlib import Path

import numpy as np
import torch

LAMBDA = 1e-3
TOLERANCE = 1e-12
OUTER, INNER = 20, 10


class Draws:
    """The random numbers of the examples (`draws` in fusion/examples/shared): a linear congruential generator."""

    BLOCK = 1 << 22

    def __init__(self, seed):
        self.seed = np.uint64(seed)
        factors = np.full(self.BLOCK, 6364136223846793005, np.uint64)
        self.powers = np.multiply.accumulate(factors)
        before = np.concatenate([np.ones(1, np.uint64), self.powers[:-1]])
        self.steps = np.add.accumulate(before) * np.uint64(1442695040888963407)

    def __call__(self, *shape):
        out = np.empty(int(np.prod(shape)))
        for first in range(0, len(out), self.BLOCK):
            count = min(self.BLOCK, len(out) - first)
            seeds = self.powers[:count] * self.seed + self.steps[:count]
            out[first : first + count] = (seeds >> np.uint64(33)) / 2.0**31 - 0.5
            self.seed = seeds[-1]
        return out.reshape(shape)


def l2svm_data(rows, columns):
    draw = Draws(42)
    x = draw(rows, columns)
    signs = np.where(np.arange(columns) % 2 == 0, 1.0, -1.0)
    y = np.where(x @ signs + draw(rows) >= 0, 1.0, -1.0)
    return torch.from_numpy(x), torch.from_numpy(y)


def l2svm(x, y):
    w = x.new_zeros(x.shape[1])
    xw = x.new_zeros(x.shape[0])
    old = x.T @ y
    s = old
    objective = float("inf")
    for _ in range(OUTER):
        xd = x @ s
        wd, dd = LAMBDA * (w @ s), LAMBDA * (s @ s)
        size = 0.0
        for _ in range(100):
            out = 1 - y * (xw + size * xd)
            violated = (out > 0).to(x.dtype)
            g = wd + size * dd - (out * violated * y * xd).sum()
            h = dd + (xd * violated * xd).sum()
            size = size - g / h
            if g * g / h < 1e-10:
                break
        w = w + size * s
        xw = xw + size * xd
        out = (1 - y * xw).clamp(min=0)
        objective = 0.5 * (out * out).sum() + LAMBDA / 2 * (w @ w)
        new = x.T @ (out * y) - LAMBDA * w
        gain = s @ old
        s = s * ((new @ new) / (old @ old)) + new
        old = new
        if size * gain < TOLERANCE * objective:
            break
    return float(objective)


def newton(model, curvature, shape, kind):
    """Newton's method whose steps conjugate gradients find, as in fusion/examples/newton."""
    b = torch.zeros(shape, dtype=kind)
    least, gradient, kept = model(b)
    for _ in range(OUTER):
        residual = -gradient
        first = (residual * residual).sum()
        if first == 0:
            break
        solution, direction, squares = torch.zeros_like(b), residual, first
        for _ in range(INNER):
            product = curvature(direction, kept)
            size = squares / (direction * product).sum()
            solution = solution + direction * size
            residual = residual - product * size
            following = (residual * residual).sum()
            direction = residual + direction * (following / squares)
            squares = following
            if squares <= TOLERANCE**2 * first:
                break
        scale, before, old = 1.0, least, b
        while True:
            b = old + solution * scale
            least, gradient, kept = model(b)
            if least <= before or scale < 1e-6:
                break
            scale /= 2
        if before - least <= TOLERANCE * least:
            break
    return float(least)


def mlogreg_data(rows, columns, classes=2):
    draw = Draws(11)
    truth = 2 * draw(columns, classes)
    x = draw(rows, columns)
    scores = x @ truth
    scores += draw(rows, classes)
    # The last of equal scores, as in the example.
    chosen = classes - 1 - scores[:, ::-1].argmax(axis=1)
    y = (chosen[:, None] == np.arange(classes - 1)).astype(float)
    return torch.from_numpy(x), torch.from_numpy(y)


def mlogreg(x, y):
    def model(b):
        scores = x @ b
        greatest = scores.amax(1, keepdim=True).clamp(min=0)
        powers = (scores - greatest).exp()
        whole = powers.sum(1, keepdim=True) + (-greatest).exp()
        p = powers / whole
        loss = (greatest + whole.log()).sum() - (y * scores).sum()
        return loss + LAMBDA / 2 * (b * b).sum(), x.T @ (p - y) + b * LAMBDA, p

    def curvature(d, p):
        q = p * (x @ d)
        return x.T @ (q - p * q.sum(1, keepdim=True)) + d * LAMBDA

    return newton(model, curvature, (x.shape[1], y.shape[1]), x.dtype)


def glm_data(rows, columns):
    draw = Draws(23)
    truth = 4 * draw(columns)
    x = draw(rows, columns)
    y = x @ truth
    block = 1 << 20
    for first in range(0, rows, block):
        y[first : first + block] += draw(min(block, rows - first), 12).sum(1)
    return torch.from_numpy(x), torch.from_numpy(np.where(y >= 0, 1.0, -1.0)[:, None])


def glm(x, y):
    def model(b):
        margin = y * (x @ b)
        t = 1 / (margin.abs() * 0.231641888 + 1)
        total = t * 1.061405429
        for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
            total = (total + factor) * t
        bell = (margin.square() * -0.5).exp()
        tail = total * bell * 0.5
        right = (margin > 0).to(x.dtype)
        p = (right + tail * (1 - right * 2)).clamp(min=1e-300)
        density = 0.3989422804014327
        ratio = bell * density / p
        objective = LAMBDA / 2 * (b * b).sum() - p.log().sum()
        weights = ratio * bell * density / (1 - p).clamp(min=1e-300)
        return objective, b * LAMBDA - x.T @ (y * ratio), weights

    def curvature(d, weights):
        return x.T @ (weights * (x @ d)) + d * LAMBDA

    return newton(model, curvature, (x.shape[1], 1), x.dtype)


def kmeans_data(rows, columns, centroids=5):
    draw = Draws(7)
    centres = 3 * draw(centroids, columns)
    x = 2 * draw(rows, columns)
    block = 1 << 20
    for first in range(0, rows, block):
        part = x[first : first + block]
        part += centres[np.arange(first, first + len(part)) % centroids]
    return (torch.from_numpy(x),)


def kmeans(x, centroids=5):
    c = x[:centroids].clone()
    squares = (x * x).sum()
    error = float("inf")
    for _ in range(20):
        distances = -2 * (x @ c.T) + (c * c).sum(1)[None, :]
        least = distances.amin(1, keepdim=True)
        nearest = (distances <= least).to(x.dtype)
        shares = nearest / nearest.sum(1, keepdim=True)
        c = shares.T @ x / shares.sum(0)[:, None]
        following = float(squares + least.sum())
        gain = error - following
        error = following
        if gain <= TOLERANCE * error:
            break
    return error


ALGORITHMS = {
    "l2svm": (l2svm_data, l2svm),
    "mlogreg": (mlogreg_data, mlogreg),
    "glm": (glm_data, glm),
    "kmeans": (kmeans_data, kmeans),
}
LINE = re.compile(r"^(\w+): ([\d.]+) s .*(?:objective|error) ([\d.e+-]+)")


def fangorn(program, rows, columns):
    """Seconds by policy, and the objective of the cost-based plan."""
    lines = subprocess.run([program, str(rows), str(columns)], check=True, capture_output=True, text=True).stdout
    found = [LINE.match(line) for line in lines.splitlines()]
    seconds = {line[1]: float(line[2]) for line in found if line}
    return seconds, next(float(line[3]) for line in found if line and line[1] == "CostBased")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("programs", type=Path, help="the folder with the examples")
    arguments.add_argument("--rows", type=int, default=12_500_000)
    arguments.add_argument("--columns", type=int, default=10)
    arguments.add_argument("--only", default=",".join(ALGORITHMS), help="algorithms, with commas between them")
    arguments.add_argument("--json", action="store_true", help="a line of JSON for each algorithm, no table")
    options = arguments.parse_args()
    if not options.json:
        print("algorithm | cost-based s | fuse-all / it | fuse-no-redundancy / it | no fusion / it | PyTorch / it | objectives")
    for name in options.only.split(","):
        make, train = ALGORITHMS[name]
        program = options.programs / name
        ours, objective = fangorn(program, options.rows, options.columns)
        data = make(options.rows, options.columns)
        times, reached = [], 0.0
        for turn in range(4):
            begin = time.perf_counter()
            reached = train(*data)
            if turn > 0:
                times.append(time.perf_counter() - begin)
        del data
        torch_seconds = statistics.median(times)
        if options.json:
            found = {"name": name, "rows": options.rows, "columns": options.columns, "seconds": ours}
            print(json.dumps(found | {"torch": torch_seconds, "objectives": [objective, reached]}), flush=True)
            continue
        base = ours["CostBased"]
        ratios = [f"{ours[policy] / base:.2f}" for policy in ("FuseAll", "FuseNoRedundancy", "NoFusion")]
        ratios.append(f"{torch_seconds / base:.2f}")
        print(f"{name} | {base:.2f} | {' | '.join(ratios)} | {objective:.9e}, {reached:.9e}", flush=True)


main()
