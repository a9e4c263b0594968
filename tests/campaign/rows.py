"""Rows that ask a model hard questions: at its own thresholds and beside them, at the ends of the type, and ordinary ones."""

import numpy as np

import trees as forest

REMAINDERS = (16, 64, 128, 256)


def count(rng, most=5000):
    """How many rows: from 1 on, often a few more or less than a multiple of a block's length."""
    draw = rng.uniform()
    if draw < 0.6:
        least = 1 if draw < 0.15 else 300
        return int(np.clip(np.exp(rng.uniform(np.log(least), np.log(most))), 1, most))
    block = int(rng.choice(REMAINDERS))
    times = int(rng.integers(1, max(2, min(20, most // block))))
    return int(np.clip(times * block + rng.integers(-2, 3), 1, most))


def edges(kind):
    """Values that any column may be asked with."""
    tiny, big = np.finfo(kind).smallest_subnormal, np.finfo(kind).max
    normal, zone = np.finfo(kind).tiny, kind(np.float32(1e-35))
    ends = [0.0, -0.0, tiny, -tiny, normal, -normal, big, -big, np.inf, -np.inf, np.nan, np.nan, 1.0, -1.0, 1e30]
    near = [v for side in (zone, -zone) for v in (side, np.nextafter(side, kind(0)), np.nextafter(side, side * 2))]
    return np.array(ends + near, kind)


def codes(known, kind):
    """Values that a column of categories may be asked with."""
    top = float(known.max()) if len(known) else 0.0
    odd = [-0.0, 0.0, -0.5, -0.999, -1, -7, top, top + 1, top + 40, top + 0.5, 0.5, 2.7, 31, 32, 63, 64, 255, 256]
    odd += [2.0**24 - 1, 2.0**24, 2.0**24 + 2, 2.0**31, 2.0**32, 1e30, -1e30, np.nan, np.nan, np.inf, -np.inf]
    return np.concatenate([known[:200], odd]).astype(kind)


def near(values, kind):
    """Each value, and the floats just below and above."""
    with np.errstate(over="ignore"):
        values = np.asarray(values, float).astype(kind)
        return np.concatenate([values, np.nextafter(values, kind(-np.inf)), np.nextafter(values, kind(np.inf))])


def around(rng, values, kind):
    """Values a little off: by an interval of a scale of 2^14 to 2^18 intervals, as a table of cells might have."""
    with np.errstate(over="ignore", invalid="ignore"):
        finite = values[np.isfinite(values)]
        if not len(finite):
            return np.zeros(0, kind)
        interval = (finite.max() - finite.min() or abs(finite[0])) * 2.0 ** -rng.integers(14, 19, len(finite))
        return (finite + rng.uniform(-2, 2, len(finite)) * interval).astype(kind)


def aimed(rng, grown, data, leaves, most, kind):
    """Rows of the data that come by a split, with the split's threshold, or a neighbour of it, in its column. Nothing
    else of the row changes, so it still comes by the split."""
    made = []
    for t in rng.permutation(len(grown))[:60]:
        tree = grown[t]
        visitors = tree.visitors(leaves[:, t])
        nodes = [n for n in visitors if tree.column[n] >= 0]
        for n in rng.permutation(nodes)[: max(1, most // 60)]:
            at = visitors[n]
            for value in near([tree.threshold[n]], kind):
                row = data[at[rng.integers(len(at))]].copy()
                row[tree.column[n]] = value
                made.append(row)
        if len(made) >= most:
            break
    return made[:most]


def draw(rng, model, kind, total):
    """So many rows for a model."""
    with np.errstate(over="ignore"):
        data = model.table.x.astype(kind)
    width = data.shape[1]
    sample = data[rng.permutation(len(data))[:200]]
    made = [data[i] for i in rng.integers(len(data), size=total // 4)]
    grown = model.trees()
    if grown:
        leaves = model.leaves(sample)
        made += aimed(rng, grown, sample, leaves, total // 3 + 1, kind)
    # Every threshold of every column comes up in turn, several to a row.
    pools = {}
    for column, values in forest.thresholds(grown).items():
        pools[column] = np.concatenate([near(values, kind), around(rng, values, kind)])
    for column, known in model.table.known.items():
        pools[column] = codes(known, kind)
    for column in pools:
        rng.shuffle(pools[column])
    odd = edges(kind)
    rest = max(0, total - len(made))
    mixed = data[rng.integers(len(data), size=rest)].copy()
    for column in range(width):
        asked = rng.uniform(size=rest)
        if column in pools:
            here = np.flatnonzero(asked < 0.5)
            mixed[here, column] = np.resize(pools[column], len(here))
        elif column in model.table.known:
            continue
        here = np.flatnonzero(asked > 0.97 if column in pools else asked > 0.9)
        mixed[here, column] = codes_or_edges(rng, model, column, odd, kind, len(here))
    for i in range(min(rest // 8, 2 * len(odd))):  # the same in every column
        mixed[i] = [
            codes_or_edges(rng, model, c, odd, kind, 1)[0] if c in model.table.known else odd[i % len(odd)]
            for c in range(width)
        ]
    made += list(mixed)
    made = np.array(made, kind).reshape(-1, width)[:total]
    # Mostly mixed; otherwise blocks of rows are all ordinary, or all hard.
    return np.ascontiguousarray(made[rng.permutation(len(made))] if rng.uniform() < 0.7 else made)


def codes_or_edges(rng, model, column, odd, kind, size):
    if column in model.table.known:
        return rng.choice(codes(model.table.known[column], kind), size)
    return rng.choice(odd, size)
