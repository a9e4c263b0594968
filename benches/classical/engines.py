#!/usr/bin/env python3
"""One peer on one classical model, for benches/classical/run.py.

Requests and answers are those of benches/peers/worker.py: `open BATCH BATCHES SECONDS`, `time SECONDS`, `quit`. What is
timed is `predict` or `transform` of float32 rows in an array, as people call the library. Where a library has several
ways to do that, each is tried on rows of the batch size, and the fastest is timed.
"""

import logging
import pathlib
import sys
import time
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
import worker
from convert import CannotTake

TRIAL = 0.3  # seconds to try each way


class Classical(worker.Engine):
    gives = "outputs"

    def ways(self, x):
        """What can be called, by name."""
        raise NotImplementedError

    def batch(self, x):
        ways, took, failed = self.ways(x), {}, None
        for name, way in ways.items():
            try:
                took[name] = fastest(way, x) if len(ways) > 1 else 0
            except Exception as error:  # another way may do
                failed = error
        if not took:
            raise failed
        self.setting = min(took, key=took.get)
        self.way = ways[self.setting]

    def call(self, x):
        return self.way(x)


def fastest(way, x):
    """Seconds of the fastest call. The first one warms up, and counts where no second one is worth its time."""
    start = time.perf_counter()
    way(x)
    best = time.perf_counter() - start
    if best > 5 * TRIAL:
        return best
    until = time.perf_counter() + TRIAL
    while time.perf_counter() < until:
        start = time.perf_counter()
        way(x)
        best = min(best, time.perf_counter() - start)
    return best


def method(model):
    """The name of what an estimator does with rows."""
    return "predict" if hasattr(model, "predict") else "transform"


class ScikitLearn(Classical):
    versions = ["scikit-learn"]
    file = "model.joblib"

    def imports(self):
        import joblib
        import sklearn.ensemble
        import sklearn.linear_model
        import sklearn.preprocessing
        import sklearn.svm

        self.joblib = joblib

    def take(self, file):
        own = file.with_name(self.file)
        if not own.is_file():
            raise CannotTake("it has no estimator of its own for this algorithm")
        self.model = self.loads(lambda: self.joblib.load(own))

    def ways(self, x):
        name = method(self.model)
        # Only forests predict in parallel; for one record a thread may be faster than several.
        threads = {1, self.threads} if hasattr(self.model, "estimators_") else {1}
        return {f"{name}, n_jobs={t}" if len(threads) > 1 else name: self.jobs(name, t) for t in threads}

    def jobs(self, name, threads):
        call, parallel = getattr(self.model, name), hasattr(self.model, "estimators_")

        def way(x):
            if parallel:
                self.model.n_jobs = threads
            return call(x)

        return way


class Intelex(ScikitLearn):
    """oneDAL's own inference. Where an estimator falls back to scikit-learn's code, it is scikit-learn again."""

    versions = ["scikit-learn-intelex", "daal"]
    file = "intelex.joblib"

    def imports(self):
        import daal4py
        import sklearnex.ensemble
        import sklearnex.linear_model

        daal4py.daalinit(self.threads)
        super().imports()

    def ways(self, x):
        said = []
        handler = logging.Handler()
        handler.emit = lambda record: said.append(record.getMessage())
        log = logging.getLogger("sklearnex")
        level = log.level
        log.setLevel(logging.INFO)
        log.addHandler(handler)
        getattr(self.model, method(self.model))(x)
        log.removeHandler(handler)
        log.setLevel(level)
        if any("fallback" in line for line in said) or not said:
            raise CannotTake("it falls back to scikit-learn: " + "; ".join(said))
        # oneDAL has its own threads.
        return {f"oneDAL, {method(self.model)}": getattr(self.model, method(self.model))}


class Onnxruntime(Classical):
    versions = ["onnxruntime"]

    def imports(self):
        import onnxruntime

        self.onnxruntime = onnxruntime

    def take(self, file):
        options = self.onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        providers = ["CPUExecutionProvider"]
        self.session = self.loads(lambda: self.onnxruntime.InferenceSession(str(file), options, providers=providers))

    def ways(self, x):
        given, wanted = self.session.get_inputs()[0].name, self.session.get_outputs()[0].name
        # The first output of a classifier is the label.
        return {f"output {wanted}": lambda rows: self.session.run([wanted], {given: rows})[0]}


class Hummingbird(ScikitLearn):
    """Hummingbird's tensor program, called as it is, or traced by TorchScript for the batch size."""

    versions = ["hummingbird-ml", "torch"]

    def imports(self):
        super().imports()
        import hummingbird.ml
        import torch

        torch.set_num_threads(self.threads)
        torch.set_num_interop_threads(1)
        self.hummingbird = hummingbird.ml

    def take(self, file):
        super().take(file)
        self.plain = self.compiles(lambda: self.hummingbird.convert(self.model, "torch"))

    def ways(self, x):
        made = {"torch": self.plain, "torch.jit": self.hummingbird.convert(self.model, "torch.jit", x)}
        return {backend: getattr(program, method(self.model)) for backend, program in made.items()}


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    worker.ENGINES = {
        "scikit-learn": ScikitLearn,
        "intelex": Intelex,
        "onnxruntime": Onnxruntime,
        "hummingbird": Hummingbird,
    }
    worker.main()
