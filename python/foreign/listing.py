"""Writes what became of each test of a suite as Markdown. The cases of a test with the same fate are one line."""

import collections
import datetime
import re
import textwrap

_WIDTH = 120

# The most cases whose parameters are named.
_MOST_CASES = 4

# The most letters of a message.
_MOST_SAID = 120

# What may become of a test, the first that fits, with the heading for each file's tests.
_FATES = {
    "wrong": "Wrong, or fails with Fangorn alone",
    "fails": "Fails without Fangorn, too",
    "unknown": "Failed, and was not run again",
    "explained": "Differs, and is explained",
    "refused": "Passed, with predictions that Fangorn refuses by name",
    "passed": "Passed through Fangorn",
    "left": "Passed, with predictions for which Fangorn has no counterpart",
    "nothing": "Passed, and predicts nothing",
    "skipped": "Skipped",
    "not run": "Not run",
}


def fates_of(report, record):
    """Return the fate of each case, by its name."""
    wrong = {one["test"] for one in report["wrong"] + report["failed_with_fangorn_alone"] if not one["explained"]}
    explained = {one["test"] for one in report["wrong"] + report["failed_with_fangorn_alone"] if one["explained"]}
    known = {"fails": set(report["failed_without_fangorn_too"]), "unknown": set(report["failed_and_not_run_again"])}

    def fate(test):
        counts = record["by_test"].get(test, {})
        if test in wrong:
            return "wrong"
        for name, tests in known.items():
            if test in tests:
                return name
        outcome = record["outcomes"].get(test)
        if outcome != "passed":
            return "explained" if test in explained else outcome or "not run"
        if test in explained:
            return "explained"
        found = {"refused": "refused", "compared": "passed", "raised_alike": "passed", "left_to_the_library": "left"}
        return next((fate for what, fate in found.items() if counts.get(what)), "nothing")

    return {test: fate(test) for test in dict.fromkeys([*record["selected"], *record["outcomes"]])}


def markdown(report, record, options):
    """Return the list of a suite's tests."""
    fates = fates_of(report, record)
    notes = _Notes(report, record, options)
    files = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    for test, fate in fates.items():
        file, _, name = test.partition("::")
        files[file][fate][name.partition("[")[0]].append(test)
    body = []
    for file, of_file in sorted(files.items()):
        body += _of_file(file, of_file, notes)
    return "\n".join([*_head(report, options, fates), *notes.tables(), *body]) + "\n"


def _head(report, options, fates):
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    tests, predictions = report["tests"], report["predictions"]
    lines = [f"# {report['suite']}", ""]
    how = f"Written by `run.py --list` on {datetime.date.today()}: {versions}."
    how += f" Tests of hypothesis have at most {options.examples} examples." if options.examples else ""
    how += f" Each file had at most {options.file_seconds:g} seconds." if options.file_seconds else ""
    how += f" The tests are those that `-k {options.tests!r}` takes." if options.tests else ""
    how += " Each case of a parametrised test is one; `×4` stands for 4 cases. Counts of predictions are of all cases."
    lines += [*_wrapped(how), ""]
    lines += ["| what became of it | cases |", "|---|--:|"]
    counts = collections.Counter(fates.values())
    lines += [f"| {heading} | {counts[fate]} |" for fate, heading in _FATES.items() if counts[fate]]
    lines += [f"| All, of which {tests['predicting']} predict | {len(fates)} |", ""]
    text = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in predictions.items())
    lines += [*_wrapped(f"Predictions: {text}."), ""]
    for cut in report["cut"]:
        lines += [*_wrapped(f"- Cut off: {cut}.", "  ")]
    lines += [""] if report["cut"] else []
    for test, text in report["collection_errors"].items():
        lines += [*_wrapped(f"- Not collected: `{test}`: {last_line(text)}", "  ")]
    return lines + ([""] if report["collection_errors"] else [])


