"""Random training tables: columns of every kind side by side, and what is to be learnt from them."""

import numpy as np
import pandas

KINDS = ["normal", "heavy", "whole", "two", "constant", "offset", "sparse", "tied"]
# How often each comes up: in most tables, and in those that many thresholds are wanted of.
USUAL = [0.3, 0.1, 0.15, 0.1, 0.04, 0.13, 0.1, 0.08]
FULL = [0.6, 0.12, 0.12, 0.0, 0.0, 0.08, 0.04, 0.04]
MOST_CELLS = 150_000


class Table:
    """Rows to train on, in f64. A column of categories holds codes from 0; `known` has those that occur."""

    def __init__(self, x, categories, kinds):
        self.x, self.categories, self.kinds = x, categories, kinds
        self.known = {c: np.unique(x[~np.isnan(x[:, c]), c]) for c in categories}

    @property
    def single(self):
        with np.errstate(over="ignore"):
            return self.x.astype(np.float32)


def frame(table):
    """The table with names: columns `c0` and so on, categories `name 0` and so on; codes stay what they are."""
    columns = {}
    for c in range(table.x.shape[1]):
        column = table.x[:, c]
        if c in table.known:
            names = [f"name {i}" for i in range(int(np.nanmax(column, initial=0)) + 1)]
            column = pandas.Categorical.from_codes(np.nan_to_num(column, nan=-1).astype(int), names)
        columns[f"c{c}"] = column
    return pandas.DataFrame(columns)


def log_uniform(rng, least, most):
    """A whole number; as many draws between 1 and 10 as between 10 and 100."""
    return int(np.clip(np.exp(rng.uniform(np.log(least), np.log(most + 1))), least, most))


def numbers(rng, kind, rows):
    if kind == "normal":
        return rng.normal(size=rows) * 10.0 ** rng.uniform(-6, 6) + rng.choice([0, 0, 1, -3])
    if kind == "heavy":
        return rng.standard_t(1, size=rows) * 10.0 ** rng.uniform(-3, 6)
    if kind == "whole":
        return rng.integers(-rng.integers(0, 20), rng.integers(1, 400), rows).astype(float)
    if kind == "two":
        low, high = sorted(rng.choice([0.0, 1.0, -1.0, 0.5, 1e-3, 1e6], 2, replace=False))
        return np.where(rng.uniform(size=rows) < rng.uniform(0.1, 0.9), low, high)
    if kind == "constant":
        return np.full(rows, rng.choice([0.0, 1.0, -7.25, 1e9]))
    if kind == "offset":
        # Neighbours differ by little more than an f32 can tell, or by less.
        return rng.choice([1.0, -1e3, 1e6, 1.7e9]) * (1 + rng.normal(size=rows) * 10.0 ** rng.uniform(-8, -5))
    if kind == "sparse":
        return np.where(rng.uniform(size=rows) < 0.9, 0.0, rng.normal(size=rows) * 10.0 ** rng.uniform(-3, 3))
    return np.round(rng.normal(size=rows), 1)  # tied


