"""Functions that the modules of `fangorn.compat` share."""

import numpy

from .._fangorn import Error


class NotHere(Error, AttributeError):
    """A part of a library that `fangorn.compat` does not have, because it only predicts."""


def refuse(library, name, remedy=None):
    """Raise the error that names a missing part of a library, and says what to do."""
    remedy = remedy or f"use the package {library} for it, because fangorn.compat only predicts"
    raise NotHere(f"{library}.{name} is not in fangorn.compat; {remedy}")


def refuses(library, owner, name):
    """Make a method that raises the error of `refuse`."""
    remedy = None
    if name in ("fit", "train", "update", "boost", "partial_fit", "refit", "cv"):
        remedy = f"train with the package {library} and hand over the model, because fangorn only predicts"

    def method(*_, **__):
        refuse(library, f"{owner}.{name}" if owner else name, remedy)

    method.__name__ = name
    method.__doc__ = f"Not supported: {remedy or 'fangorn.compat only predicts'}."
    return method


def module_getattr(library, names):
    """Make a module's `__getattr__`. It refuses every name that the module does not have; `names` are functions."""

    def __getattr__(name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in names:
            return refuses(library, "", name)
        refuse(library, name)

    return __getattr__


# The maximum number of ranges of rounds whose compiled models a Booster keeps.
_MOST_MODELS = 8


def kept(models, rounds, make):
    """Return the model of a range of rounds from `models`, or compile it with `make` and keep it there."""
    model = models.get(rounds)
    if model is None:
        model = make()
        # A caller that goes through one range after the other needs none of the earlier ones again.
        if len(models) >= _MOST_MODELS:
            models.clear()
        models[rounds] = model
    return model


def by_position(model, rows):
    """Rename a table's columns to the model's, so that they are taken in their order, as the library takes them."""
    names = model.feature_names or [f"f{at}" for at in range(model.n_features)]
    columns = getattr(rows, "columns", None)
    if columns is None and hasattr(rows, "column_names"):
        columns = rows.column_names
    if columns is None or len(columns) != len(names):
        return rows
    if [str(column) for column in columns] == names:
        return rows
    if hasattr(rows, "set_axis"):
        return rows.set_axis(names, axis=1)
    if hasattr(rows, "rename_columns"):
        return rows.rename_columns(names)
    if hasattr(rows, "rename"):
        return rows.rename(dict(zip(columns, names)))
    return rows


def names_of(rows):
    """Return the names of a table's columns, or None if the rows are no table."""
    if hasattr(rows, "column_names") and not hasattr(rows, "iloc"):
        return [str(name) for name in rows.column_names]
    if hasattr(rows, "columns") and (hasattr(rows, "iloc") or hasattr(rows, "__arrow_c_stream__")):
        return [" ".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in rows.columns]
    return None


def with_missing(rows, missing):
    """Replace the value `missing`, which stands for a missing value, by NaN."""
    if missing is None or missing != missing:
        return rows
    if hasattr(rows, "tocsr"):
        rows = rows.tocsr().astype(numpy.float64)
        rows.data = numpy.where(rows.data == missing, numpy.nan, rows.data)
        return rows
    if hasattr(rows, "iloc"):
        numbers = rows.select_dtypes("number")
        rows = rows.copy(deep=False)
        for name in numbers.columns:
            rows[name] = numbers[name].where(numbers[name] != missing)
        return rows
    if hasattr(rows, "__arrow_c_stream__") and not isinstance(rows, numpy.ndarray):
        raise TypeError("missing: a table of Arrow takes no such option; replace the value by nulls in the table")
    rows = numpy.asarray(rows)
    if rows.dtype.kind != "f":
        rows = rows.astype(numpy.float64)
    return numpy.where(rows.astype(numpy.float32) == numpy.float32(missing), rows.dtype.type(numpy.nan), rows)
