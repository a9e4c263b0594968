"""Runs the cases that it is asked for, one line of JSON each way; run.py starts it in the environment of its own."""

import argparse
import importlib
import json
import pathlib
import resource
import sys
import tempfile
import warnings

import numpy as np

import case
import minimise
from fangorn import Fangorn

# producer -> the module of its models
MODULES = {
    "xgboost": "xgb", "lightgbm": "lgb", "catboost": "cat", "scikit-learn": "skl", "onnx": "onnx_files",
    "treelite": "checkpoints",
}  # fmt: skip
MEMORY = 8 << 30  # bytes; a library that wants more fails, not the machine


def plain(value):
    """What json does not know."""
    return value.item() if isinstance(value, np.generic) else str(value)


def versions():
    import catboost, lightgbm, onnx, onnxmltools, onnxruntime, skl2onnx, sklearn, treelite, xgboost  # noqa: E401

    used = [xgboost, lightgbm, catboost, sklearn, onnx, onnxruntime, skl2onnx, onnxmltools, treelite, np]
    return {m.__name__: m.__version__ for m in used}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fangorn", type=pathlib.Path, required=True)
    parser.add_argument("--failures", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    # What libraries print is not an answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    keeper = minimise.Keeper(args.failures, args.seed, case.Asked)
    for line in sys.stdin:
        asked = json.loads(line)
        if asked == "versions":
            answer = versions()
        else:
            producer, index = asked
            module = importlib.import_module(MODULES[producer])
            with tempfile.TemporaryDirectory(prefix="fangorn-campaign-") as folder:
                folder = pathlib.Path(folder)
                answer = case.run(args.seed, module, index, Fangorn(args.fangorn, folder), folder, keeper).plain()
        print(json.dumps(answer, default=plain), file=answers, flush=True)


if __name__ == "__main__":
    main()