def table(rng, missing=True, categories=0.0, most_columns=300, most_codes=1000, wide=True, full=False):
    """A table of random size. `categories` is the chance that there are such columns at all; without `wide` values are
    those of f32. A `full` one has as many values of its columns as a model can have thresholds."""
    columns = int(rng.integers(6, 49)) if full else log_uniform(rng, 1, most_columns)
    rows = min(log_uniform(rng, 600 if full else 200, 3000), max(200, MOST_CELLS // columns))
    holes = missing and rng.uniform() < 0.6
    chances = np.array(FULL if full else USUAL)
    if not full and rng.uniform() < 0.25:  # most columns of one kind
        chances = chances * 0.2 + 0.8 * (np.array(KINDS) == rng.choice(KINDS))
    kinds = list(rng.choice(KINDS, columns, p=chances))
    if rng.uniform() < categories:
        # One among numbers, some, or all of them.
        share = rng.choice([0.0, 0.1] if full else [0.0, 0.1, 0.5, 1.0])
        for c in range(columns):
            if rng.uniform() < share:
                kinds[c] = "category"
        kinds[rng.integers(columns)] = "category"
    x = np.empty((rows, columns))
    for c, kind in enumerate(kinds):
        if kind == "category":
            x[:, c] = codes(rng, rows, min(most_codes, log_uniform(rng, 2, 1000)))
        else:
            x[:, c] = numbers(rng, kind, rows)
        if holes and rng.uniform() < 0.6:
            x[rng.uniform(size=rows) < rng.uniform(0, 0.5), c] = np.nan
    if not wide:
        x = np.clip(x, -3e38, 3e38).astype(np.float32).astype(np.float64)
    return Table(x, [c for c, kind in enumerate(kinds) if kind == "category"], kinds)


def codes(rng, rows, count):
    """Codes of categories, even or with a few that are frequent."""
    if rng.uniform() < 0.5:
        return rng.integers(0, count, rows).astype(float)
    return np.minimum(rng.geometric(min(0.5, 5.0 / count), rows) - 1, count - 1).astype(float)


def score(rng, table):
    """A number a row that depends on several columns, on what is missing, and on chance."""
    x, rows = table.x, len(table.x)
    total = np.zeros(rows)
    width = x.shape[1]
    most = int(rng.integers(1, 9)) if rng.uniform() < 0.6 else 48
    chosen = rng.choice(width, min(width, most), replace=False)
    chosen = np.unique(np.concatenate([chosen, rng.permutation(table.categories)[:3].astype(int)]))
    terms = []
    for c in chosen:
        column = x[:, c]
        hole = np.isnan(column)
        if c in table.known:
            effect = rng.normal(size=int(np.nanmax(column, initial=0)) + 1)
            term = effect[np.where(hole, 0, column).astype(int)]
        else:
            order = np.argsort(np.argsort(np.where(hole, -np.inf, column), kind="stable"), kind="stable") / rows
            term = np.sin(order * rng.uniform(1, 25)) + (order > rng.uniform())
        term = np.where(hole, rng.normal(), term)
        terms.append(term)
        total += rng.normal() * term
    if len(terms) > 1:
        total += terms[0] * terms[1]
    return total + rng.normal(size=rows) * rng.choice([0.05, 0.3, 1.0, 5.0])


def scaled(values):
    """With mean 0 and variance 1, and no value far out."""
    return np.clip((values - values.mean()) / (values.std() + 1e-9), -6, 6)


def rounds(rng, most, full):
    """How many rounds to train: any number up to `most`, or near to it."""
    return max(1, int(most * rng.uniform(0.4, 1))) if full else log_uniform(rng, 1, most)


# What labels objectives take, by name.


def classes_of(rng, score, count):
    """Labels from 0, each of which occurs."""
    cuts = np.quantile(score, np.sort(rng.uniform(0.05, 0.95, count - 1))) if count > 1 else []
    labels = np.digitize(score, cuts)
    labels[rng.permutation(len(labels))[:count]] = np.arange(count)
    return labels


def labels(rng, kind, score):
    s = scaled(score)
    if kind == "number" and rng.uniform() < 0.06:  # leaves near the ends of f32
        return s * 10.0 ** rng.choice([-42, -38, -20, 20, 36])
    if kind == "number":
        return score * 10.0 ** rng.choice([0, 0, -3, 3]) + rng.choice([0, 0, 100])
    if kind == "flag":
        return (s > rng.uniform(-1, 1)).astype(float)
    if kind == "share":
        return 1 / (1 + np.exp(-s))
    if kind == "positive":
        return np.exp(s / 2)
    if kind == "count":
        return rng.poisson(np.exp(s / 2)).astype(float)
    raise ValueError(kind)
