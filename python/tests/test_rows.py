"""Rows of every kind give what a contiguous array of the same numbers gives."""

import gc
import subprocess
import sys
import threading
import time

import numpy
import pytest

import fangorn
from conftest import ZOO, close, model_file
from fangorn import _rows

pandas = pytest.importorskip("pandas")


def same(found, expected):
    assert numpy.array_equal(found, expected, equal_nan=True)


@pytest.mark.parametrize(
    "dtype", "float16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool longdouble >f4 >i8".split()
)
@pytest.mark.parametrize("name", ["softprob", "lightgbm-regression"])
def test_types(dtype, name):
    folder = ZOO / name
    model = fangorn.load(model_file(folder))
    random = numpy.random.default_rng(5)
    rows = random.integers(0, 2 if dtype == "bool" else 120, (67, model.n_features)).astype(dtype)
    doubles = rows.astype(numpy.float64)
    for given in (rows, numpy.asfortranarray(rows), rows[::-1], rows[:, ::-1][:, ::-1]):
        expected = doubles[::-1] if given.base is not None and given.strides[0] < 0 else doubles
        same(model.predict(given), model.predict(numpy.ascontiguousarray(expected)))
        same(model.leaf(given), model.leaf(numpy.ascontiguousarray(expected)))
    same(model.contributions(rows), model.contributions(doubles))


def test_many_rows_that_are_converted():
    model = fangorn.load(model_file(ZOO / "softprob"))
    rows = numpy.random.default_rng(1).integers(-3, 4, (150_001, 8))
    same(model.predict(rows), model.predict(rows.astype(numpy.float64)))
    same(model.leaf(rows[::-1]), model.leaf(rows.astype(numpy.float64))[::-1])


@pytest.mark.parametrize(("shape", "pieces"), [((150_001, 8), 2), ((9000, 240), 3), ((3, 1 << 21), 3), ((0, 8), 1)])
def test_conversions_are_bounded_by_values(shape, pieces):
    found = [array for _, array in _rows.sources(None, numpy.ones(shape, numpy.int64))]
    assert len(found) == pieces and sum(map(len, found)) == shape[0]
    assert max(array.size for array in found) <= max(1 << 20, shape[1])


def test_integers_that_a_double_does_not_hold(softprob):
    model, _ = softprob
    rows = numpy.zeros((3, 8), numpy.int64)
    rows[1, 2] = 2**53 + 1
    with pytest.raises(fangorn.Error, match="9007199254740993 has more digits than a float64 holds"):
        model.predict(rows)


def test_shapes(softprob):
    model, rows = softprob
    assert model.predict(rows[:0]).shape == (0, 5) and model.leaf(rows[:0]).shape == (0, 50)
    assert model.contributions(rows[:0]).shape == (0, 5, 9)
    assert model.interactions(rows[:2]).shape == (2, 5, 9, 9)
    with pytest.raises(fangorn.Error, match=r"reshape\(1, -1\)"):
        model.predict(rows[0])
    with pytest.raises(fangorn.Error, match="rows have 7 columns, the forest was trained on 8"):
        model.predict(rows[:, :7])
    for empty in (rows[:0, :7], rows[:, :0], numpy.zeros((0, 0))):
        with pytest.raises(fangorn.Error, match="the forest was trained on 8"):
            model.predict(empty)
    with pytest.raises(fangorn.Error, match="3 dimensions"):
        model.predict(rows[None])
    same(model.predict(numpy.broadcast_to(rows[:1], (9, 8))), numpy.repeat(model.predict(rows[:1]), 9, axis=0))
    same(model.predict(numpy.broadcast_to(numpy.float32(0.5), (3, 8))), model.predict(numpy.full((3, 8), 0.5, "f4")))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("rows.csv", "read the file first"),
        (None, "NoneType are not read"),
        (numpy.zeros((2, 8), complex), "no real numbers"),
        (numpy.zeros((2, 8), "datetime64[s]"), "no real numbers"),
        (numpy.array([["a"] * 8]), "no real numbers"),
        (numpy.array([["a"] * 8], object), "an object in the array is no number"),
        (numpy.ma.zeros((2, 8)), "filled"),
        (numpy.zeros(2, [("a", "f4"), ("b", "f4")]), "structured"),
        ([["a"] * 8], "does not hold only numbers"),
        ([[1, 2], [3]], "no matrix"),
    ],
    ids=str,
)
def test_what_is_no_rows_is_named(softprob, rows, message):
    with pytest.raises(TypeError, match=message):
        softprob[0].predict(rows)


