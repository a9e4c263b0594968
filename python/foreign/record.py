"""What comes of predictions that are made twice: by the library itself, and by fangorn."""

import collections
import functools
import os
import pathlib
import pickle
import re
import threading
import traceback

import numpy

import fangorn

# How far a number may be from the library's, in parts of the largest one of the same prediction.
TOLERANCE = 1e-5

# How far `nudged` moves numbers at most, in parts of the largest one. A few times what sums in float32 are off.
NUDGE = 1e-6

# What becomes of a prediction that is not wrong.
COUNTED = ("compared", "refused", "raised_alike", "left_to_the_library")

_PACKAGE = str(pathlib.Path(fangorn.__file__).parent) + os.sep


class Record:
    """Counts of what was compared, refused and wrong, by test. Threads of a test may predict at the same time."""

    def __init__(self, keep=None, nudge=False):
        self.keep = keep
        # Numbers that move the library's own predictions, in place of fangorn's predictions.
        self.random = numpy.random.default_rng(0) if nudge else None
        self.test = None
        self._counters = {what: collections.Counter() for what in COUNTED}
        self.wrong = []
        self.predicting = set()
        # The same counts by test: {test: {"compared": {call: 3}, "refused": {call and message: 1}}}.
        self.by_test = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
        self._lock = threading.Lock()
        self._inside = threading.local()

    def to_json(self):
        """Return the record as JSON has it."""
        return {
            **self._counters,
            "wrong": self.wrong,
            "predicting": sorted(self.predicting),
            "by_test": self.by_test,
        }

    def without(self, method):
        """Wrap a method of training: what it predicts stays with the library."""

        @functools.wraps(method)
        def wrapper(*arguments, **options):
            with self._outermost():
                return method(*arguments, **options)

        return wrapper

    def leave(self, reason):
        """Count a prediction for which fangorn has no counterpart."""
        self._count("left_to_the_library", reason)

    def both(self, call, theirs, ours, exact=False, reproduction=None):
        """Predict twice, compare, and return fangorn's prediction, or the library's where fangorn refuses.

        `reproduction` makes what is kept of a wrong prediction: the model and the rows. Calls within a call are the
        library's own.
        """
        if self.is_nested():
            return theirs()
        if self.random is not None:
            with self._outermost():
                return nudged(theirs(), self.random, exact)
        with self._outermost():
            expected, error = _outcome(theirs)
            found, our_error = _outcome(ours)
        with self._lock:
            self.predicting.add(self.test)
        if error is not None:
            if our_error is not None:
                self._count("raised_alike", f"{call}: {type(error).__name__}")
            else:
                self._note(call, "accepted", f"{type(error).__name__}: {error}", reproduction, found, None)
            raise error
        if our_error is not None:
            if is_refusal(our_error):
                self._count("refused", f"{call}: {without_particulars(our_error)}")
            else:
                frames = traceback.format_exception(our_error)
                self._note(call, "raised", "".join(frames[-3:]), reproduction, None, expected)
            return expected
        difference = difference_of(found, expected, exact)
        if difference is None:
            self._count("compared", call)
        else:
            self._note(call, *difference, reproduction, found, expected)
        return found

    def is_nested(self):
        """Whether a call is the library's own, within another one."""
        return bool(getattr(self._inside, "depth", 0))

    def _outermost(self):
        return _Depth(self._inside)

    def _count(self, what, key):
        with self._lock:
            self._counters[what][key] += 1
            self.by_test[self.test or ""][what][key] += 1

    def _note(self, call, kind, text, reproduction, found, expected):
        with self._lock:
            at = len(self.wrong)
            self.wrong.append({"test": self.test, "call": call, "kind": kind, "text": text})
        if self.keep is None:
            return
        kept = {"found": found, "expected": expected, **self.wrong[at]}
        for name, value in (reproduction() if reproduction else {}).items():
            try:
                pickle.dumps(value)
            except Exception as error:  # Whatever a test hands over may refuse to be pickled in its own way.
                value = f"not kept: {error}"
            kept[name] = value
        path = pathlib.Path(self.keep, f"{at}.pickle")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(kept))


