#!/usr/bin/env python3
"""Tests the module fangorn_datafusion with the package datafusion.

Example: PYTHONPATH=folder-of-the-module sql/python/test.py
"""

import pathlib
import sys

import numpy
import pyarrow
from datafusion import SessionContext

import fangorn_datafusion

ZOO = pathlib.Path(__file__).resolve().parents[2] / "tests/zoo"


def table(model):
    rows = numpy.load(ZOO / model / "rows.npy")
    columns = {f"f{at}": rows[:, at].astype(numpy.float32) for at in reversed(range(rows.shape[1]))}
    columns["id"] = numpy.arange(len(rows))
    return pyarrow.table(columns), rows.shape[1]


def refused(context, query, part):
    try:
        context.sql(query).collect()
    except Exception as error:
        assert part in str(error), error
    else:
        raise AssertionError(f"{query} runs")


def main():
    context = SessionContext()
    fangorn_datafusion.register(context, {"m": str(ZOO / "softprob/model.ubj")})
    rows, width = table("softprob")
    context.from_arrow(rows, name="people")
    struct = ", ".join(f"'f{at}', f{at}" for at in reversed(range(width)))
    columns = ", ".join(f"f{at}" for at in range(width))
    expected = numpy.load(ZOO / "softprob/output.npy")
    for call in (
        f"forest_predict('m', named_struct({struct}))",
        f"forest_predict_by_position('m', {columns})",
        f"forest_predict('{ZOO / 'softprob/model.ubj'}', named_struct({struct}))",
    ):
        found = context.sql(f"SELECT {call} AS p FROM people ORDER BY id").to_pydict()["p"]
        assert numpy.abs(numpy.array(found) - expected).max() < 1e-6, call
    found = context.sql(f"SELECT forest_class('m', named_struct({struct})) AS c FROM people ORDER BY id").to_pydict()["c"]
    assert (numpy.array(found) == expected.argmax(axis=1)).all()

    # A subquery swaps two columns' names. The optimizer may join both projections, and the struct's names stay.
    swapped = struct.replace("'f0', f0", "'f0', b").replace("'f1', f1", "'f1', a")
    others = ", ".join(f"f{at}" for at in range(2, width))
    found = context.sql(
        f"SELECT forest_margin('m', named_struct({swapped})) AS p FROM (SELECT id, f0 AS b, f1 AS a, {others} FROM people)"
        " ORDER BY id"
    ).to_pydict()["p"]
    straight = context.sql(f"SELECT forest_margin('m', named_struct({struct})) AS p FROM people ORDER BY id").to_pydict()["p"]
    assert found == straight

    assert context.sql(f"SELECT forest_predict('m', named_struct({struct})) AS p FROM people WHERE id < 0").count() == 0
    refused(context, f"SELECT forest_predict('m', {columns}) FROM people", "named_struct")
    refused(context, "SELECT forest_predict('m', named_struct('f0', f0)) FROM people", "trained on 8")
    refused(context, f"SELECT forest_predict('nobody', named_struct({struct})) FROM people", "neither the name of a model")
    closed = SessionContext()
    fangorn_datafusion.register(closed, only_named=True)
    closed.from_arrow(rows, name="people")
    path = ZOO / "softprob/model.ubj"
    refused(closed, f"SELECT forest_predict('{path}', named_struct({struct})) FROM people", "neither the name of a model")
    try:
        fangorn_datafusion.register(context, {"m": "no/such/file"})
    except ValueError as error:
        assert "no/such/file" in str(error)
    else:
        raise AssertionError("a model that is not there is loaded")
    print("fangorn_datafusion: all tests pass")


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
    else:
        main()
