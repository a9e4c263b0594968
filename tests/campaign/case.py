"""One case: a model, its rows, and everything that is compared."""

import json
import re
import time
import zlib

import numpy as np

import check
import rows as hard
from check import Difference
from fangorn import Broken, Refused

SIZES = [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 513, 1023, 1025]


def generator(seed, producer, index):
    """Random numbers of a case: they depend on nothing but its name."""
    return np.random.default_rng([seed, zlib.crc32(producer.encode()), index])


def reason(error):
    """What a library says in a line, without lines of its source."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    telling = next((line for line in lines if "Check failed" in line or "rror" in line), lines[0])
    return re.sub(r"^\[[0-9:]+\] *\S+: *|^\S*/\S+: *|0x[0-9a-f]+", "", telling)[:160]


class Result:
    def __init__(self, producer, index):
        self.name, self.producer, self.kind, self.note = f"{producer}-{index}", producer, "none", {}
        self.counts = dict.fromkeys("models rows leaves margins bits values classes".split(), 0)
        self.refused, self.not_trained, self.left_out, self.failures, self.refusals = None, None, {}, [], []

    def count(self, what, how_many):
        self.counts[what] += int(how_many)

    def leave_out(self, reason, rows):
        self.left_out[reason] = self.left_out.get(reason, 0) + int(rows)

    def plain(self):
        return dict(self.__dict__)


class Asked:
    """Rows, what the library says of them, and what is compared."""

    def __init__(self, rows, said):
        self.rows, self.said = rows, said

    def chosen(self, rows):
        return Asked(self.rows[rows], {k: None if v is None else v[rows] for k, v in self.said.items()})


def asked(rng, model, kind, total, result):
    """Rows that the library takes, with what it says of them."""
    rows = hard.draw(rng, model, kind, total)
    refused = np.zeros(len(rows), bool)
    for reason, where in model.refused(rows).items():
        if where.any():
            result.leave_out(reason, (where & ~refused).sum())
            refused |= where
    rows = np.ascontiguousarray(rows[~refused])
    return Asked(rows, model.said(rows)) if len(rows) else None


class Checks:
    """What is compared, each by its name: so a failure can be tried again on less."""

    def __init__(self, fangorn, how):
        self.fangorn, self.how = fangorn, how

    def on_reference(self):
        """The same checks of the reference interpreter."""
        how = check.How(np.random.default_rng(0))
        how.isa, how.gathers, how.schedule, how.backend = None, None, None, "reference"
        return Checks(self.fangorn, how)

    def predict(self, model, rows, output, sums=None):
        return self.fangorn.predict(model.file, rows, output, self.how, sums)

    def leaves(self, model, a):
        if a.said["leaves"] is None:
            return 0
        return check.leaves(self.predict(model, a.rows, "leaf"), a.said["leaves"])

    def allowed(self, model, a):
        """What each row's margin may be off by."""
        margin = a.said["margin"]
        if margin is None:
            margin = self.predict(model, a.rows, "margin")
        added = self.predict(model, a.rows, "tree")
        with np.errstate(over="ignore", invalid="ignore"):
            return check.bound(model, added, margin)

    def margins(self, model, a, sums=None):
        if a.said["margin"] is None:
            return 0
        found = self.predict(model, a.rows, "margin", sums)
        allowed = self.allowed(model, a)
        if sums == "exact":
            allowed += check.units(json.loads(self.fangorn.run("inspect", "--json", model.file)))
        return check.within(found, a.said["margin"], allowed, "margins" + (f" {sums}" if sums else ""))

    def exact(self, model, a):
        """Sums of whole numbers: the same bytes of half of the rows, too."""
        half = a.chosen(slice(len(a.rows) // 2, None))
        whole = self.predict(model, a.rows, "margin", "exact")[len(a.rows) // 2 :]
        check.bits(self.predict(model, half.rows, "margin", "exact"), whole, "exact margins of fewer rows")
        return self.margins(model, a, "exact")

    def bits(self, model, a):
        if not model.same_bits or a.said["margin"] is None:
            return 0
        found = self.predict(model, a.rows, "margin", "tree")
        return check.bits(found, a.said["margin"], "margins in the order of trees")

    def values(self, model, a):
        if a.said["value"] is None:
            return 0
        found = self.predict(model, a.rows, "value")
        margin = a.said["value"] if a.said["margin"] is None else a.said["margin"]
        allowed = check.value_bound(a.said["value"], margin, self.allowed(model, a))
        return check.within(found, a.said["value"], allowed, "values")

    def classes(self, model, a):
        if a.said["class"] is None:
            return 0
        found = self.predict(model, a.rows, "class")
        expected = np.asarray(a.said["class"]).reshape(found.shape)
        tied = model.tied(a.said) if hasattr(model, "tied") else np.zeros(len(found), bool)
        check.expect(found, expected, lambda: (found != expected) & ~tied[:, None], "classes")
        return (~tied).sum()

    def converted(self, model, a):
        """The same from fangorn's own file."""
        if a.said["leaves"] is None:
            return 0
        own = model.file.with_suffix(".fangorn")
        self.fangorn.run("convert", model.file, "-o", own)
        found = self.fangorn.predict(own, a.rows, "leaf", self.how)
        return check.leaves(found, a.said["leaves"], "leaves of the converted file")


# name of a check -> what it counts
COUNTED = {
    "leaves": "leaves", "margins": "margins", "exact": "margins", "bits": "bits", "values": "values",
    "classes": "classes", "converted": "leaves",
}  # fmt: skip


def run(seed, module, index, fangorn, folder, keep=None):
    """Trains the model, compares, and keeps what fails."""
    producer = module.NAME
    result = Result(producer, index)
    rng = generator(seed, producer, index)
    begin = time.perf_counter()
    try:
        model = module.make(rng, folder)
    except Exception as error:  # whatever the library throws
        result.not_trained = reason(error)
        return result
    result.kind, result.note = model.kind, model.note
    result.counts["models"] = 1
    how = check.How(rng)
    result.how = how.text()
    checks = Checks(fangorn, how)
    kinds = [(np.float32, hard.count(rng))]
    if model.wide or rng.uniform() < 0.15:
        kinds.append((np.float64, hard.count(rng, 1500)))
    try:
        fangorn.run("inspect", model.file)
    except Refused as refused:
        result.refused = str(refused)
        return result
    except Broken as broken:
        result.failures.append({"what": "inspect", "words": str(broken)})
        return result
    for kind, total in kinds:
        try:
            a = asked(rng, model, kind, total, result)
        except Exception as error:  # whatever the library throws
            result.leave_out(f"all, since it says: {reason(error)}", total)
            continue
        if a is None:
            continue
        result.count("rows", len(a.rows))
        tasks = [(name, slice(None)) for name in ("leaves", "margins", "bits", "values", "classes")]
        if rng.uniform() < 0.2:
            tasks.append(("exact", slice(None)))
        if rng.uniform() < 0.1:
            tasks.append(("converted", slice(None)))
        for _ in range(2):
            size = min(int(rng.choice(SIZES)), len(a.rows))
            first = int(rng.integers(len(a.rows) - size + 1))
            tasks.append((str(rng.choice(["leaves", "bits", "margins"])), slice(first, first + size)))
        first = int(rng.integers(len(a.rows)))
        tasks.append(("leaves", slice(first, first + 1)))
        for name, chosen in tasks:
            if how.backend == "reference" and name in ("bits", "exact"):
                continue  # it adds up in its own way only
            subset = a.chosen(chosen)
            try:
                result.count(COUNTED[name], getattr(checks, name)(model, subset))
            except Refused as refused:
                result.refusals.append(f"{name}: {refused}")
                how.schedule = None  # what a schedule can't do is asked without it from here on
            except (Difference, Broken) as found:
                failure = {"what": name, "words": str(found), "type": np.dtype(kind).name, "rows": len(subset.rows)}
                if keep:
                    failure.update(keep(result, checks, name, model, subset, found))
                result.failures.append(failure)
                break  # what follows would say the same again
    result.seconds = time.perf_counter() - begin
    return result