class _Depth:
    def __init__(self, inside):
        self.inside = inside

    def __enter__(self):
        self.inside.depth = getattr(self.inside, "depth", 0) + 1

    def __exit__(self, *_):
        self.inside.depth -= 1


def _outcome(call):
    try:
        return call(), None
    except Exception as error:
        return None, error


def is_refusal(error):
    """Whether fangorn refused on purpose: by its own error, or by one that it raised itself and that has a remedy."""
    if isinstance(error, fangorn.Error):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    ours = bool(frames) and frames[-1].filename.startswith(_PACKAGE)
    return ours and isinstance(error, (TypeError, ValueError)) and "; " in str(error)


def without_particulars(error):
    """Return the message without names and numbers, so that the same refusal of two models is one."""
    text = re.sub(r"`[^`]*`", "`…`", str(error).partition("\n")[0])
    return re.sub(r"(?<!\w)\d[\d.e+-]*", "N", text)


def nudged(value, random, exact):
    """Return a prediction whose numbers are moved a little, as far as those of two right libraries may be apart."""
    if isinstance(value, list):
        return [nudged(one, random, exact) for one in value]
    if hasattr(value, "tocsr"):
        value = value.copy()
        value.data = nudged(value.data, random, exact)
        return value
    if exact or value.dtype.kind != "f":
        return value
    most = NUDGE * float(numpy.abs(value[numpy.isfinite(value)], dtype=numpy.float64).max(initial=0.0))
    return (value + random.uniform(-most, most, value.shape)).astype(value.dtype)


def difference_of(found, expected, exact):
    """Return what sets two predictions apart, as its kind and a text, or None."""
    kinds = [_kind(found), _kind(expected)]
    if kinds[0] != kinds[1]:
        return "type", f"{kinds[0]} in place of {kinds[1]}"
    if isinstance(expected, list):
        if len(found) != len(expected):
            return "shape", f"{len(found)} parts in place of {len(expected)}"
        differences = (difference_of(one, other, exact) for one, other in zip(found, expected))
        return next((difference for difference in differences if difference), None)
    if hasattr(expected, "tocsr"):
        if found.dtype != expected.dtype:
            return "type", f"{found.dtype} in place of {expected.dtype}"
        found, expected = found.toarray(), expected.toarray()
    if found.shape != expected.shape:
        return "shape", f"{found.shape} in place of {expected.shape}"
    if found.dtype != expected.dtype:
        return "type", f"{found.dtype} in place of {expected.dtype}"
    return _difference_of_numbers(found, expected, exact)


def _kind(value):
    if isinstance(value, list):
        return "list"
    return f"sparse {value.format}" if hasattr(value, "tocsr") else type(value).__name__


def _difference_of_numbers(found, expected, exact):
    if exact or expected.dtype.kind not in "fc":
        same = (found == expected) | ((found != found) & (expected != expected))
        far = ~same
        allowed = 0
    else:
        finite = numpy.abs(expected[numpy.isfinite(expected)], dtype=numpy.float64)
        allowed = TOLERANCE * float(finite.max(initial=0.0)) or numpy.finfo(numpy.float32).tiny
        same = (found == expected) | (numpy.isnan(found) & numpy.isnan(expected))
        with numpy.errstate(invalid="ignore"):
            far = ~(same | (numpy.abs(found.astype(numpy.float64) - expected) <= allowed))
    if not far.any():
        return None
    at = tuple(int(index) for index in numpy.argwhere(far)[0])
    text = f"{int(far.sum())} of {far.size} differ by more than {allowed:.3g}; first at {at}: {found[at]!r} in place of "
    return "values", text + repr(expected[at])
