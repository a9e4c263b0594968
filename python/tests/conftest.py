"""Where the zoo is, and what its models predict."""

import json
import pathlib

import numpy
import pytest

import fangorn

ZOO = pathlib.Path(__file__).resolve().parents[2] / "tests/zoo"


def zoo():
    """The folders of the zoo's models, in the order of their names."""
    return sorted(path.parent for path in ZOO.glob("*/meta.json"))


def model_file(folder):
    """The model's file in a folder of the zoo."""
    return folder / json.loads((folder / "meta.json").read_text())["model"]


@pytest.fixture(autouse=True)
def _names_of_doctests(doctest_namespace):
    doctest_namespace["zoo"] = ZOO


@pytest.fixture
def churn():
    """The README's example, whose columns have names."""
    return fangorn.load(model_file(ZOO / "churn")), numpy.load(ZOO / "churn/rows.npy")


@pytest.fixture
def softprob():
    """Five classes of rows with eight columns."""
    return fangorn.load(model_file(ZOO / "softprob")), numpy.load(ZOO / "softprob/rows.npy")


def close(found, expected, tolerance=1e-5):
    """Whether numbers are as near to those expected as the sums' contract says."""
    found, expected = numpy.asarray(found, numpy.float64), numpy.asarray(expected, numpy.float64)
    assert found.shape == expected.shape, (found.shape, expected.shape)
    same = (found == expected) | (numpy.isnan(found) & numpy.isnan(expected))
    with numpy.errstate(invalid="ignore"):
        near = numpy.abs(found - expected) <= tolerance * numpy.maximum(1, numpy.abs(expected))
    assert (same | near).all(), (found[~(same | near)][:5], expected[~(same | near)][:5])