def test_lists_and_objects(softprob):
    model, rows = softprob
    same(model.predict(rows.astype(float).tolist()), model.predict(rows))
    same(model.predict(rows.astype(object)), model.predict(rows))


def test_read_only_rows_and_threads(churn):
    model, rows = churn
    expected = model.predict(rows)
    rows.flags.writeable = False
    found = [None] * 8

    def run(at):
        for _ in range(50):
            found[at] = model.predict(rows)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(found))]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    for each in found:
        same(each, expected)


def test_threads_give_the_same_rows():
    path, rows = model_file(ZOO / "softprob"), numpy.random.default_rng(4).normal(size=(70_001, 8))
    one, two = (fangorn.load(path, threads=threads, sum="exact") for threads in (1, 2))
    for name in ("predict", "leaf", "predict_class"):
        same(getattr(two, name)(rows), getattr(one, name)(rows))
    same(two.contributions(rows[:500]), one.contributions(rows[:500]))


def test_other_threads_run_meanwhile(softprob):
    model = fangorn.load(model_file(ZOO / "softprob"), threads=1)
    rows, steps, stop = numpy.zeros((100_000, 8), "f4"), [0], threading.Event()

    def step():
        while not stop.is_set():
            steps[0] += 1
            # Gives the lock away.
            time.sleep(0)

    # A thread that waits for the lock asks for it after so many seconds, so here it gets it only where it is given away.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    thread = threading.Thread(target=step)
    try:
        thread.start()
        for _ in range(3):
            before = steps[0]
            model.predict(rows)
            assert steps[0] > before
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        thread.join()


def frame_of(model, rows, names=None):
    names = names or model.feature_names or [f"f{at}" for at in range(rows.shape[1])]
    frame = pandas.DataFrame({name: rows[:, at] for at, name in enumerate(names)})
    frame.insert(3, "id", numpy.arange(len(rows)))
    return frame[frame.columns[::-1]]


def test_columns_of_pandas_by_name(churn):
    model, rows = churn
    frame = frame_of(model, rows)
    for predict in (model.predict, model.margin, model.leaf, model.contributions):
        same(predict(frame), predict(rows))
    with pytest.raises(fangorn.Error, match="1 of the model's columns are missing: "):
        model.predict(frame.drop(columns=model.feature_names[2]))
    with pytest.raises(fangorn.Error, match="more than once"):
        model.predict(pandas.concat([frame, frame[[model.feature_names[2]]]], axis=1))
    same(model.predict(frame.iloc[::-1]), model.predict(rows[::-1]))
    same(model.predict(frame.iloc[:0]), model.predict(rows[:0]))


def test_types_of_pandas(softprob):
    model, rows = softprob
    numbers = numpy.round(rows[:40] * 3)
    numbers[~numpy.isfinite(numbers) | (numpy.abs(numbers) > 1e6)] = numpy.nan
    frame = frame_of(model, numbers)
    mixed = frame.copy()
    mixed["f0"] = mixed["f0"].astype("Int64")
    mixed["f1"] = mixed["f1"].astype("Float32")
    mixed["f2"] = mixed["f2"].astype("float64[pyarrow]") if "pyarrow" in sys.modules else mixed["f2"].astype("Float64")
    mixed["f3"] = mixed["f3"].astype(object).where(mixed["f3"].notna(), None)
    mixed["f4"] = mixed["f4"].astype("float16")
    mixed["f5"] = mixed["f5"].astype(pandas.SparseDtype("float64"))
    same(model.predict(mixed), model.predict(numbers))
    same(model.predict(pandas.concat([mixed] * 2000)), numpy.concatenate([model.predict(numbers)] * 2000))
    mixed["f6"] = mixed["f6"].astype(str)
    with pytest.raises(fangorn.Error, match="column `f6`: it holds texts"):
        model.predict(mixed)
    mixed["f6"] = pandas.Timestamp("2020-01-01")
    with pytest.raises(fangorn.Error, match="column `f6`: it holds values of type datetime64"):
        model.predict(mixed)


