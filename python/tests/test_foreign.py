"""`foreign/run.py` on tests of our own in place of a library's: what is right, refused and wrong is told apart."""

import json
import os
import pathlib
import subprocess
import sys

import numpy
import pytest

import fangorn

FOREIGN = pathlib.Path(__file__).resolve().parents[1] / "foreign"

TESTS = '''
import numpy
import pytest
import xgboost

from fangorn.compat import xgboost as ours


def booster():
    x = numpy.random.default_rng(0).normal(size=(64, 3))
    return xgboost.train({}, xgboost.DMatrix(x, x[:, 0]), 4), x


def test_alike():
    model, x = booster()
    assert numpy.array_equal(model.predict(xgboost.DMatrix(x)), model.inplace_predict(x))
    assert model.predict(xgboost.DMatrix(x), pred_leaf=True).shape == (64, 4)


def test_refused():
    model, x = booster()
    model.predict(xgboost.DMatrix(x), pred_contribs=True, approx_contribs=True)


def test_raised():
    model, x = booster()
    with pytest.raises(ValueError):
        model.inplace_predict(x[:, :2])


def test_of_nothing():
    assert False, "the library's own tests fail, too"


@pytest.fixture
def changed(monkeypatch, request):
    name, change = request.param
    method = getattr(ours.Booster, name)
    monkeypatch.setattr(ours.Booster, name, lambda *given, **options: change(method(*given, **options)))


def raising(_):
    raise IndexError("tuple index out of range")


CHANGES = {
    "leaf": ("predict", lambda found: found + (numpy.arange(found.size).reshape(found.shape) == 7)),
    "value": ("inplace_predict", lambda found: found + 3e-5 * numpy.abs(found).max() * (numpy.arange(64) == 63)),
    "type": ("inplace_predict", lambda found: found.astype(float)),
    "shape": ("inplace_predict", lambda found: found[:, None]),
    "raised": ("inplace_predict", raising),
    "near": ("inplace_predict", lambda found: found + numpy.float32(2e-6) * numpy.abs(found).max()),
}


@pytest.mark.parametrize("changed", CHANGES.values(), ids=list(CHANGES), indirect=True)
def test_changed(changed, request):
    model, x = booster()
    if "leaf" in request.node.name:
        model.predict(xgboost.DMatrix(x), pred_leaf=True)
    else:
        model.inplace_predict(x)


def test_asserts_of_the_library_are_asked(monkeypatch):
    model, x = booster()
    expected = ours.Booster(model_file=model).inplace_predict(x)
    # Near enough to be compared as equal, but not what this test says.
    monkeypatch.setattr(ours.Booster, "inplace_predict", lambda *_, **__: numpy.nextafter(expected, numpy.float32(9)))
    found = model.inplace_predict(x)
    monkeypatch.undo()
    assert numpy.array_equal(found, model.inplace_predict(x))


def test_other_asserts_are_asked(monkeypatch):
    model, x = booster()
    expected = ours.Booster(model_file=model).inplace_predict(x)
    expected.flags.writeable = False
    monkeypatch.setattr(ours.Booster, "inplace_predict", lambda *_, **__: expected)
    assert model.inplace_predict(x).flags.writeable


def test_accepted(monkeypatch):
    model, x = booster()
    monkeypatch.setattr(ours.Booster, "inplace_predict", lambda *_, **__: numpy.zeros(64, numpy.float32))
    with pytest.raises(ValueError):
        model.inplace_predict(x[:, :2])
'''


