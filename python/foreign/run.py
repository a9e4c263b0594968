#!/usr/bin/env python3
"""Run a library's own tests of predictions through fangorn.

The tests come from a checkout of the library's source, of the tag that is installed. The library trains; whatever it
predicts afterwards fangorn predicts, too, from the model as the library saves it. The two are compared: leaves exactly,
numbers within 1e-5 of the largest one of the prediction, shapes and types exactly. The test goes on with fangorn's
prediction, so its own assertions are asked as well; where fangorn refuses by name it goes on with the library's.

A test that fails is run again without fangorn. Needs the packages fangorn and pytest, and what the tests need.
The status is 1 if anything is wrong, and 2 if the suite can't be run.

Example:
  python/foreign/run.py --suite xgboost --checkout ~/src/xgboost
  python/foreign/run.py --suite lightgbm --checkout ~/src/LightGBM --tests contrib --json
  python/foreign/run.py --suite treelite --checkout ~/src/treelite --file-seconds 600 --list treelite.md
  python/foreign/run.py --suite sklearn
"""

import argparse
import collections
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import listing
from record import COUNTED, NUDGE
from suites import SUITES

HERE = pathlib.Path(__file__).resolve().parent


class CannotRun(Exception):
    """Why a suite can't be run, and what to do about it."""


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", required=True, choices=sorted(SUITES), help="whose tests to run")
    parser.add_argument("--checkout", type=pathlib.Path, help="a folder with the library's source; sklearn brings its tests")
    parser.add_argument("--tests", help="run the tests whose name has this, or what pytest's -k takes")
    parser.add_argument("--examples", type=int, default=0, help="the most examples of each test of hypothesis; 0 is the test's own")
    parser.add_argument("--keep", type=pathlib.Path, help="write the model and the rows of what is wrong into this folder")
    parser.add_argument("--seconds", type=float, default=None, help="end after so long, and report what was run until then")
    parser.add_argument("--file-seconds", type=float, help="run each file alone, and end it after so long")
    parser.add_argument("--list", type=pathlib.Path, help="write what became of each test into this file, as Markdown")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    return parser.parse_args(arguments)


def files_of(suite, checkout):
    """The suite's files, or modules, as pytest takes them."""
    if suite.installed:
        return list(suite.files)
    if checkout is None:
        raise CannotRun("--checkout is missing; hand over a folder with the library's source")
    checkout = checkout.resolve()
    files = [str(checkout / name) for name in suite.files if (checkout / name).exists()]
    if not files:
        raise CannotRun(f"{checkout}: none of the suite's tests is there, {suite.files[0]} say; check out the library's source")
    return files


