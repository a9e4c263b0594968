#!/usr/bin/env python3
"""Runs the tests that ONNX has for the operators of ai.onnx.ml, with Fangorn in the place of its reference evaluator.

    python3 graphs/tests/onnx/run.py --fangorn target/release/fangorn
    python3 graphs/tests/onnx/run.py --fangorn target/release/fangorn --cases onnx/tests/python/reference_evaluator_ml_test.py

The node tests of the backend suite are in the onnx package. The cases of the reference evaluator are in a file of
ONNX's repository, which --cases names. Needs onnx, numpy and pytest. Prints a table of what passes and what is refused,
by name; what differs ends it with status 1.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

DTYPES = {"bool": np.bool_, "i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64, "text": np.str_}
NAMES = {np.dtype(np.bool_): "bool", np.dtype(np.int32): "i32", np.dtype(np.int64): "i64"}
NAMES |= {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}


class Refused(Exception):
    """Fangorn does not take the model."""


def text(array):
    """The text of a tensor."""
    array = np.asarray(array)
    shape = ", ".join(map(str, array.shape))
    if array.dtype.kind in "OUS":
        words = (item.decode() if isinstance(item, bytes) else str(item) for item in array.ravel())
        quoted = ", ".join('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in words)
        return f"text[{shape}] = [{quoted}]"
    if array.dtype == np.float16:
        array = array.astype(np.float32)
    name = NAMES.get(array.dtype)
    if name is None:
        array, name = array.astype(np.int64), "i64"
    values = (str(item).lower() if name == "bool" else repr(item.item()) for item in array.ravel())
    return f"{name}[{shape}] = [{', '.join(values)}]"


def tensor(line):
    """The array of a tensor's text."""
    head, values = line.split(" = ", 1)
    name, shape = re.fullmatch(r"(\w+)\[(.*)\]", head).groups()
    shape = [int(length) for length in shape.split(",") if length.strip()]
    values = values.strip()[1:-1]
    if name == "text":
        items = [word.replace('\\"', '"').replace("\\\\", "\\") for word in re.findall(r'"((?:[^"\\]|\\.)*)"', values)]
        return np.array(items, dtype=object).reshape(shape)
    items = [item.strip() for item in values.split(",") if item.strip()]
    if name == "bool":
        items = [item == "true" for item in items]
    return np.array(items, dtype=DTYPES[name] if name == "bool" else None).astype(DTYPES[name]).reshape(shape)


class Evaluator:
    """Stands for onnx.reference.ReferenceEvaluator."""

    program = None
    seen = collections.Counter()

    def __init__(self, model, **_):
        self.model = model
        initial = {tensor.name for tensor in model.graph.initializer}
        # A graph has no floats of 16 bits; the file's type of an output is the evaluator's.
        self.halves = [value.type.tensor_type.elem_type == 10 for value in model.graph.output]
        self.inputs = [value.name for value in model.graph.input if value.name not in initial]
        # A map becomes a column for each key; a key that it lacks is a missing value.
        self.keys = {
            node.input[0]: [key.decode() for item in node.attribute for key in item.strings] or
            [key for item in node.attribute for key in item.ints]
            for node in model.graph.node if node.op_type == "DictVectorizer"
        }

    def array(self, name, value):
        """The array that an input takes."""
        if name not in self.keys:
            return value
        rows = [value] if isinstance(value, dict) else list(np.asarray(value, dtype=object).ravel())
        return np.array([[row.get(key, np.nan) for key in self.keys[name]] for row in rows], dtype=np.float64)

    def run(self, _, feeds):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "model.onnx").write_bytes(self.model.SerializeToString())
            lines = [text(self.array(name, feeds[name])) for name in self.inputs]
            (folder / "inputs.txt").write_text("\n".join(lines) + "\n")
            done = subprocess.run(
                [self.program, "graph", folder / "model.onnx", "--run", folder / "inputs.txt"],
                capture_output=True, text=True, timeout=60,
            )
        if done.returncode != 0:
            raise Refused(done.stderr.strip().split("model.onnx: ")[-1])
        found = [tensor(line) for line in done.stdout.splitlines()]
        # A single map has no dimension of rows.
        if any(isinstance(feeds[name], dict) for name in self.keys):
            found = [array[0] for array in found]
        return [array.astype(np.float16) if half else array for array, half in zip(found, self.halves)]


def node_tests():
    """The backend suite's node tests of ai.onnx.ml: for each name, whether it passes, or why not."""
    from onnx import numpy_helper
    from onnx.backend.test.case.node import collect_testcases

    def array(value):
        return numpy_helper.to_array(value) if hasattr(value, "data_type") else np.asarray(value)

    found = {}
    for case in collect_testcases(None):
        if not case.name.startswith("test_ai_onnx_ml"):
            continue
        try:
            for inputs, outputs in case.data_sets:
                evaluator = Evaluator(case.model)
                got = evaluator.run(None, dict(zip(evaluator.inputs, map(array, inputs))))
                for a, b in zip(got, map(array, outputs), strict=True):
                    if b.dtype.kind in "OUS":
                        assert a.tolist() == [str(item) for item in b.tolist()], f"{a} is not {b}"
                    else:
                        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
            found[case.name] = "passes"
        except Refused as error:
            found[case.name] = f"refused: {error}"
        except Exception as error:  # a case that differs should not end all
            found[case.name] = f"DIFFERS: {' '.join(str(error).split())[:300]}"
    return found


class Plugin:
    """Collects what pytest says of each case."""

    def __init__(self):
        self.found = {}

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.split("::")[-1]
        if report.when == "call" and report.passed:
            self.found[name] = "passes"
        elif report.failed:
            message = str(getattr(report.longrepr, "reprcrash", None) and report.longrepr.reprcrash.message)
            if "Refused" in message:
                self.found[name] = "refused: " + " ".join(message.split("Refused: ", 1)[-1].split())[:200]
            else:
                self.found[name] = "DIFFERS: " + " ".join(message.split())[:300]
        elif report.skipped:
            self.found[name] = "skipped"


def evaluator_cases(path):
    """The cases of the reference evaluator's own tests."""
    import onnx.reference
    import pytest

    onnx.reference.ReferenceEvaluator = Evaluator
    plugin = Plugin()
    # Comparisons of onnxruntime with the evaluator are not ours.
    pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", "--tb=line", str(path)], plugins=[plugin])
    return plugin.found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fangorn", required=True, type=pathlib.Path, help="the program")
    parser.add_argument("--cases", type=pathlib.Path, help="ONNX's reference_evaluator_ml_test.py")
    arguments = parser.parse_args()
    Evaluator.program = arguments.fangorn.resolve()
    tables = {"node tests": node_tests()}
    if arguments.cases:
        tables["reference evaluator"] = evaluator_cases(arguments.cases)
    differs = False
    for title, found in tables.items():
        passes = sum(result == "passes" for result in found.values())
        print(f"\n{title}: {passes} of {len(found)} pass")
        for name, result in sorted(found.items()):
            print(f"  {name}: {result}")
            differs |= result.startswith("DIFFERS")
    sys.exit(1 if differs else 0)


if __name__ == "__main__":
    main()