def run(*arguments, tests=None, tmp_path=None):
    if tests is not None:
        path = tmp_path / "tests/python/test_predict.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(tests)
        arguments = ["--suite", "xgboost", "--checkout", tmp_path, *arguments]
    package = str(pathlib.Path(fangorn.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, FOREIGN / "run.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    pytest.importorskip("xgboost")
    folder = tmp_path_factory.mktemp("checkout")
    options = ["--json", "--keep", folder / "kept", "--list", folder / "list.md"]
    found = run(*options, tests=TESTS, tmp_path=folder)
    assert found.returncode == 1, found.stderr
    return json.loads(found.stdout), folder / "kept"


def test_what_is_wrong_is_noticed(reported):
    report, kept = reported
    wrong = {(one["test"].partition("::")[2], one["kind"]) for one in report["wrong"]}
    assert wrong == {
        ("test_changed[leaf]", "values"),
        ("test_changed[value]", "values"),
        ("test_changed[type]", "type"),
        ("test_changed[shape]", "shape"),
        ("test_changed[raised]", "raised"),
        ("test_accepted", "accepted"),
    }
    text = next(one["text"] for one in report["wrong"] if "leaf" in one["test"])
    assert text.startswith("1 of 256 differ by more than 0; first at (1, 3)")
    assert report["predictions"]["wrong"] == 6
    assert len(list(kept.glob("*.pickle"))) == 6


def test_a_kept_prediction_can_be_made_again(reported):
    report, kept = reported
    at = next(at for at, one in enumerate(report["wrong"]) if "value" in one["test"])
    reproduction = numpy.load(kept / f"{at}.pickle", allow_pickle=True)
    model = fangorn.loads(reproduction["model"])
    assert numpy.array_equal(model.predict(reproduction["arguments"]["data"])[:63], reproduction["found"][:63])


def test_what_is_right_and_refused_is_counted(reported):
    report, _ = reported
    assert report["compared"] == {
        "xgboost.Booster.inplace_predict": 5,
        "xgboost.Booster.predict": 1,
        "xgboost.Booster.predict pred_leaf": 1,
    }
    assert list(report["refused"].values()) == [1]
    assert "approx_contribs is not supported; leave it out" in next(iter(report["refused"]))
    assert report["raised_alike"] == {"xgboost.Booster.inplace_predict: ValueError": 1}


def test_tests_that_fail_are_told_apart(reported):
    report, _ = reported
    assert [test.partition("::")[2] for test in report["failed_without_fangorn_too"]] == ["test_of_nothing"]
    alone = {one["test"].partition("::")[2]: one["explained"] for one in report["failed_with_fangorn_alone"]}
    assert alone.keys() == {"test_asserts_of_the_library_are_asked", "test_other_asserts_are_asked"}
    # This one fails if the library's own predictions are moved a little, too.
    assert "more digits than float32 has" in alone["test_asserts_of_the_library_are_asked"]
    assert alone["test_other_asserts_are_asked"] is None
    assert report["tests"]["explained"] == 1
    assert report["tests"]["selected"] == 13 and report["tests"]["predicting"] == 12


def test_the_list_names_each_test(reported):
    _, kept = reported
    lines = (kept.parent / "list.md").read_text(encoding="utf-8").splitlines()
    assert max(map(len, lines)) <= 120
    for line in [
        "| Passed through Fangorn | 3 |",
        "Passed, with predictions that Fangorn refuses by name: 1",
        "- `test_refused`: 1 refused (R1)",
        "Passed through Fangorn: 3",
        "- `test_alike`: 3 compared",
        "- `test_raised`: 1 raised alike",
        "- `test_changed` of `[near]`: 1 compared",
        "Fails without Fangorn, too: 1",
        "- `test_of_nothing`: AssertionError: the library's own tests fail, too",
        "Wrong, or fails with Fangorn alone: 7",
    ]:
        assert line in lines
    refused = "- R1, 1 prediction: xgboost.Booster.predict pred_contribs: approx_contribs "
    assert any(line.startswith(refused) for line in lines)
    assert any(line.startswith("- `test_accepted`: 1 different; ValueError: ") for line in lines)
    assert any(line.startswith("- `test_changed` ×5: 5 different; ") for line in lines)


def test_a_file_that_takes_too_long_is_cut_off_alone(tmp_path):
    pytest.importorskip("xgboost")
    (tmp_path / "tests/python").mkdir(parents=True)
    slow = "import time\n\n\ndef test_quick(): pass\n\n\ndef test_slow(): time.sleep(600)\n"
    (tmp_path / "tests/python/test_basic.py").write_text(slow)
    options = ["--file-seconds", "20", "--list", tmp_path / "list.md", "--tests", "quick or slow or alike"]
    found = run("--json", *options, tests=TESTS, tmp_path=tmp_path)
    assert found.returncode == 0, found.stderr
    report = json.loads(found.stdout)
    assert report["cut"] == ["test_basic.py: pytest was ended after 20.0 seconds"]
    assert report["tests"]["selected"] == 2 + 1 and report["compared"]["xgboost.Booster.predict"] == 1
    text = (tmp_path / "list.md").read_text(encoding="utf-8")
    assert "\n- `test_alike`: 3 compared\n" in text
    assert "\nNot run: 2\n\n- `test_quick`, `test_slow`\n" in text or "\nNot run: 1\n\n- `test_slow`\n" in text


def test_nothing_wrong_ends_well(tmp_path):
    pytest.importorskip("xgboost")
    found = run("--tests", "alike or refused", tests=TESTS, tmp_path=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "compared 3, refused 1, raised alike 0, left to the library 0, explained 0, wrong 0" in found.stdout


def test_what_cannot_be_run_is_said(tmp_path):
    for arguments, message in [
        (["--suite", "xgboost"], "--checkout is missing; hand over a folder"),
        (["--suite", "xgboost", "--checkout", tmp_path], "none of the suite's tests is there"),
        (["--suite", "no such"], "invalid choice"),
    ]:
        found = run(*arguments)
        assert found.returncode == 2 and message in found.stderr
    assert "Example:" in run("--help").stdout
