"""Random models of the other libraries as ONNX files, and what ONNX Runtime says of rows."""

import functools
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import cat
import check
import lgb
import skl
import trees as forest
import xgb

NAME = "onnx"
ML = "ai.onnx.ml"
onnxruntime.set_default_logger_severity(4)
# What may follow the trees and leaves their sums as they are.
AFTER = {
    "ZipMap",
    "Cast",
    "Identity",
    "Normalizer",
    "ArrayFeatureExtractor",
    "ArgMax",
    "Reshape",
    "LabelEncoder",
    "Squeeze",
}


class Model:
    producer = NAME
    same_bits = False  # ONNX Runtime adds the base score last
    sums_in = np.float32

    def __init__(self, made, inner, kind, file):
        self.made, self.table, self.kind, self.note, self.file = made, inner.table, kind, inner.note, file
        file.write_bytes(made.SerializeToString())
        self.wide = made.graph.input[0].type.tensor_type.elem_type == TensorProto.DOUBLE
        self.session, self.numbers = session(made), session(leaf_numbers(made))
        self.sums = session(cut_behind_trees(made))
        self.grown = None

    def trees(self):
        if self.grown is None:
            self.grown = list(trees_of(fields(operator(self.made))))
        return self.grown

    def given(self, rows):
        return rows.astype(np.float64 if self.wide else np.float32)

    def leaves(self, rows):
        found = run(self.numbers, self.given(rows))[0]
        return np.asarray(found).reshape(len(rows), -1).astype(np.int32)

    def refused(self, rows):
        codes = rows[:, self.table.categories]
        # It makes sets of chains of questions, and reads a missing or broken number in them as no standard says.
        return {"a category that is no whole number": (codes != np.trunc(codes)).any(axis=1)}

    def said(self, rows):
        with np.errstate(over="ignore"):
            given = self.given(rows)
        value = label = margin = None
        for output in run(self.session, given):
            if isinstance(output, list):
                output = np.array([list(row.values()) for row in output], np.float32)
            if output.dtype.kind == "f":
                value = output.reshape(len(rows), -1)
            else:
                label = output.reshape(len(rows), -1)
        if self.sums is not None:
            margin = np.asarray(run(self.sums, given)[-1]).reshape(len(rows), -1)
            node = operator(self.made)
            if (
                node.op_type == "TreeEnsembleClassifier"
                and margin.shape[1] == 2
                and set(fields(node)["class_ids"]) != {1}
            ):
                margin = margin[:, 1:]
        leaves = self.leaves(given)
        return {"margin": margin, "value": value, "class": label, "leaves": leaves}

    def tied(self, said):
        return check.gap(said["value"], 0.5) <= 1e-5


def session(made):
    if made is None:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(session, rows):
    return session.run(None, {session.get_inputs()[0].name: rows})


def operator(made):
    return next(n for n in made.graph.node if n.op_type.startswith("TreeEnsemble"))


def fields(node):
    found = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    for name in [n for n in found if n.endswith("_as_tensor")]:
        found[name.removesuffix("_as_tensor")] = numpy_helper.to_array(found.pop(name)).tolist()
    return found


def copy_up_to_trees(made):
    cut = onnx.ModelProto()
    cut.CopyFrom(made)
    node = operator(cut)
    end = [n.output[0] for n in cut.graph.node].index(node.output[0]) + 1
    kept = list(cut.graph.node)[:end]
    del cut.graph.node[:], cut.graph.output[:]
    cut.graph.node.extend(kept)
    return cut


def cut_behind_trees(made):
    """The graph whose output is the trees' sums; none where something is added to them afterwards."""
    names = [n.op_type for n in made.graph.node]
    if set(names[names.index(operator(made).op_type) + 1 :]) - AFTER:
        return None
    cut = copy_up_to_trees(made)
    node = operator(cut)
    for attribute in [a for a in node.attribute if a.name == "post_transform"]:
        node.attribute.remove(attribute)
    value = node.output[int(node.op_type == "TreeEnsembleClassifier")]
    cut.graph.output.append(helper.make_tensor_value_info(value, TensorProto.FLOAT, None))
    return cut


