#!/usr/bin/env python3
"""One engine on one model, for benches/peers/run.py.

It takes requests on standard input, a line each, and answers in JSON on
standard output, as `fangorn-benches cpu --serve`:

    open BATCH BATCHES SECONDS   make so many batches ready, warm up, write results to DIR
    time SECONDS                 time calls that go through the batches
    quit

Margins are predicted where the engine has a way to them; what it gives
otherwise is said in its first answer. What an engine makes of rows before it
predicts (a DMatrix, a Pool) is made before the clock starts.
"""

import argparse
import gc
import hashlib
import importlib.metadata
import itertools
import json
import math
import os
import pathlib
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import convert
from convert import CannotTake

MOST = 4000  # groups of calls that are kept of one measurement
LEAST = 2
GROUP = 500e-6  # seconds a group takes at least, so that neither the clocks' resolution nor their cost shows


class Engine:
    versions: list[str] = []
    gives = "margins"
    setting = ""
    converts = False  # whether another library has to read the model

    def __init__(self, np, threads: int, compiled: pathlib.Path):
        self.np, self.threads, self.compiled = np, threads, compiled
        self.load_ms = self.compile_ms = None
        self.imports()

    def imports(self):
        """Everything that is imported, before memory is counted."""

    def take(self, file: pathlib.Path):
        """Reads the model. Raises CannotTake with the reason where the engine has no way to it."""
        raise NotImplementedError

    def input(self, x):
        """What a batch of rows is handed over as."""
        return x

    def call(self, x):
        raise NotImplementedError

    def loads(self, read):
        begin = time.perf_counter()
        made = read()
        self.load_ms = (self.load_ms or 0) + (time.perf_counter() - begin) * 1e3
        return made

    def compiles(self, make):
        begin = time.perf_counter()
        made = make()
        self.compile_ms = (self.compile_ms or 0) + (time.perf_counter() - begin) * 1e3
        return made

    def kept(self, file: pathlib.Path, suffix: str, make):
        """A file that is made of the model once; how long that took is kept with it."""
        digest = hashlib.sha256(file.read_bytes() + self.version().encode() + suffix.encode()).hexdigest()[:24]
        made = self.compiled / (digest + suffix)
        took = made.with_name(made.name + ".ms")
        if not (made.is_file() and took.is_file()):
            self.compiled.mkdir(parents=True, exist_ok=True)
            begin = time.perf_counter()
            aside(lambda: make(made))
            took.write_text(str((time.perf_counter() - begin) * 1e3))
        self.compile_ms = float(took.read_text())
        return made

    def version(self) -> str:
        return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in self.versions)


def aside(make):
    """Runs `make` in a process of its own, so that its memory is not this one's."""
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            make()
        except Exception as error:
            said = one_line(error)
        os.write(there, said.encode())
        os._exit(0 if not said else 2)
    os.close(there)
    with os.fdopen(here) as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise CannotTake(said or f"it ended with status {status}")


def only(file, kinds):
    """Refuses models of other kinds."""
    kind = convert.kind_of(file)
    if kind not in kinds:
        raise CannotTake(f"it reads no model of {kind}'s" if kind != "onnx" else "it reads no ONNX file")
    return kind


class Xgboost(Engine):
    versions = ["xgboost"]
    setting = "inplace_predict"

    def imports(self):
        import xgboost

        self.xgb = xgboost

    def take(self, file):
        only(file, ["xgboost"])
        self.booster = self.loads(lambda: self.xgb.Booster({"nthread": self.threads}, model_file=str(file)))
        self.booster.set_param({"nthread": self.threads})

    def call(self, x):
        return self.booster.inplace_predict(x, predict_type="margin", missing=math.nan, validate_features=False)


class Lightgbm(Engine):
    versions = ["lightgbm"]
    setting = "Booster.predict"

    def imports(self):
        import lightgbm

        self.lgb = lightgbm

    def take(self, file):
        only(file, ["lightgbm"])
        self.booster = self.loads(lambda: self.lgb.Booster(model_file=str(file)))

    def call(self, x):
        return self.booster.predict(x, raw_score=True, num_threads=self.threads)