class _Notes:
    """Messages and reasons, which the lines of tests name by a letter and a number."""

    def __init__(self, report, record, options):
        self.report = report
        self.record = record
        self.folder = f"{options.checkout.resolve()}/" if options.checkout else None
        refused = sorted(report["refused"], key=lambda text: -report["refused"][text])
        self.refused = {text: f"R{at}" for at, text in enumerate(refused, 1)}
        different = report["wrong"] + report["failed_with_fangorn_alone"]
        reasons = dict.fromkeys(one["explained"] for one in different if one["explained"])
        self.reasons = {text: f"E{at}" for at, text in enumerate(reasons, 1)}

    def tables(self):
        lines = []
        for title, marks in (("Refused by name", self.refused), ("Explained", self.reasons)):
            if marks:
                lines += [f"## {title}", ""]
            for text, mark in marks.items():
                count = self.report["refused"].get(text)
                text = f"- {mark}" + (f", {count} prediction{'s' * (count > 1)}" if count else "") + f": {text}"
                lines += _wrapped(text, "  ")
            lines += [""] if marks else []
        return lines

    def of(self, fate, tests):
        """Return what there is to say about cases: counts, marks, and the messages of failures."""
        counts = collections.defaultdict(collections.Counter)
        for test in tests:
            for what, found in self.record["by_test"].get(test, {}).items():
                counts[what].update(found)
        parts = []
        for what in ("compared", "raised_alike", "refused", "left_to_the_library"):
            if counts[what]:
                marks = sorted((self.refused[text] for text in counts[what]), key=_number) if what == "refused" else []
                among = f" ({', '.join(marks)})" if marks else ""
                parts.append(f"{sum(counts[what].values())} {what.replace('_', ' ')}{among}")
        if fate == "left":
            parts += sorted(counts["left_to_the_library"])
        chosen = set(tests)
        different = self.report["wrong"] + self.report["failed_with_fangorn_alone"]
        different = [one for one in different if one["test"] in chosen]
        reasons = {self.reasons[one["explained"]] for one in different if one["explained"]}
        if different:
            among = f" ({', '.join(sorted(reasons, key=_number))})" if reasons else ""
            parts.append(f"{len(different)} different{among}")
        if fate == "wrong":
            parts += dict.fromkeys(self._short(last_line(one["text"])) for one in different if not one["explained"])
        if fate in ("fails", "unknown", "skipped"):
            parts += dict.fromkeys(self._short(self.record["said"].get(test, "")) for test in tests)
        return "; ".join(filter(None, parts))

    def _short(self, text):
        text = " ".join((str(text).strip().splitlines() or [""])[0].split())
        text = text.replace(self.folder, "") if self.folder else text
        text = re.sub(r"/\S*/(?=[^/\s])", "…/", text)
        text = re.sub(r" at 0x[0-9a-f]+", "", text)
        text = re.sub(r"\[\d\d:\d\d:\d\d\] |\|\d\d:\d\d:\d\d", "", text)
        return text if len(text) <= _MOST_SAID else text[: _MOST_SAID - 1] + "…"


def shortened(text):
    """Leave out the arguments of an estimator, of which the names of scikit-learn's checks are full."""
    return re.sub(r"\([^()]{60,}\)", "(…)", text)


def last_line(text):
    """Return the line of a failure that says what it is: pytest marks it with an E."""
    lines = [line.strip() for line in str(text).strip().splitlines()]
    marked = [line[1:].strip() for line in lines if re.match(r"E\s", line)]
    return next(iter(marked or lines[-1:]), "")


def _of_file(file, of_file, notes):
    total = sum(len(tests) for names in of_file.values() for tests in names.values())
    lines = [f"## {file}", "", f"{total} case{'s' * (total > 1)}.", ""]
    fates_of_name = collections.Counter(name for names in of_file.values() for name in names)

    def named(name, tests):
        text = f"`{name.replace('::', '.')}`"
        cases = [shortened(test.partition("::")[2][len(name) :]) for test in tests]
        # Cases of other fates are told apart.
        if fates_of_name[name] > 1 and len(cases) <= _MOST_CASES:
            return f"{text} of {', '.join(f'`{case}`' for case in cases)}"
        return text + (f" ×{len(tests)}" if len(tests) > 1 else "")

    for fate, heading in _FATES.items():
        names = of_file.get(fate)
        if not names:
            continue
        lines += [f"{heading}: {sum(map(len, names.values()))}", ""]
        said = {name: notes.of(fate, tests) for name, tests in names.items()}
        if not any(said.values()):
            # Names alone need no lines of their own.
            lines += _wrapped("- " + ", ".join(named(name, tests) for name, tests in names.items()), "  ")
        else:
            for name, tests in names.items():
                lines += _wrapped(f"- {named(name, tests)}" + (f": {said[name]}" if said[name] else ""), "  ")
        lines.append("")
    return lines


def _number(mark):
    return int(mark[1:])


def _wrapped(text, indent=""):
    return textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