def pytest(suite, files, options, redirect, only=(), nudge=False):
    """Run tests, and return the plugin's record of them. Progress goes to standard error."""
    with tempfile.TemporaryDirectory() as folder:
        record = pathlib.Path(folder, "record.json")
        command = [sys.executable, "-m", "pytest", "-p", "plugin", "-p", "no:cacheprovider", "-o", "addopts=", "-q"]
        # Warnings that a suite makes errors of say nothing about predictions.
        command += ["--tb=short", "--no-header", "-W", "default", f"--foreign-record={record}", "--disable-warnings"]
        command += [f"--foreign-examples={options.examples}"]
        command += ["--foreign-nudge"] if nudge else []
        if redirect:
            command += [f"--foreign-redirect={','.join(suite.redirect)}"]
            if options.keep:
                # Each run numbers what it keeps from 0.
                alone = pathlib.Path(files[0]).stem if options.file_seconds is not None else ""
                command += [f"--foreign-keep={options.keep.resolve() / alone}"]
            command += ["-k", options.tests] if options.tests else []
            command += [f"--foreign-leave-out={name}" for name in suite.left_out]
        if only:
            names = pathlib.Path(folder, "only.json")
            names.write_text(json.dumps(only), encoding="utf-8")
            command += [f"--foreign-only={names}"]
        for name in suite.folders:
            pathlib.Path(folder, name).symlink_to(options.checkout.resolve() / name)
        # Models of tests are small, and threads that wait for each other take most of the time.
        environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "Agg"}
        environment["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
        command += ["--pyargs"] if suite.installed else [f"--rootdir={options.checkout.resolve()}"]
        seconds = options.seconds if options.file_seconds is None else options.file_seconds
        died, early = None, True
        try:
            run = subprocess.run(
                [*command, *files], cwd=folder, env=environment, stdout=sys.stderr, timeout=seconds
            )
            status = f"pytest ended with the status {run.returncode}"
            early = run.returncode < 0
            died = status if early else None
        except subprocess.TimeoutExpired:
            status = f"pytest was ended after {seconds} seconds"
        if early:
            print(f"run.py: {status}; the report is of what was run until then", file=sys.stderr)
        if not record.exists():
            raise CannotRun(f"{status} and no record; its output says why")
        return {**json.loads(record.read_text(encoding="utf-8")), "died": died, "cut": status if early else None}


def failed_of(record):
    return [test for test, outcome in record["outcomes"].items() if outcome == "failed"]


def outcomes_again(suite, files, options, record):
    """What becomes of tests that failed, without fangorn, and of the others among them with predictions that are nudged.

    Nothing is known of those that can't be run again.
    """
    failed, alone, nudged = failed_of(record), {}, {}
    try:
        if failed:
            print(f"{len(failed)} tests failed, which are run again without fangorn", file=sys.stderr)
            alone = pytest(suite, files, options, False, failed)["outcomes"]
        wrong = {one["test"] for one in record["wrong"]}
        # Each prediction was near enough, and an assertion of the test wasn't content.
        near = [test for test in failed if alone.get(test) == "passed" and test not in wrong]
        near = [test for test in near if record["said"][test].startswith(("AssertionError", "assert "))]
        if near:
            print(f"{len(near)} of them passed, which are run again with predictions that are nudged", file=sys.stderr)
            nudged = pytest(suite, files, options, True, near, nudge=True)["outcomes"]
    except CannotRun as error:
        print(f"run.py: {error}", file=sys.stderr)
    return {"alone": alone, "nudged": nudged}


def records_of(suite, options):
    """Run the suite, or each of its files alone; yield the record of each run."""
    files = files_of(suite, options.checkout)
    for some in [files] if options.file_seconds is None else [[file] for file in files]:
        try:
            record = pytest(suite, some, options, True)
        except CannotRun as error:
            if options.file_seconds is None:
                raise
            print(f"run.py: {some[0]}: {error}", file=sys.stderr)
            yield {"cut": f"{pathlib.Path(some[0]).name}: {error}"}
            continue
        if record["cut"] and options.file_seconds is not None:
            record["cut"] = f"{pathlib.Path(some[0]).name}: {record['cut']}"
        yield record | outcomes_again(suite, some, options, record)


def merged(records):
    """Make one record of several runs of other tests."""
    whole = {what: collections.Counter() for what in COUNTED}
    whole |= {"outcomes": {}, "messages": {}, "said": {}, "collection_errors": {}, "by_test": {}}
    whole |= {"alone": {}, "nudged": {}}
    whole |= {"selected": [], "wrong": [], "predicting": [], "died": [], "cut": []}
    for record in records:
        for name, value in record.items():
            if name in ("died", "cut"):
                whole[name] += [value] if value else []
            elif isinstance(value, list):
                whole[name] += value
            else:
                whole[name].update(value)
    return whole


def versions_of(suite):
    found = {}
    for name in ("fangorn", *suite.packages):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    if "fangorn" not in found:
        import fangorn

        found = {"fangorn": fangorn.__version__, **found}
    return found


def explanation(suite, *texts):
    """The reason why a difference is none of fangorn's, by the test's name or by what was found, or None."""
    whole = listing.shortened(" ".join(map(str, texts)))
    return next((reason for name, reason in suite.explained.items() if name in whole), None)


def digits(test, record):
    """The reason why a test fails whose predictions are all near enough, or None."""
    if record["nudged"].get(test) == "failed":
        return (
            "each prediction is near enough, and the test asks for more digits than float32 has: it fails, too, if the "
            f"library's own predictions are moved by {NUDGE:g} of the largest one at most"
        )
    return None


def report_of(name, suite, record):
    """Put together what the runs have found."""
    failed, alone = failed_of(record), record["alone"]
    theirs = [test for test in failed if alone.get(test) == "failed"]
    ours = [test for test in failed if alone.get(test) == "passed"]
    # A run that was cut off does not say whose failure it is.
    unknown = [test for test in failed if alone.get(test) not in ("passed", "failed")]
    wrong = [dict(one, explained=explanation(suite, one["test"], one["text"])) for one in record["wrong"]]
    failed_only = [
        {
            "test": test,
            "text": record["messages"][test],
            "explained": explanation(suite, test) or digits(test, record),
        }
        for test in ours
    ]
    outcomes = collections.Counter(record["outcomes"].values())
    return {
        "suite": name,
        "died": record["died"],
        "cut": record["cut"],
        "versions": versions_of(suite),
        "tests": {
            "selected": len(record["selected"]),
            "predicting": len(record["predicting"]),
            "passed": outcomes["passed"],
            "skipped": outcomes["skipped"],
            "not_run": len(set(record["selected"]) - set(record["outcomes"])),
            "failed_without_fangorn_too": len(theirs),
            "failed_with_fangorn_alone": len([one for one in failed_only if not one["explained"]]),
            "failed_and_not_run_again": len(unknown),
            "explained": len([one for one in failed_only if one["explained"]]),
        },
        "predictions": {
            "compared": sum(record["compared"].values()),
            "refused": sum(record["refused"].values()),
            "raised_alike": sum(record["raised_alike"].values()),
            "left_to_the_library": sum(record["left_to_the_library"].values()),
            "explained": len([one for one in wrong if one["explained"]]),
            "wrong": len([one for one in wrong if not one["explained"]]),
        },
        "compared": record["compared"],
        "refused": record["refused"],
        "raised_alike": record["raised_alike"],
        "left_to_the_library": record["left_to_the_library"],
        "wrong": wrong,
        "failed_with_fangorn_alone": failed_only,
        "failed_without_fangorn_too": theirs,
        "failed_and_not_run_again": unknown,
        "collection_errors": record["collection_errors"],
    }


def is_wrong(report):
    # A crash of the process, or the system that ends it for want of memory, is no success of the tests before it.
    return bool(report["died"] or report["predictions"]["wrong"] or report["tests"]["failed_with_fangorn_alone"])


def print_report(report):
    print(f"\n{report['suite']}: " + ", ".join(f"{name} {version}" for name, version in report["versions"].items()))
    for title in ("tests", "predictions"):
        counts = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in report[title].items())
        print(f"{title}: {counts}")
    for title in ("compared", "refused", "raised_alike", "left_to_the_library"):
        if report[title]:
            print(f"\n{title.replace('_', ' ')}")
        for text, count in sorted(report[title].items(), key=lambda item: -item[1]):
            print(f"{count:8}  {text}")
    alike = collections.Counter((one["test"], one["call"], one["kind"]) for one in report["wrong"])
    for one in report["wrong"]:
        count = alike.pop((one["test"], one["call"], one["kind"]), None)
        if count is not None:
            reason = f" (explained: {one['explained']})" if one["explained"] else ""
            print(f"\nwrong{reason}, {count} times: {one['test']}\n  {one['call']}, {one['kind']}: {one['text'].strip()}")
    for one in report["failed_with_fangorn_alone"]:
        reason = f" (explained: {one['explained']})" if one["explained"] else ""
        print(f"\nfails with fangorn alone{reason}: {one['test']}\n{one['text']}")
    for test in report["failed_and_not_run_again"]:
        print(f"\nfailed and not run again: {test}")
    for text in report["cut"]:
        print(f"\ncut off: {text}")
    for test, text in report["collection_errors"].items():
        print(f"\nnot collected: {test}\n{text}")


def main(arguments=None):
    options = parse(arguments)
    suite = SUITES[options.suite]
    try:
        record = merged(records_of(suite, options))
        if not record["outcomes"]:
            raise CannotRun("no test was run; look at --tests, and at the errors above")
    except CannotRun as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    report = report_of(options.suite, suite, record)
    if options.list:
        options.list.write_text(listing.markdown(report, record, options), encoding="utf-8")
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        print_report(report)
    return 1 if is_wrong(report) else 0


if __name__ == "__main__":
    sys.exit(main())