class Catboost(Engine):
    versions = ["catboost"]
    setting = "predict of a Pool"

    def imports(self):
        import catboost

        self.catboost = catboost

    def take(self, file):
        only(file, ["catboost"])
        if convert.categories(file):
            raise CannotTake("rows with categories are not handed to it")
        self.model = self.loads(lambda: self.catboost.CatBoost().load_model(str(file), format="json"))

    def input(self, x):
        return self.catboost.Pool(x)

    def call(self, x):
        return self.model.predict(x, prediction_type="RawFormulaVal", thread_count=self.threads)


class Onnxruntime(Engine):
    """A model of another format is first written as an ONNX tree ensemble."""

    versions = ["onnxruntime"]
    setting = "InferenceSession.run"

    def imports(self):
        import onnx
        import onnxruntime
        import treelite

        self.ort = onnxruntime
        del onnx, treelite

    def take(self, file):
        if convert.kind_of(file) == "catboost":
            raise CannotTake("CatBoost's own ONNX files are another model file; give that one")
        if convert.kind_of(file) == "onnx":
            self.gives = "outputs"
            if (plain := convert.without_maps(file)) is not None:
                file = self.kept(file, ".plain.onnx", lambda made: made.write_bytes(plain))
        else:
            write = lambda made: made.write_bytes(convert.to_onnx(self.np, convert.dump(convert.load(file))))
            file = self.kept(file, ".onnx", write)
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        self.session = self.loads(
            lambda: self.ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        )
        self.name = self.session.get_inputs()[0].name
        self.asked = [out.name for out in self.session.get_outputs() if out.type == "tensor(float)"]
        if len(self.asked) != 1:
            raise CannotTake("the file has no single output of floats")

    def call(self, x):
        return self.session.run(self.asked, {self.name: x})[0]


class Treelite(Engine):
    versions = ["treelite"]
    setting = "gtil.predict"

    def imports(self):
        import joblib
        import treelite

        self.gtil = treelite.gtil
        del joblib

    def take(self, file):
        if convert.kind_of(file) == "onnx":
            self.gives = "outputs"
        self.model = self.loads(lambda: convert.load(file))

    def call(self, x):
        return self.gtil.predict(self.model, x, nthread=self.threads, pred_margin=True)


