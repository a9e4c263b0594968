"""Turns rows of Python's libraries into sources that the extension reads, most of them without a copy.

A source is a tuple:

| source | what it holds |
|---|---|
| `("matrix", array)` | an array of two dimensions, of a type and an alignment that is read without a copy |
| `("bfloats", array)` | the same, uint16: the bits of numbers of the type bfloat16 |
| `("columns", arrays)` | an array of one dimension for each of the model's columns, in the model's order |
| `("sparse", shape, offsets, columns, values, absent)` | compressed sparse rows: int64, int64, float64 |
| `("stream", table)` | anything with `__arrow_c_stream__` |
"""

import numpy

from ._fangorn import Error

# Types that the extension reads without a copy.
_READ = frozenset(
    numpy.dtype(name) for name in "float32 float64 float16 int32 int16 int8 uint32 uint16 uint8".split()
)

# Types of categories that the extension tells apart.
_CATEGORIES = (str, bool, int, float, numpy.number, numpy.bool_)

# About how many values are converted at a time, so that wide rows take little more memory than narrow ones.
_VALUES = 1 << 20
# The least number of rows of a frame that are converted at a time: each column of each piece has a cost of its own.
_LEAST_ROWS = 1 << 13

_WHAT_IS_TAKEN = (
    "pass an array of numpy, a DataFrame of pandas or polars, a Table of pyarrow, a sparse matrix of scipy or a "
    "tensor of torch"
)


def sources(model, rows):
    """Return the sources of some rows."""
    if isinstance(rows, numpy.ndarray):
        return _of_array(rows)
    package = type(rows).__module__.partition(".")[0]
    if package == "pandas":
        return _of_pandas(model, rows)
    if hasattr(rows, "tocsr"):
        return _of_sparse(model, rows)
    if package == "torch":
        return _of_torch(rows)
    if package == "polars" and hasattr(rows, "collect"):
        raise TypeError("rows are a LazyFrame, which is not computed yet; hand over rows.collect()")
    if hasattr(rows, "__arrow_c_stream__"):
        return [("stream", rows)]
    if hasattr(rows, "__dlpack__"):
        return _of_dlpack(rows)
    if hasattr(rows, "__array__") or hasattr(rows, "__array_interface__"):
        return _of_array(numpy.asarray(rows))
    if isinstance(rows, (list, tuple)):
        return _of_list(rows)
    if isinstance(rows, (str, bytes)) or hasattr(rows, "__fspath__"):
        raise TypeError(
            "rows are a path or a text; read the file first, for example with pandas.read_csv or polars.read_parquet, "
            "or predict it with the command `fangorn predict MODEL --rows FILE`"
        )
    raise TypeError(f"rows of type {_name(rows)} are not read; {_WHAT_IS_TAKEN}")


def _name(rows):
    return f"{type(rows).__module__}.{type(rows).__qualname__}"


def _of_list(rows):
    try:
        array = numpy.asarray(rows)
    except ValueError as error:
        raise TypeError(f"rows are a list that is no matrix: {error}; give all rows the same length") from None
    if array.dtype.kind in "USO":
        raise TypeError("rows are a list that does not hold only numbers; hand over a DataFrame")
    return _of_array(array)


def _of_array(array):
    if isinstance(array, numpy.ma.MaskedArray):
        raise TypeError("rows are a masked array; hand over rows.astype(float).filled(numpy.nan)")
    # The values of other subclasses mean the same: numpy.matrix, or a file that is mapped into memory.
    array = array.view(numpy.ndarray)
    if array.dtype.names:
        raise TypeError("rows are a structured array; pass pandas.DataFrame(rows), whose columns have names")
    if array.ndim != 2:
        one = "; hand over rows.reshape(1, -1) if it is one row, rows.reshape(-1, 1) if it is one column"
        raise Error(f"rows: an array has {array.ndim} dimensions, but 2 are needed{one if array.ndim == 1 else ''}")
    kind, dtype = array.dtype.kind, array.dtype
    if kind == "b":
        array, dtype = array.view(numpy.uint8), numpy.dtype(numpy.uint8)
    elif dtype.name == "bfloat16" and array.flags.aligned:
        return [("bfloats", array.view(numpy.uint16))]
    elif kind not in "iuf":
        if dtype.name not in ("bfloat16", "object"):
            raise TypeError(f"rows are an array of {dtype}, which are no real numbers; cast it to a float type")
    if dtype in _READ and array.flags.aligned and _strides_whole(array):
        return [("matrix", array)]
    return _converted(array)


def _strides_whole(array):
    return all(stride % array.itemsize == 0 for stride in array.strides)


def _converted(array):
    """Yield the rows as doubles, some at a time."""
    step = _rows_at_a_time(array.shape[1])
    for first in range(0, max(len(array), 1), step):
        yield "matrix", _doubles(array[first : first + step], "rows")


