"""Makes what fails smaller, and keeps it as an entry of the zoo."""

import json
import shutil
import time

import numpy as np

from check import Difference
from fangorn import Broken, Refused

PATIENCE = 30  # seconds


def less(file):
    """The file that a cut model is written to."""
    return file.with_name("less" + file.suffix)


def fails(checks, name, model, asked):
    try:
        getattr(checks, name)(model, asked)
    except (Difference, Broken):
        return True
    except Refused:
        pass
    return False


def rows(checks, name, model, asked, suspects, end):
    """Fewer rows that still fail: one of the suspects if one does, otherwise what is left of halving."""
    for row in suspects[:3]:
        if fails(checks, name, model, asked.chosen(slice(row, row + 1))):
            return asked.chosen(slice(row, row + 1))
    count = max(1, len(asked.rows) // 2)
    while count >= 1 and time.perf_counter() < end:
        kept = None
        for first in range(0, len(asked.rows), count):
            without = np.r_[0:first, min(first + count, len(asked.rows)) : len(asked.rows)]
            if len(without) and fails(checks, name, model, asked.chosen(without)):
                kept = asked.chosen(without)
                break
            if time.perf_counter() > end:
                break
        if kept is None:
            count //= 2
        else:
            asked = kept
            count = min(count, max(1, len(asked.rows) // 2))
    return asked


def trees(checks, name, model, asked, end, make):
    """Fewer rounds that still fail, if the library cuts the model."""
    first, last = 0, model.rounds()
    best = model, asked
    while last - first > 1 and time.perf_counter() < end:
        middle = (first + last) // 2
        for a, b in ((first, middle), (middle, last)):
            cut = model.fewer(a, b)
            subset = make(asked.rows, cut.said(asked.rows))
            if fails(checks, name, cut, subset):
                best, first, last = (cut, subset), a, b
                break
        else:
            break
    cut, subset = best
    if cut is not model:  # the file is that of the last one tried
        cut = model.fewer(first, last)
        subset = make(asked.rows, cut.said(asked.rows))
    return cut, subset


def write(folder, result, name, model, asked, words, seed):
    """An entry of the zoo, with what was found in meta.json."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(model.file, folder / ("model" + model.file.suffix))
    kind = asked.rows.dtype.type

    def save(rows, said, suffix):
        np.save(folder / f"rows{suffix}.npy", rows)
        for what, file in (("margin", "margin"), ("leaves", "leaves"), ("value", "output")):
            if said[what] is not None and (what != "value" or not suffix):
                np.save(folder / f"{file}{suffix}.npy", said[what])

    if kind is np.float64:
        save(asked.rows, asked.said, "64")
        with np.errstate(over="ignore"):
            single = asked.rows.astype(np.float32)
        save(single, model.said(single), "")
    else:
        save(asked.rows, asked.said, "")
    margin = asked.said["margin"]
    meta = {
        "library": model.producer, "trees": len(model.trees()), "objective": getattr(model, "objective", model.kind),
        "special": f"{name}: {words}", "name": folder.name, "model": "model" + model.file.suffix,
        "rows": list(asked.rows.shape), "outputs": int(margin.shape[1]) if margin is not None else 0,
        "case": {"name": result.name, "seed": seed, "check": name, "how": result.how, "settings": result.note},
    }  # fmt: skip
    (folder / "meta.json").write_text(json.dumps(meta, indent=1, default=str) + "\n")


class Keeper:
    """Minimises a failure, says whether the reference interpreter agrees with the library, and keeps it."""

    def __init__(self, folder, seed, make):
        self.folder, self.seed, self.make = folder, seed, make

    def __call__(self, result, checks, name, model, asked, found):
        end = time.perf_counter() + PATIENCE
        smaller, subset = model, rows(checks, name, model, asked, getattr(found, "rows", range(len(asked.rows))), end)
        if hasattr(model, "fewer"):
            try:
                smaller, subset = trees(checks, name, model, subset, end, self.make)
            except Exception as error:  # whatever the library throws: then the model stays whole
                result.note["not cut"] = str(error)[:100]
        if smaller is not model and len(subset.rows) > 1:
            subset = rows(checks, name, smaller, subset, range(len(subset.rows)), end)
        words = str(found)
        try:
            getattr(checks, name)(smaller, subset)
        except (Difference, Broken, Refused) as left:
            words = str(left)
        folder = self.folder / f"{result.name}-{name}-{np.dtype(asked.rows.dtype).name}"
        write(folder, result, name, smaller, subset, words, self.seed)
        agrees = "is not asked"
        if name not in ("bits", "exact", "converted"):
            agrees = "differs too" if fails(checks.on_reference(), name, smaller, subset) else "agrees with the library"
        left = f"{len(subset.rows)} rows, {len(smaller.trees())} trees: {words}"
        return {"kept": folder.name, "left": left, "reference": agrees}
