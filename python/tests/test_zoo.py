"""Every model of the zoo predicts what its own library predicts: leaves exactly, sums within the contract."""

import json

import numpy
import pytest

import fangorn
from conftest import ZOO, close, model_file, zoo


def expected_of(folder, name):
    path = folder / f"{name}.npy"
    return numpy.load(path) if path.exists() else None


def variants(rows):
    """The same rows in other arrays."""
    wide = numpy.full((rows.shape[0] * 2, rows.shape[1] * 3), 7, rows.dtype)
    wide[::2, ::3] = rows
    turned = numpy.ascontiguousarray(rows[::-1, ::-1])
    yield "contiguous", rows
    yield "Fortran", numpy.asfortranarray(rows)
    yield "strided", wide[::2, ::3]
    yield "reversed", turned[::-1, ::-1]
    yield "doubles", rows.astype(numpy.float64)
    packed = numpy.zeros(rows.shape[0], [("x", rows.dtype, rows.shape[1]), ("odd", "u1")])
    packed["x"] = rows
    yield "not aligned", packed["x"]
    yield "another byte order", rows.astype(rows.dtype.newbyteorder("S"))


@pytest.mark.parametrize("folder", zoo(), ids=lambda folder: folder.name)
def test_model(folder):
    meta = json.loads((folder / "meta.json").read_text())
    model = fangorn.load(model_file(folder))
    assert model.n_trees == meta["trees"] and model.n_outputs == meta["outputs"]
    rows, margin, output = (expected_of(folder, name) for name in ("rows", "margin", "output"))
    leaves = expected_of(folder, "leaves")
    # The largest finite values become infinite as floats, and the sums of the zoo are those of float rows.
    plain = {}
    for name, given in variants(rows):
        found = model.margin(given), model.predict(given), model.leaf(given)
        assert found[0].dtype == found[1].dtype == numpy.float32 and found[2].dtype == numpy.int32
        if leaves is not None:
            assert numpy.array_equal(found[2], leaves.reshape(found[2].shape)), name
        for kind, values in zip(("margin", "value", "leaf"), found):
            expected = plain.setdefault(kind, values)
            if name in ("doubles", "contiguous"):
                close(values, expected, 1e-6)
            else:
                assert numpy.array_equal(values, expected, equal_nan=True), (name, kind)
    # Of some models the library gives values only.
    values_only = "isolation" in folder.name or folder.name == "treelite-exponential-standard-ratio"
    close(plain["value" if values_only else "margin"].reshape(margin.shape), margin)
    check_output(model, rows, plain["value"], output, meta)


def check_output(model, rows, values, output, meta):
    if output is None:
        return
    if numpy.issubdtype(output.dtype, numpy.integer):
        classes = model.predict_class(rows)
        assert classes.reshape(-1).astype(str).tolist() == output.reshape(-1).astype(str).tolist()
    else:
        close(values.reshape(output.shape), output)


@pytest.mark.parametrize("name", ["churn", "softprob", "lightgbm-binary", "sklearn-histogram-multiclass"])
@pytest.mark.parametrize("count", [0, 1, 2, 15, 17, 63, 64, 65])
def test_batches_are_cut_from_one_another(name, count):
    folder = ZOO / name
    model, rows = fangorn.load(model_file(folder), sum="exact"), numpy.load(folder / "rows.npy")
    rows = numpy.resize(rows, (65, rows.shape[1]))
    for predict in (model.predict, model.margin, model.leaf):
        assert numpy.array_equal(predict(rows[:count]), predict(rows)[:count])


@pytest.mark.parametrize("folder", [f for f in zoo() if (f / "margin-from.npy").exists()], ids=lambda f: f.name)
def test_sums_start_at_margins(folder):
    model, rows = fangorn.load(model_file(folder)), numpy.load(folder / "rows.npy")
    margins = numpy.load(folder / "base_margin.npy")
    expected = numpy.load(folder / "margin-from.npy")
    close(model.margin(rows, base_margin=margins).reshape(expected.shape), expected)
    output = expected_of(folder, "output-from")
    if output is not None:
        close(model.predict(rows, base_margin=margins).reshape(output.shape), output)
    with pytest.raises(fangorn.Error, match="base_margin has"):
        model.margin(rows, base_margin=margins[:-1])


@pytest.mark.parametrize("folder", [f for f in zoo() if (f / "leaves64.npy").exists()], ids=lambda f: f.name)
def test_doubles_stay_doubles(folder):
    rows, expected = (expected_of(folder, part) for part in ("rows64", "leaves64"))
    found = fangorn.load(model_file(folder)).leaf(rows)
    assert numpy.array_equal(found, expected.reshape(found.shape))


def test_best_round():
    folder = ZOO / "early-stopped"
    rows = numpy.load(folder / "rows.npy")
    best = fangorn.load(model_file(folder), iteration_range="best")
    close(best.margin(rows), numpy.load(folder / "margin-best.npy").reshape(-1))
    assert fangorn.load(model_file(folder)).best_iteration + 1 == best.n_trees