def leaf_numbers(made):
    """A graph that says which leaf a row ends in: each tree has a target of its own, and a leaf weighs its number."""
    cut = copy_up_to_trees(made)
    old = operator(cut)
    found = fields(old)
    prefix = "class" if old.op_type == "TreeEnsembleClassifier" else "target"
    ids = list(dict.fromkeys(found["nodes_treeids"]))
    index_of = {tree: i for i, tree in enumerate(ids)}
    ends = sorted(
        set(zip(found[f"{prefix}_treeids"], found[f"{prefix}_nodeids"])), key=lambda end: (index_of[end[0]], end[1])
    )
    double = any(a.name == "nodes_values_as_tensor" for a in old.attribute)
    values = np.array(found["nodes_values"], np.float64 if double else np.float32)
    weights = np.array([node for _, node in ends], values.dtype)
    if double:
        numbers = {
            "nodes_values_as_tensor": numpy_helper.from_array(values, "v"),
            "target_weights_as_tensor": numpy_helper.from_array(weights, "w"),
        }
    else:
        numbers = {"nodes_values": values.tolist(), "target_weights": weights.tolist()}
    kept = ["treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true"]
    new = helper.make_node(
        "TreeEnsembleRegressor", old.input, ["leaves"], domain=ML, n_targets=len(ids),
        target_treeids=[tree for tree, _ in ends], target_nodeids=[node for _, node in ends],
        target_ids=[index_of[tree] for tree, _ in ends], **numbers,
        **{f"nodes_{n}": found[f"nodes_{n}"] for n in kept if found.get(f"nodes_{n}")},
    )  # fmt: skip
    index = list(cut.graph.node).index(old)
    cut.graph.node.remove(old)
    cut.graph.node.insert(index, new)
    cut.graph.output.append(helper.make_tensor_value_info("leaves", TensorProto.FLOAT, None))
    return cut


def trees_of(found):
    by_tree = {}
    for i, tree in enumerate(found["nodes_treeids"]):
        by_tree.setdefault(tree, []).append(i)
    for entries in by_tree.values():
        node_of = {found["nodes_nodeids"][i]: n for n, i in enumerate(entries)}
        modes = [found["nodes_modes"][i] for i in entries]
        child = lambda i, n, side: -1 if modes[n] == b"LEAF" else node_of[found[f"nodes_{side}nodeids"][i]]
        left, right = [[child(i, n, side) for n, i in enumerate(entries)] for side in ("true", "false")]
        column = [-1 if modes[n] == b"LEAF" else found["nodes_featureids"][i] for n, i in enumerate(entries)]
        yield forest.Tree(column, [found["nodes_values"][i] for i in entries], forest.parents(left, right), node_of)


# ---------------------------------------------------------------- conversion


@functools.cache
def whole_numbers():
    """skl2onnx gives truth values of numpy where onnx wants integers."""
    make_attribute = helper.make_attribute

    def patched(key, value, *args, **kwargs):
        if isinstance(value, list) and any(isinstance(v, (bool, np.bool_, np.integer)) for v in value):
            value = [int(v) for v in value]
        return make_attribute(key, value, *args, **kwargs)

    helper.make_attribute = patched


def from_sklearn(rng, folder):
    import skl2onnx

    inner = skl.make(rng, folder, plain=True)
    kind = np.float64 if rng.uniform() < 0.25 else np.float32
    options = {"zipmap": False} if skl.is_classifier(inner.estimator) else None
    made = skl2onnx.to_onnx(
        inner.estimator, inner.table.x[:1].astype(kind), options={id(inner.estimator): options} if options else None
    )
    if kind is np.float64:  # skl2onnx says that the outputs are doubles, and the operator's are floats
        for output in made.graph.output:
            if output.type.tensor_type.elem_type == TensorProto.DOUBLE and output.name in operator(made).output:
                output.type.tensor_type.elem_type = TensorProto.FLOAT
    return Model(
        made,
        inner,
        f"skl2onnx {type(inner.estimator).__name__}" + (", double" if kind is np.float64 else ""),
        folder / "model.onnx",
    )


def tools(convert, inner, booster, name, folder, **more):
    from onnxmltools.convert.common.data_types import FloatTensorType

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = convert(booster, initial_types=[("X", FloatTensorType([None, inner.table.x.shape[1]]))], **more)
    return Model(made, inner, name, folder / "model.onnx")


def from_xgboost(rng, folder):
    import xgboost
    from onnxmltools import convert_xgboost

    inner = xgb.make(rng, folder, plain=True)
    kind = xgboost.XGBClassifier if inner.labels in ("flag", "classes") else xgboost.XGBRegressor
    wrapped = kind()
    wrapped.load_model(str(inner.file))
    return tools(convert_xgboost, inner, wrapped, "onnxmltools XGBoost", folder)


def from_lightgbm(rng, folder):
    from onnxmltools import convert_lightgbm

    inner = lgb.make(rng, folder, plain=True, few_codes=rng.uniform() < 0.3)
    name = "onnxmltools LightGBM" + (", categories" if inner.table.categories else "")
    return tools(convert_lightgbm, inner, inner.booster, name, folder, zipmap=False)


def from_catboost(rng, folder):
    inner = cat.make(rng, folder, plain=True)
    inner.trained.save_model(str(folder / "made.onnx"), format="onnx")
    return Model(onnx.load(folder / "made.onnx"), inner, "CatBoost", folder / "model.onnx")


def make(rng, folder, plain=False):
    whole_numbers()
    how = [from_sklearn, from_sklearn, from_xgboost, from_lightgbm, from_catboost][rng.integers(5)]
    return how(rng, folder)