class Tl2cgen(Engine):
    """C code of the model, compiled; rows are a DMatrix before the clock starts."""

    versions = ["tl2cgen", "treelite"]
    quantize = 0

    def imports(self):
        import tl2cgen
        import treelite

        self.tl2cgen = tl2cgen
        del treelite

    def take(self, file):
        compilers = [c for c in ("gcc", "clang") if shutil.which(c)]
        if not compilers:
            raise CannotTake("there is no C compiler, gcc or clang")
        if convert.kind_of(file) == "onnx":
            self.gives = "outputs"
        self.setting = f"{compilers[0]}, quantize={self.quantize}"

        def make(made):
            model = convert.load(file)
            # One file of all trees takes a compiler hours where there are thousands.
            parameters = {"quantize": self.quantize, "parallel_comp": max(1, model.num_tree // 25)}
            self.tl2cgen.export_lib(
                model, toolchain=compilers[0], libpath=str(made), params=parameters, nthread=os.cpu_count()
            )

        library = self.kept(file, f".q{self.quantize}.so", make)
        self.predictor = self.loads(lambda: self.tl2cgen.Predictor(str(library), nthread=self.threads))

    def input(self, x):
        return self.tl2cgen.DMatrix(x)

    def call(self, x):
        return self.predictor.predict(x, pred_margin=True)


class Tl2cgenQuantize(Tl2cgen):
    quantize = 1


class Lleaves(Engine):
    """Machine code by LLVM; rows are doubles before the clock starts: in floats some of them take other ways."""

    versions = ["lleaves", "llvmlite"]
    setting = "fp64"

    def imports(self):
        import lleaves

        self.lleaves = lleaves

    def take(self, file):
        only(file, ["lightgbm"])

        def make(made):
            self.lleaves.Model(model_file=str(file)).compile(cache=str(made), raw_score=True)

        code = self.kept(file, ".bin", make)

        def read():
            model = self.lleaves.Model(model_file=str(file))
            model.compile(cache=str(code), raw_score=True)
            return model

        self.model = self.loads(read)

    def input(self, x):
        return x.astype(self.np.float64)

    def call(self, x):
        return self.model.predict(x, n_jobs=self.threads)


class Onedal(Engine):
    """oneDAL's gradient boosting by daal4py's model builders. Margins where a row has one, else probabilities."""

    versions = ["scikit-learn-intelex", "daal"]

    def imports(self):
        import daal4py
        import daal4py.mb
        import joblib
        import treelite

        daal4py.daalinit(self.threads)
        self.builder = daal4py.mb.GBTDAALModel
        del joblib, treelite

    def take(self, file):
        kind = convert.kind_of(file)
        if kind == "catboost":
            import catboost

            model = self.loads(lambda: catboost.CatBoost().load_model(str(file), format="json"))
            made = self.compiles(lambda: self.builder(model))
            self.gives = "margins" if made._is_regression else "outputs"
        else:
            model = self.loads(lambda: convert.load(file))
            forest = convert.dump(model)
            if kind == "onnx":
                self.gives = "outputs"
            if convert.outputs_of(forest) == 1 and not any(t["has_categorical_split"] for t in forest["trees"]):
                made = self.builder.__new__(self.builder)
                made.model_type = "treelite"
                self.compiles(lambda: made._convert_model_from_treelite(convert.Sums(forest)))
            else:
                made = self.compiles(lambda: self.builder(model))
                self.gives = "outputs"
        self.predict = made.predict if made._is_regression else made.predict_proba
        self.setting = self.predict.__name__

    def call(self, x):
        return self.predict(x)


class ScikitLearn(Engine):
    versions = ["scikit-learn"]
    gives = "outputs"

    def imports(self):
        import joblib
        import sklearn.ensemble

        self.joblib = joblib
        del sklearn

    def take(self, file):
        only(file, ["onnx"])
        own = convert.estimator_of(file)
        if own is None:
            raise CannotTake("there is no estimator, model.joblib, beside the file")
        model = self.loads(lambda: self.joblib.load(own))
        model.set_params(n_jobs=self.threads)
        self.predict = getattr(model, "predict_proba", model.predict)
        self.setting = self.predict.__name__

    def call(self, x):
        return self.predict(x)


class Hummingbird(Engine):
    """Hummingbird's tensor program of the strategy that it picks by depth, as TorchScript."""

    versions = ["hummingbird-ml", "torch"]

    def imports(self):
        import hummingbird.ml
        import joblib
        import onnx
        import torch
        import treelite
        from hummingbird.ml.operator_converters import _gbdt_commons, _tree_commons

        torch.set_num_threads(self.threads)
        torch.set_num_interop_threads(1)
        self.torch, self.hummingbird, self.onnx = torch, hummingbird.ml, onnx
        self.gbdt, self.trees = _gbdt_commons, _tree_commons
        del joblib, treelite

    def take(self, file):
        if convert.kind_of(file) == "onnx":
            self.gives = "outputs"
            self.of_onnx(file)
            return
        forest = self.loads(lambda: convert.dump(convert.load(file)))
        self.module = self.compiles(lambda: self.of_trees(forest))
        self.setting = f"torchscript, {type(self.module).__name__.removesuffix('GBTDImpl').removesuffix('GBDTImpl')}"

    def of_onnx(self, file):
        """Its own converters, of the estimator or else of the file."""
        written = self.onnx.load(str(file))
        own = convert.estimator_of(file)
        if own:
            import joblib

            model = self.loads(lambda: joblib.load(own))
        else:
            model = self.loads(lambda: self.onnx.load(str(file)))
        features = written.graph.input[0].type.tensor_type.shape.dim[1].dim_value
        row = self.np.zeros((1, features), dtype=self.np.float32)
        made = self.compiles(lambda: self.hummingbird.convert(model, "torch", row))
        self.module = made.model.eval()
        self.setting = "torchscript"

    def of_trees(self, forest):
        import types

        outputs = convert.outputs_of(forest)
        compare = convert.comparison(forest)
        if forest["average_tree_output"] or forest["leaf_vector_shape"] != [1, 1]:
            raise CannotTake("its trees are averaged, or their leaves vectors; its converter is of boosted trees")
        # The converter wants the trees of one class after those of another.
        classes = forest["class_id"]
        trees = [forest["trees"][i] for i in sorted(range(len(classes)), key=lambda i: classes[i])]
        variable = types.SimpleNamespace(full_name="x")
        operator = types.SimpleNamespace(full_name="forest", inputs=[variable], outputs=[variable])
        # The converter for XGBoost reads dumps of versions before 3; what it makes of any is called here.
        made = self.gbdt.convert_gbdt_common(
            operator,
            trees,
            self.parameters,
            forest["num_feature"],
            list(range(outputs)) if outputs > 1 else None,
            extra_config={"post_transform": None},
            decision_cond=compare,
        )
        # The margins alone, without the class of the largest.
        made.regression, made.classification = True, False
        base = self.torch.tensor(forest["base_scores"], dtype=self.torch.float32)
        made.post_transform = self.trees.ApplyBasePredictionPostTransform(base)
        return made.eval()

    def parameters(self, tree, config):
        """A tree in Hummingbird's terms, each child behind its parent."""
        nodes = {node["node_id"]: node for node in tree["nodes"]}
        order, at = [0], {0: 0}
        for number in order:
            if "leaf_value" not in nodes[number]:
                for child in (nodes[number]["left_child"], nodes[number]["right_child"]):
                    at[child] = len(order)
                    order.append(child)
        nodes = [nodes[number] for number in order]
        inner = ["leaf_value" not in node for node in nodes]
        return self.trees.TreeParameters(
            [at[n["left_child"]] if i else -1 for n, i in zip(nodes, inner)],
            [at[n["right_child"]] if i else -1 for n, i in zip(nodes, inner)],
            [n["split_feature_id"] if i else 0 for n, i in zip(nodes, inner)],
            [convert.threshold(self.np, n) if i else 0.0 for n, i in zip(nodes, inner)],
            [[-1.0 if i else n["leaf_value"]] for n, i in zip(nodes, inner)],
        )

    def input(self, x):
        return self.torch.from_numpy(x)

    def batch(self, x):
        """Traces the program for batches of this size, as Hummingbird does for the rows it is given."""
        with self.torch.no_grad():
            traced = self.torch.jit.trace(self.module, x, check_trace=False)
            self.program = self.torch.jit.freeze(traced.eval())

    def call(self, x):
        with self.torch.no_grad():
            made = self.program(x)
        # A classifier gives the class too.
        return made[1] if isinstance(made, tuple) else made


ENGINES = {
    "xgboost": Xgboost,
    "lightgbm": Lightgbm,
    "catboost": Catboost,
    "onnxruntime": Onnxruntime,
    "treelite": Treelite,
    "tl2cgen": Tl2cgen,
    "tl2cgen-quantize": Tl2cgenQuantize,
    "lleaves": Lleaves,
    "onedal": Onedal,
    "scikit-learn": ScikitLearn,
    "hummingbird": Hummingbird,
}


def memory(name):
    """Mebibytes that Linux counts for this process."""
    try:
        with open("/proc/self/status") as status:
            return next(float(line.split()[1]) / 1024 for line in status if line.startswith(name))
    except (OSError, StopIteration):
        return None


def forget_peak():
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass  # the peak is that of the whole process, then


def grown(after, before):
    return None if after is None or before is None else max(0.0, after - before)


class Session:
    def __init__(self, np, engine, rows, out, check):
        self.np, self.engine, self.rows, self.out, self.check = np, engine, rows, out, check
        self.turn = None

    def open(self, batch, batches, seconds):
        np, engine = self.np, self.engine
        # Rows that are fewer come again.
        rows = np.ascontiguousarray(np.resize(self.rows, (batch * batches, self.rows.shape[1])))
        inputs = [engine.input(rows[first : first + batch]) for first in range(0, len(rows), batch)]
        if hasattr(engine, "batch"):
            engine.batch(inputs[0])
        self.turn = itertools.cycle(inputs)
        checked = inputs[: max(1, -(-self.check // batch))]
        results = np.concatenate([self.results(engine.call(x), batch) for x in checked])
        self.groups(seconds)
        file = self.out / f"{engine.gives}.npy"
        np.save(file, results)
        return {"kind": "opened", "batch": batch, "setting": engine.setting, "written": {engine.gives: str(file)}}

    def results(self, values, batch):
        return self.np.asarray(values).reshape(batch, -1).astype(self.np.float32)

    def groups(self, seconds):
        """Times groups of calls, after some calls that only warm up."""
        call, turn = self.engine.call, self.turn
        begin = time.perf_counter()
        fastest, warm = math.inf, 0
        while warm < 2 or time.perf_counter() - begin < 0.1 * seconds:
            start = time.perf_counter()
            call(next(turn))
            fastest = min(fastest, time.perf_counter() - start)
            warm += 1
        calls = max(1, min(1_000_000, math.ceil(GROUP / max(fastest, 1e-9))))
        times = {"thread": [], "process": [], "wall": []}
        while len(times["wall"]) < MOST and (
            len(times["wall"]) < LEAST or time.perf_counter() - begin < seconds
        ):
            wall, process, thread = time.perf_counter_ns(), time.process_time_ns(), time.thread_time_ns()
            for x in itertools.islice(turn, calls):
                call(x)
            thread, process = time.thread_time_ns() - thread, time.process_time_ns() - process
            wall = time.perf_counter_ns() - wall
            for name, took in (("thread", thread), ("process", process), ("wall", wall)):
                times[name].append(took / 1e3 / calls)
        return times

    def time(self, seconds):
        if self.turn is None:
            raise ValueError("no rows are loaded; open a batch first")
        return {"kind": "timed", "times": self.groups(seconds)}


def one_line(error):
    text = " ".join(str(error).split())
    return (text if isinstance(error, CannotTake) else f"{type(error).__name__}: {text}")[:300]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--model", required=True, type=pathlib.Path, help="a model file")
    parser.add_argument("--rows", required=True, help="float32 rows x features, .npy; NaN is missing")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="a folder for results")
    parser.add_argument("--compiled", required=True, type=pathlib.Path, help="a folder for what is compiled once")
    parser.add_argument("--threads", type=int, default=1, help="threads of a call (default: %(default)s)")
    parser.add_argument("--check", type=int, default=512, help="rows whose results are written (default: %(default)s)")
    args = parser.parse_args()

    # Answers have standard output to themselves: libraries print there too.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(what):
        print(json.dumps(what), file=answers, flush=True)

    try:
        import numpy as np

        engine = ENGINES[args.engine](np, args.threads, args.compiled)
        rows = np.load(args.rows)
        one = np.ascontiguousarray(rows[:1])
        forget_peak()
        before = memory("VmRSS:")
        engine.take(args.model)
        x = engine.input(one)
        if hasattr(engine, "batch"):
            engine.batch(x)
        engine.call(x)
        kept, peak = grown(memory("VmRSS:"), before), grown(memory("VmHWM:"), before)
    except Exception as error:  # anything at all may be wrong with a library that is not ours
        say({"kind": "failed", "error": one_line(error)})
        sys.exit(2)
    say(
        {
            "kind": "engine",
            "version": engine.version(),
            "setting": engine.setting,
            "gives": engine.gives,
            "load_ms": engine.load_ms,
            "compile_ms": engine.compile_ms,
            "kept_mib": kept,
            "peak_mib": peak,
        }
    )
    # What is collected while calls are timed would be counted with them.
    gc.collect()
    gc.disable()
    session = Session(np, engine, rows, args.out, args.check)
    for request in sys.stdin:
        words = request.split()
        try:
            if words[:1] == ["open"]:
                say(session.open(int(words[1]), int(words[2]), float(words[3])))
            elif words[:1] == ["time"]:
                say(session.time(float(words[1])))
            elif words == ["quit"]:
                return
            else:
                sys.exit(f"{request.strip()}: not a request; open BATCH BATCHES SECONDS, time SECONDS or quit")
        except Exception as error:
            session.turn = None
            say({"kind": "failed", "error": one_line(error)})


if __name__ == "__main__":
    main()
