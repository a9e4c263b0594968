"""What the modules of `fangorn.compat` share."""

import numpy

from .._fangorn import Error


class NotHere(Error, AttributeError):
    """Something of a library that `fangorn.compat` does not have: it predicts, and does nothing else."""


def refuse(library, name, remedy=None):
    """Raise the error that says what to do in place of what is not here."""
    remedy = remedy or f"use the package {library} for it: fangorn.compat predicts, and does nothing else"
    raise NotHere(f"{library}.{name} is not here; {remedy}")


def refuses(library, owner, name):
    """Make a method that refuses."""
    remedy = None
    if name in ("fit", "train", "update", "boost", "partial_fit", "refit", "cv"):
        remedy = f"train with the package {library} and pass the model: fangorn predicts, and does not train"

    def method(*_, **__):
        refuse(library, f"{owner}.{name}" if owner else name, remedy)

    method.__name__ = name
    method.__doc__ = f"Refused: {remedy or 'fangorn.compat predicts, and does nothing else'}."
    return method


def module_getattr(library, names):
    """Make a module's `__getattr__`, which refuses what the library has and the module has not."""

    def __getattr__(name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in names:
            return refuses(library, "", name)
        refuse(library, name)

    return __getattr__


# Ranges of rounds whose compiled models a Booster keeps.
_MOST_MODELS = 8


def kept(models, rounds, make):
    """Return the model of a range of rounds. `make` compiles it, and it is kept beside a few others."""
    model = models.get(rounds)
    if model is None:
        model = make()
        # A caller that goes through one range after the other needs none of the earlier ones again.
        if len(models) >= _MOST_MODELS:
            models.clear()
        models[rounds] = model
    return model


def by_position(model, rows):
    """Give a table's columns the model's names, so that they are taken in their order, as the library takes them."""
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
    """The names of a table's columns, or None."""
    if hasattr(rows, "column_names") and not hasattr(rows, "iloc"):
        return [str(name) for name in rows.column_names]
    if hasattr(rows, "columns") and (hasattr(rows, "iloc") or hasattr(rows, "__arrow_c_stream__")):
        return [" ".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in rows.columns]
    return None


def with_missing(rows, missing):
    """Put NaN in place of a value that stands for a missing one."""
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
        raise TypeError("missing: put nulls in place of the value into a table of Arrow, and leave the option out")
    rows = numpy.asarray(rows)
    if rows.dtype.kind != "f":
        rows = rows.astype(numpy.float64)
    return numpy.where(rows.astype(numpy.float32) == numpy.float32(missing), rows.dtype.type(numpy.nan), rows)
