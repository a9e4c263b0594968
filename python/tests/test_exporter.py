"""`scripts/export_sklearn.py` as a command: a whole file or none, and one line where it can't write one."""

import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/export_sklearn.py"


def run(*arguments, before=None, options=()):
    """The status and the lines of standard error."""
    command = [sys.executable, *options, SCRIPT, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=before)
    return done.returncode, done.stderr.splitlines()


@pytest.fixture
def model(tmp_path):
    """A file of joblib with a small forest."""
    joblib, ensemble = pytest.importorskip("joblib"), pytest.importorskip("sklearn.ensemble")
    fitted = ensemble.RandomForestRegressor(5, random_state=1).fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 4.0, 9.0])
    file = tmp_path / "model.joblib"
    joblib.dump(fitted, file)
    return file


def test_a_file_replaces_an_earlier_one_and_nothing_else_is_left(model):
    output = model.with_name("model.npz")
    output.write_text("old")
    output.chmod(0o640)
    assert run(model, output) == (0, [])
    assert output.read_bytes().startswith(b"PK") and output.stat().st_mode & 0o777 == 0o640
    assert run(model, model.with_name("other")) == (0, [])
    assert sorted(path.name for path in model.parent.iterdir()) == ["model.joblib", "model.npz", "other.npz"]


def test_a_full_disk_leaves_the_earlier_file(model):
    resource = pytest.importorskip("resource")
    output = model.with_name("model.npz")
    output.write_text("old")
    # Python ignores the signal for a file over the limit.
    status, lines = run(model, output, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)))
    assert status == 1 and len(lines) == 1 and "can't be written" in lines[0] and "make room" in lines[0], lines
    assert output.read_text() == "old"
    assert sorted(path.name for path in model.parent.iterdir()) == ["model.joblib", "model.npz"]


def test_a_package_that_is_not_there_is_named_and_help_needs_none():
    # Without `site`, Python finds no installed packages.
    status, lines = run("model.joblib", "model.npz", options=["-I", "-S"])
    assert status == 1 and len(lines) == 1 and "the package joblib is not installed" in lines[0], lines
    assert run("--help", options=["-I", "-S"]) == (0, [])


def test_a_refusal_is_one_line(model):
    folder = model.parent
    (folder / "junk.joblib").write_text("junk")
    (folder / "empty.joblib").write_text("")
    (folder / "folder.npz").mkdir()
    pytest.importorskip("joblib").dump({"no": "estimator"}, folder / "dict.joblib")
    for arguments, part in [
        ((folder / "absent.joblib", folder / "out.npz"), "absent.joblib: can't be loaded: No such file"),
        ((folder / "junk.joblib", folder / "out.npz"), "junk.joblib: can't be loaded"),
        ((folder / "empty.joblib", folder / "out.npz"), "empty.joblib: can't be loaded"),
        ((folder / "dict.joblib", folder / "out.npz"), "dict.joblib: can't be exported"),
        ((model, folder / "nowhere/out.npz"), "can't be written: No such file"),
        ((model, folder / "folder.npz"), "can't be written"),
    ]:
        status, lines = run(*arguments)
        assert status == 1 and len(lines) == 1 and part in lines[0], lines
    assert not (folder / "out.npz").exists() and not list(folder.glob(".*"))