def test_truth_values_of_pandas(softprob):
    model, _ = softprob
    truths = numpy.random.default_rng(2).random((30, 8)) < 0.5
    frame = pandas.DataFrame(truths, columns=[f"f{at}" for at in range(8)])
    same(model.predict(frame), model.predict(truths.astype("f4")))
    same(model.predict(frame.astype("boolean")), model.predict(truths.astype("f4")))


def tables(frame):
    for package in ("polars", "pyarrow"):
        module = pytest.importorskip(package)
        if package == "polars":
            yield module.from_pandas(frame)
            yield module.concat([module.from_pandas(frame.iloc[:5]), module.from_pandas(frame.iloc[5:])], rechunk=False)
        else:
            yield module.Table.from_pandas(frame)
            yield module.Table.from_pandas(frame).to_batches()[0]


def test_tables_of_arrow(churn):
    model, rows = churn
    frame = frame_of(model, rows)
    for table in tables(frame):
        for predict in (model.predict, model.margin, model.leaf, model.contributions):
            same(predict(table), predict(rows))
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match="collect"):
        model.predict(polars.from_pandas(frame).lazy())
    with pytest.raises(fangorn.Error, match="columns are missing"):
        model.predict(polars.from_pandas(frame).drop(model.feature_names[1]))


CATEGORIES = {
    "category-names": {"colour": [*"red green blue violet orange".split(), "a b", 'x"y'], "code": [-5, 3, 7, 10, 1048576]},
    "lightgbm-category-names": {
        "shape": ["round", 'a "square"', "straße"],
        "hue": [hue * 30 for hue in range(12)],
    },
}


@pytest.mark.parametrize("name", sorted(CATEGORIES))
def test_categories_by_the_models_names(name):
    folder = ZOO / name
    model, rows = fangorn.load(model_file(folder)), numpy.load(folder / "rows.npy")
    names = [f"f{at}" for at in range(rows.shape[1])] if model.feature_names is None else model.feature_names
    frame, texts = {}, {}
    usable = numpy.ones(len(rows), bool)
    for at, column in enumerate(names):
        frame[column] = rows[:, at]
        if not model._has_codes(at):
            continue
        known = CATEGORIES[name][column]
        texts[column] = known
        codes = rows[:, at]
        usable &= numpy.isnan(codes) | ((codes >= 0) & (codes < len(known)) & (codes == numpy.trunc(codes)))
    assert texts and usable.sum() > 10
    frame = pandas.DataFrame(frame)[usable]
    for column, known in texts.items():
        codes = frame[column].to_numpy()
        words = [None if code != code else known[int(code)] for code in codes]
        # Categories in another order, and one that no row has.
        kinds = [*dict.fromkeys(known[::-1]), "nowhere" if isinstance(known[0], str) else 999]
        frame[column] = pandas.Categorical(words, categories=kinds)
    expected = model.margin(rows[usable])
    same(model.margin(frame), expected)
    same(model.margin(frame.astype({column: object for column in texts})), expected)
    # polars has no categories that are numbers.
    numbers = [column for column, known in texts.items() if not isinstance(known[0], str)]
    for table in tables(frame.astype({column: "Int64" for column in numbers})):
        same(model.margin(table), expected)
    # A text is no number.
    for column in numbers:
        other = frame.assign(**{column: pandas.Categorical(["0"] * len(frame))})
        for table in (other, next(iter(tables(other.astype({column: str}))))):
            with pytest.raises(fangorn.Error, match=f"`{column}`: it holds texts, .* are numbers; cast"):
                model.margin(table)


