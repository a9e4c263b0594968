"""A plugin of pytest that lets the tests of a suite predict by fangorn, too. `run.py` starts it."""

import json
import pathlib
import time

import explain
import pytest
import redirect
from record import Record

_REDIRECTS = {
    "xgboost": redirect.redirect_xgboost,
    "lightgbm": redirect.redirect_lightgbm,
    "treelite": redirect.redirect_treelite,
    "sklearn": redirect.redirect_sklearn,
    "shapiq": explain.redirect_shapiq,
}

# How often the record is written while tests run.
_SECONDS = 2


class _Plugin:
    def __init__(self, config):
        self.path = pathlib.Path(config.getoption("foreign_record"))
        self.record = Record(config.getoption("foreign_keep"), config.getoption("foreign_nudge"))
        self.selected = []
        self.outcomes = {}
        self.messages = {}
        self.said = {}
        self.collection_errors = {}
        self.written = time.monotonic()
        for name in config.getoption("foreign_redirect").split(","):
            if name == "shap":
                explain.redirect_shap(self.record)
            elif name:
                _REDIRECTS[name](self.record)

    def pytest_collection_modifyitems(self, config, items):
        left_out, only = config.getoption("foreign_leave_out"), config.getoption("foreign_only")
        names = set(json.loads(pathlib.Path(only).read_text(encoding="utf-8"))) if only else None

        def stays(item):
            return not any(name in item.nodeid for name in left_out) and (names is None or item.nodeid in names)

        config.hook.pytest_deselected(items=[item for item in items if not stays(item)])
        items[:] = [item for item in items if stays(item)]

        most = config.getoption("foreign_examples")
        for item in items:
            _limit_examples(item, most)

    def pytest_collection_finish(self, session):
        # A run that is cut off during its first test says which tests it had.
        self.selected = [item.nodeid for item in session.items]
        self.write()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        self.record.test = item.nodeid

    def pytest_collectreport(self, report):
        if report.failed:
            self.collection_errors[report.nodeid] = str(report.longrepr)[-2000:]

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.outcomes[report.nodeid] = "failed"
            self.messages[report.nodeid] = str(report.longrepr)[-3000:]
            crash = getattr(report.longrepr, "reprcrash", None)
            self.said[report.nodeid] = crash.message if crash else str(report.longrepr)[-300:]
        elif report.skipped:
            self.outcomes.setdefault(report.nodeid, "skipped")
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", "")
            self.said.setdefault(report.nodeid, reason)
        elif report.when == "call":
            self.outcomes.setdefault(report.nodeid, "passed")

    def pytest_runtest_logfinish(self):
        # A run that is cut off leaves what it has found.
        if time.monotonic() - self.written > _SECONDS:
            self.write()

    def pytest_sessionfinish(self):
        self.write()

    def write(self):
        found = {
            "selected": self.selected,
            "outcomes": self.outcomes,
            "messages": self.messages,
            "said": self.said,
            "collection_errors": self.collection_errors,
            **self.record.to_json(),
        }
        beside = self.path.with_suffix(".part")
        beside.write_text(json.dumps(found), encoding="utf-8")
        beside.replace(self.path)
        self.written = time.monotonic()


def _limit_examples(item, most):
    """Limit the examples of a test of hypothesis, whatever the test itself says; 0 is any number."""
    function = getattr(item, "obj", None)
    function = getattr(function, "__func__", function)
    name = "_hypothesis_internal_use_settings"
    if hasattr(function, name):
        from hypothesis import settings

        own = getattr(function, name)
        # A failure is as good as the shortest one, which takes long to find.
        phases = [phase for phase in own.phases if phase.name in ("explicit", "generate")]
        setattr(function, name, settings(own, max_examples=min(most or own.max_examples, own.max_examples), phases=phases))


def pytest_addoption(parser):
    """Add the options that `run.py` hands over."""
    parser.addoption("--foreign-record", help="the file to write the record into")
    parser.addoption("--foreign-redirect", default="", help="the libraries to redirect, with commas")
    parser.addoption("--foreign-keep", default=None, help="the folder for the reproductions of wrong predictions")
    parser.addoption("--foreign-nudge", action="store_true", help="move the library's predictions, without fangorn's")
    parser.addoption("--foreign-leave-out", action="append", default=[], help="a part of the names of tests to leave out")
    parser.addoption("--foreign-only", default=None, help="a file with the names of the only tests to run, as JSON")
    parser.addoption("--foreign-examples", type=int, default=0, help="the most examples of a test of hypothesis; 0 is any")


def pytest_configure(config):
    """Redirect the libraries before the tests import them."""
    try:
        from hypothesis import settings
    except ImportError:
        pass
    else:
        # The same examples in each run, as long as they take.
        settings.register_profile("foreign", derandomize=True, deadline=None, database=None)
        settings.load_profile("foreign")
    config.pluginmanager.register(_Plugin(config), "foreign")
