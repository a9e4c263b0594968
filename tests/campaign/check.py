"""Holds what fangorn makes of a model and rows against what the model's library says of them."""

import numpy as np

ISAS = ["avx2", "portable"]
PRESETS = (
    "xgboost treebeard_one_tree treebeard_tiles treebeard_one_row tahoe_direct tahoe_shared_data tahoe_shared_forest"
    " tahoe_shared_partial_forest rapids_fil nvforest nvforest_depth_first nvforest_layered hummingbird"
).split()
BLENDS = (
    "tile(batch, b0, b1, 256)\nreorder(b0, tree, b1)\nparallel(b0)\ncache(b0)\nevaluate(b1, blend)\nlayout(sparse)\n"
)
WALKS = "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\nparallel(b0)\ncache(b0)\nlayout(sparse)\n"
TEXTS = [
    "ranks(u8)\n" + BLENDS, "ranks(u8)\n" + WALKS, "ranks(u16)\n" + WALKS, "ranks(off)\n" + WALKS, "ranks(auto)\n",
    "tile(tree, t0, t1, trees/3)\nreorder(t0, batch, t1)\nparallel(t0)\n", "reorder(tree, batch)\nsort(depth)\n",
    "parallel(tree)\natomicReduce(tree)\ntile(batch, b0, b1, 16)\nreorder(b0, tree, b1)\n",
]  # fmt: skip
SINGLE = 2.0**-24
LEAST = 2.0**-149  # the least f32 above 0


class Difference(Exception):
    """Something that should be the same and is not: what, at which rows, and in words."""

    def __init__(self, what, rows, words):
        super().__init__(words)
        self.what, self.rows, self.words = what, rows, words


class How:
    """How fangorn is run on a model: mostly as it does by itself."""

    def __init__(self, rng):
        self.isa = str(rng.choice(ISAS)) if rng.uniform() < 0.3 else None
        self.gathers = str(rng.choice(["slow", "fast"])) if rng.uniform() < 0.2 else None
        self.schedule = str(rng.choice(PRESETS + TEXTS)) if rng.uniform() < 0.3 else None
        self.threads = int(rng.choice([1, 1, 1, 2, 3]))
        self.backend = "reference" if rng.uniform() < 0.05 else None

    def text(self):
        return "; ".join(f"{name} {value}".strip().replace("\n", ", ") for name, value in vars(self).items() if value)


def expect(found, expected, wrong, what, note="", allowed=None):
    """Raises the difference where anything is wrong: `wrong` says where, and is asked if the shapes agree."""
    if found.shape != expected.shape:
        raise Difference(what, np.arange(len(found)), f"shape {found.shape}, expected {expected.shape}")
    differ = wrong()
    if not differ.any():
        return found.size
    row, column = np.argwhere(differ)[0]
    words = f"{differ.sum()} of {differ.size}; first row {row}, column {column}: "
    words += f"{found[row, column]}, expected {expected[row, column]}{note}"
    if allowed is not None:
        words += f", allowed {np.broadcast_to(allowed, found.shape)[row, column]:.3g}"
    raise Difference(what, np.flatnonzero(differ.any(axis=1)), words)


def leaves(found, expected, what="leaves"):
    return expect(found, expected, lambda: found != expected, what)


def bound(model, added, margin):
    """What a sum in any order may be off by, for each row: ours, and the library's own."""
    trees = max(1, added.shape[1])
    with np.errstate(invalid="ignore", over="ignore"):
        sizes = np.abs(added.astype(np.float64)).sum(axis=1)
        # The base score is at most what the leaves don't say of the margin.
        base = np.abs(margin.astype(np.float64)).max(axis=1) + sizes
        ours = (trees + 1) * (SINGLE * (base + sizes) + LEAST)
    return ours * (2 if model.sums_in == np.float32 else 1)


def units(facts):
    """What rounding to whole numbers of a unit adds to an exact sum: the unit goes by the model's largest leaves, whatever
    a row's are. `facts` is what `inspect --json` says."""
    addends = facts["trees"] + 1
    leaf = max(abs(facts["leaf_values"][end]) for end in ("least", "largest"))
    most = max(map(abs, facts["base_score"])) + facts["trees"] * leaf
    low_bits = 32 - int(np.ceil(np.log2(addends)))
    return addends * (most * 2.0 ** -(28 + low_bits) + 2.0**-126)


def within(found, expected, allowed, what):
    """Numbers that may differ by so much a row, or so much each."""
    allowed = allowed[:, None] if allowed.ndim == 1 else allowed

    def wrong():
        with np.errstate(invalid="ignore", over="ignore"):
            single = expected.astype(np.float32)
            off = np.abs(found.astype(np.float64) - expected.astype(np.float64))
            same = (found == single) | (np.isnan(found) & np.isnan(single))
            return ~same & ~(off <= allowed)

    return expect(found, expected, wrong, what, allowed=allowed)


def bits(found, expected, what):
    """The same bits, but for zero's sign."""
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(expected, np.float32)

    def wrong():
        same = (found.view(np.uint32) == single.view(np.uint32)) | ((found == 0) & (single == 0))
        return ~same & ~(np.isnan(found) & np.isnan(single))

    return expect(found, expected, wrong, what, ", bit for bit")


def gap(value, threshold):
    """How far each row's largest value is from the next one, or its only one from the threshold."""
    value = np.sort(value.astype(np.float64), axis=1)
    return value[:, -1] - value[:, -2] if value.shape[1] > 1 else np.abs(value[:, 0] - threshold)


def value_bound(value, margin, allowed):
    """What values may be off by, whatever the transform: identity, sigmoid, softmax, exponential, square."""
    with np.errstate(over="ignore", invalid="ignore"):
        steep = 4 * (1 + np.abs(margin.astype(np.float64)).max(axis=1))
        relative = np.expm1(np.minimum(4 * allowed, 50)) + 2.0**-20
        return (steep * allowed)[:, None] + np.abs(value.astype(np.float64)) * relative[:, None] + 1e-30