def test_categories_are_compared_with_their_types():
    model = fangorn.load(next((ZOO.parent / "raw" / "lightgbm-words").glob("model.*")))
    words = pandas.read_csv(ZOO.parent / "raw" / "lightgbm-words" / "rows.csv", dtype={"kind": str})
    known = model.margin(words)
    spaces = words.assign(kind=words["kind"] + " ")
    unseen = model.margin(words.assign(kind="unseen"))
    assert (known != unseen).any()
    same(model.margin(spaces), unseen)
    for table in tables(spaces):
        same(model.margin(table), unseen)
    # A number is no text; pandas writes a column without a value as floats.
    digits = words.assign(kind=10.0)
    empty = words.assign(kind=numpy.nan)
    for table in tables(digits):
        with pytest.raises(fangorn.Error, match="`kind`: it holds numbers, .* are texts; cast the column to texts"):
            model.margin(table)
    for table in (empty, *tables(empty)):
        same(model.margin(table), model.margin(words.assign(kind=None)))
    catboost = fangorn.load(next((ZOO.parent / "raw" / "catboost-numbers").glob("model.*")))
    numbers = pandas.read_csv(ZOO.parent / "raw" / "catboost-numbers" / "rows.csv")
    floats = numbers.assign(kind=numbers["kind"].astype(float))
    for table in (floats, *tables(floats)):
        with pytest.raises(fangorn.Error, match="`kind`: it holds floats, .*; cast the column to integers or texts"):
            catboost.predict(table)


RAW = sorted(path.parent for path in (ZOO.parent / "raw").glob("*/rows.csv"))


@pytest.mark.parametrize("folder", RAW, ids=lambda folder: folder.name)
def test_tables_as_they_were_trained_on(folder):
    model = fangorn.load(next(folder.glob("model.*")))
    kinds = {"kind": str} if folder.name.endswith("words") else {}
    frame = pandas.read_csv(folder / "rows.csv", dtype=kinds, keep_default_na=False, na_values=[""])
    expected = numpy.load(folder / "output.npy").reshape(-1)
    close(model.predict(frame).reshape(len(frame), -1)[:, -1], expected.reshape(len(frame), -1)[:, -1])
    for table in tables(frame):
        same(model.predict(table), model.predict(frame))
    as_categories = frame.assign(kind=frame["kind"].astype("category"))
    same(model.predict(as_categories), model.predict(frame))
    if folder.name in ("catboost-words", "sklearn-words"):
        for rows in (numpy.zeros((2, 2)), numpy.zeros((100, 2), "f4"), numpy.zeros((2, 2), int)):
            with pytest.raises(fangorn.Error, match="has categories with names.*hand over a DataFrame"):
                model.predict(rows)


def test_codes_where_a_model_has_no_names():
    folder = ZOO / "category-partition"
    model, rows = fangorn.load(model_file(folder)), numpy.load(folder / "rows.npy")
    column = rows[:, 0]
    usable = numpy.isnan(column) | ((column >= 0) & (column < 100) & (column == numpy.trunc(column)))
    rows = rows[usable]
    frame = pandas.DataFrame(rows, columns=["f0", "f1", "f2"])
    codes = pandas.Series(numpy.nan_to_num(frame["f0"], nan=-1).astype(int))
    frame["f0"] = pandas.Categorical.from_codes(codes, [f"c{at}" for at in range(100)])
    same(model.margin(frame), model.margin(rows))


@pytest.mark.parametrize("name", ["wide-sparse", "lightgbm-regression", "treelite-softmax", "catboost-rmse"])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_sparse_rows(name, kind):
    scipy = pytest.importorskip("scipy.sparse")
    folder = ZOO / name
    model, rows = fangorn.load(model_file(folder)), numpy.load(folder / "rows.npy")
    kept = numpy.nan_to_num(rows, nan=0, posinf=1, neginf=-1)
    kept[numpy.random.default_rng(3).random(rows.shape) < 0.5] = 0
    dense = numpy.where(kept == 0, numpy.float32(model._absent), kept)
    matrix = getattr(scipy, f"{kind}_matrix")(kept)
    for predict in (model.predict, model.margin, model.leaf):
        same(predict(matrix), predict(dense))
    if model.library == "xgboost":
        same(model.contributions(matrix), model.contributions(dense))
    array = scipy.csr_array(kept)
    same(model.predict(array), model.predict(dense))
    begin = array.indptr[numpy.argmax(numpy.diff(array.indptr) > 1)]
    for part in (array.indices, array.data):
        part[begin : begin + 2] = part[begin : begin + 2][::-1].copy()
    array.has_sorted_indices = False
    array.has_canonical_format = False
    same(model.predict(array), model.predict(dense))


