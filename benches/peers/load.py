#!/usr/bin/env python3
"""Times how long each library takes to read its own model files.

    python3 benches/peers/load.py MODEL...

Prints the least of many reads in milliseconds, one file a line. Needs the library of each file: xgboost (.json, .ubj),
lightgbm (.txt), catboost (.json with oblivious_trees or trees), onnxruntime (.onnx), treelite (.tl).
"""

import os
import sys
import time


def reader(path):
    """A function that reads the file, and its library's name."""
    if path.endswith(".txt"):
        import lightgbm

        return (lambda: lightgbm.Booster(model_file=path)), f"lightgbm {lightgbm.__version__}"
    if path.endswith(".onnx"):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        return (lambda: onnxruntime.InferenceSession(path, options)), f"onnxruntime {onnxruntime.__version__}"
    if path.endswith(".tl"):
        import treelite

        return (lambda: treelite.Model.deserialize(path)), f"treelite {treelite.__version__}"
    with open(path, "rb") as file:
        start = file.read(64)
    if b"features_info" in start or b"model_info" in start:
        import catboost

        return (lambda: catboost.CatBoost().load_model(path, format="json")), f"catboost {catboost.__version__}"
    import xgboost

    return (lambda: xgboost.Booster(model_file=path)), f"xgboost {xgboost.__version__}"


for path in sys.argv[1:]:
    read, library = reader(path)
    times = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < 2:
        start = time.perf_counter()
        read()
        times.append(time.perf_counter() - start)
    name = os.path.basename(os.path.dirname(os.path.abspath(path)))
    print(f"{name:28} {min(times) * 1e3:9.2f} ms  {library}", flush=True)