def _rows_at_a_time(columns):
    return max(_VALUES // max(columns, 1), 1)


def _doubles(values, what):
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
        found = values.astype(numpy.float64)
        with numpy.errstate(invalid="ignore"):
            same = found.astype(values.dtype) == values
        if not same.all():
            value = values[~same].flat[0]
            raise Error(
                f"{what}: {value} has more digits than a float64 holds; round it as the training data was rounded"
            )
        return found
    if values.dtype.kind == "O":
        try:
            return values.astype(numpy.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{what}: an object in the array is no number ({error}); hand over a DataFrame") from None
    if values.dtype.newbyteorder("=") in _READ:
        return numpy.array(values, dtype=values.dtype.newbyteorder("="), order="C")
    return values.astype(numpy.float64)


def _of_sparse(model, rows):
    absent = getattr(model, "_absent", 0.0)
    if rows.ndim != 2:
        raise Error(f"rows: a sparse array has {rows.ndim} dimensions, but 2 are needed")
    rows = rows.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    values = _doubles(rows.data, "rows") if rows.data.dtype.kind in "iuf" else rows.data
    return [
        (
            "sparse",
            rows.shape,
            rows.indptr.astype(numpy.int64),
            rows.indices.astype(numpy.int64),
            values.astype(numpy.float64),
            absent,
        )
    ]


def _of_torch(tensor):
    import torch

    if tensor.device.type != "cpu":
        raise TypeError(f"rows are a tensor on {tensor.device}; this package predicts on the CPU: pass rows.cpu()")
    if tensor.layout != torch.strided:
        raise TypeError("rows are a sparse tensor; pass rows.to_dense(), or a sparse matrix of scipy")
    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        if tensor.ndim != 2:
            return _of_array(tensor.float().numpy())
        return [("bfloats", tensor.view(torch.int16).numpy().view(numpy.uint16))]
    return _of_array(tensor.numpy())


def _of_dlpack(rows):
    device = rows.__dlpack_device__()[0]
    if int(device) != 1:
        raise TypeError(
            f"rows of type {_name(rows)} are not in the memory of the CPU; copy them there first, for example with "
            ".get(), .cpu() or jax.device_get"
        )
    return _of_array(numpy.from_dlpack(rows))


def _of_pandas(model, frame):
    if not hasattr(frame, "columns"):
        raise TypeError(
            f"rows of type {_name(frame)} are no table; hand over rows.to_frame() if it is a column, rows.to_frame().T "
            "if it is a row"
        )
    names = [".".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in frame.columns]
    columns = [_column(model, at, index, names[index], frame) for at, index in enumerate(model._column_indices(names))]
    if all(read is None for _, read, _ in columns):
        return [("columns", [_plain(frame.iloc[:, index]) for index, _, _ in columns])]
    return _frame_sources(frame, columns)


def _frame_sources(frame, columns):
    plain = {index: _plain(frame.iloc[:, index]) for index, read, _ in columns if read is None}
    step = max(_rows_at_a_time(len(columns) - len(plain)), _LEAST_ROWS)
    for first in range(0, max(len(frame), 1), step):
        end = first + step
        yield (
            "columns",
            [
                plain[index][first:end] if read is None else read(frame.iloc[first:end, index], name)
                for index, read, name in columns
            ],
        )


def _plain(series):
    values = series.to_numpy()
    return values.view(numpy.uint8) if values.dtype == bool else values


def _column(model, at, index, name, frame):
    """Return a column's index, a function that turns it into numbers (None if it holds numbers), and its name."""
    dtype = frame.dtypes.iloc[index]
    coded = model._has_codes(at)
    if isinstance(dtype, numpy.dtype) and not coded and (dtype in _READ or dtype == bool):
        values = frame.iloc[:, index].to_numpy()
        if values.flags.aligned and _strides_whole(values) and all(stride >= 0 for stride in values.strides):
            return index, None, name
    if coded:
        return index, _by_codes(model, at), name
    if str(dtype) == "category":
        # If the model names no categories, a category becomes the number that the model's library reads.
        by_index = model.library in ("xgboost", "lightgbm", "treelite")
        return index, _codes if by_index else _category_values, name
    return index, _numbers, name


def _by_codes(model, at):
    def read(series, _):
        import pandas

        if str(series.dtype) != "category":
            series = pandas.Series(pandas.Categorical(series))
        categories, codes = series.cat.categories, series.cat.codes.to_numpy()
        # The model may not know categories that no row has, so they are left out.
        used = [None] * len(categories)
        for code in numpy.unique(codes[codes >= 0]):
            category = categories[code]
            used[code] = category if isinstance(category, _CATEGORIES) else str(category)
        numbers = numpy.array([*model._category_numbers(at, used), numpy.nan], numpy.float32)
        return numbers[codes]

    return read


def _codes(series, _):
    codes = series.cat.codes.to_numpy()
    return numpy.where(codes < 0, numpy.float32(numpy.nan), codes.astype(numpy.float32))


def _category_values(series, name):
    return _numbers(series.astype(series.cat.categories.dtype), name)


def _numbers(series, name):
    what = f"column `{name}`"
    dtype = series.dtype
    if isinstance(dtype, numpy.dtype) and dtype.kind in "iufb":
        return numpy.ascontiguousarray(_doubles(series.to_numpy(), what))
    kind = getattr(dtype, "kind", "O")
    if kind in "iub" and not isinstance(dtype, numpy.dtype):
        there = series.dropna()
        if kind != "b":
            _doubles(there.to_numpy(dtype=numpy.uint64 if kind == "u" else numpy.int64), what)
        return series.to_numpy(dtype=numpy.float64, na_value=numpy.nan)
    if kind == "f" or kind == "O" and str(dtype) == "object" or str(dtype).startswith("Sparse"):
        try:
            return series.to_numpy(dtype=numpy.float64, na_value=numpy.nan)
        except (TypeError, ValueError):
            pass
    remedy = "cast the column to the numbers that the model was trained on"
    if kind == "O":
        raise Error(f"{what}: it holds texts, and the model's file names no categories for them; {remedy}")
    raise Error(f"{what}: it holds values of type {dtype}, which are no numbers; {remedy}")