def test_torch(softprob):
    torch = pytest.importorskip("torch")
    model, rows = softprob
    tensor = torch.from_numpy(rows)
    for given in (tensor, tensor.double(), tensor.T.contiguous().T, tensor.clone().requires_grad_()):
        same(model.predict(given), model.predict(rows))
    half = torch.nan_to_num(tensor).clamp(-100, 100)
    same(model.predict(half.bfloat16()), model.predict(half.bfloat16().float().numpy()))
    same(model.predict(half.half()), model.predict(half.half().float().numpy()))
    same(model.predict(half.bfloat16()[::2, :]), model.predict(half.bfloat16().float().numpy()[::2]))
    with pytest.raises(TypeError, match="rows.cpu"):
        model.predict(tensor.to("meta"))
    with pytest.raises(TypeError, match="to_dense"):
        model.predict(half.to_sparse())


def test_dlpack(softprob):
    model, rows = softprob

    class Foreign:
        def __dlpack__(self, **options):
            return rows.__dlpack__(**options)

        def __dlpack_device__(self):
            return rows.__dlpack_device__()

    same(model.predict(Foreign()), model.predict(rows))
    foreign = Foreign()
    foreign.__class__ = type("OnGpu", (Foreign,), {"__dlpack_device__": lambda self: (2, 0)})
    with pytest.raises(TypeError, match="not in the memory of the CPU"):
        model.predict(foreign)


FORK = """
import os, pickle, sys, time, numpy, fangorn
def work():
    # What runs on several threads: reading, compiling, predicting, explaining, and pipelines.
    model = pickle.loads(pickle.dumps(fangorn.load(sys.argv[1], threads=2)))
    rows = numpy.zeros((200_000, 8), numpy.float32)
    pipeline = fangorn.load(sys.argv[2], threads=2)
    few = numpy.zeros((5, pipeline.n_features))
    return model.predict(rows), model.contributions(rows[:1]), model.predict_class(rows[:9]), pipeline.predict(few)
expected = work()
child = os.fork()
if child == 0:
    found = work()
    os._exit(0 if all(map(numpy.array_equal, found, expected)) else 1)
for _ in range(600):
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        sys.exit(os.waitstatus_to_exitcode(status))
    time.sleep(0.1)
os.kill(child, 9)
sys.exit("the child hangs")
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system has no fork")
def test_a_fork_predicts():
    pipeline = ZOO.parent / "zoo-classical/pipeline-logistic/model.npz"
    command = [sys.executable, "-W", "ignore", "-c", FORK, model_file(ZOO / "softprob"), pipeline]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


MEMORY = """
import pathlib, re, sys, numpy, pandas, fangorn
def memory(name):
    return int(re.search(rf"^{name}:\\s*(\\d+) kB", pathlib.Path("/proc/self/status").read_text(), re.M)[1]) * 1024
model = fangorn.load(sys.argv[1])
rows, kinds = 1_000_000, sys.argv[2].split()
frame = pandas.DataFrame({f"f{at}": numpy.full(rows, at % 3, kinds[at % len(kinds)]) for at in range(28)})
model.predict(frame.iloc[:10])
# The maximum is from when the frame was made, and begins anew.
pathlib.Path("/proc/self/clear_refs").write_text("5")
before = memory("VmRSS")
found = model.predict(frame)
grown = memory("VmHWM") - before
assert found.nbytes == 4 * rows
assert grown < 20 << 20, (grown, frame.memory_usage(index=False).sum())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone says the maximum of memory and forgets it")
@pytest.mark.parametrize("dtypes", ["float32", "float64", "int32", "int64", "float32 float64 int32", "float32 float64 int64"])
def test_a_frame_is_not_copied(dtypes, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    rows = numpy.random.default_rng(6).random((500, 28))
    xgboost.train({}, xgboost.DMatrix(rows, rows.sum(axis=1)), 20).save_model(tmp_path / "model.ubj")
    # A process of its own: this one's memory has room that others left.
    run = subprocess.run([sys.executable, "-c", MEMORY, tmp_path / "model.ubj", dtypes], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_results_keep_their_memory(churn):
    model, rows = churn
    found = model.predict(numpy.resize(rows, (5000, 12)))
    del model
    gc.collect()
    assert found.sum() == found.copy().sum()
