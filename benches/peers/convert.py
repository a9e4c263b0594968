"""Models for engines that don't read the file: treelite reads it, and what it says is written in other terms.

A model is a folder with a file `model.*` and perhaps `model.joblib`, the estimator of scikit-learn's that an ONNX file
was made from.
"""

import json
import math
import pathlib
import re


class CannotTake(Exception):
    """Why an engine leaves a model out."""


def kind_of(file: pathlib.Path) -> str:
    """xgboost, lightgbm, catboost, onnx or treelite."""
    if file.suffix == ".json":
        with open(file, "rb") as f:
            head = f.read(4096)
        is_catboost = any(word in head for word in (b"features_info", b"oblivious_trees", b"model_info"))
        return "catboost" if is_catboost else "xgboost"
    kinds = {".ubj": "xgboost", ".txt": "lightgbm", ".onnx": "onnx", ".tl": "treelite"}
    if file.suffix not in kinds:
        raise CannotTake(f"{file.name}: a file of no kind that is known here")
    return kinds[file.suffix]


def estimator_of(file: pathlib.Path) -> pathlib.Path | None:
    """The estimator that the file was made from."""
    own = file.with_name("model.joblib")
    return own if own.is_file() else None


def load(file: pathlib.Path):
    """The model as treelite has it."""
    import treelite

    kind = kind_of(file)
    if kind == "xgboost":
        how = "ubjson" if file.suffix == ".ubj" else "json"
        return treelite.frontend.load_xgboost_model(str(file), format_choice=how)
    if kind == "lightgbm":
        return treelite.frontend.load_lightgbm_model(str(file))
    if kind == "treelite":
        return treelite.Model.deserialize(str(file))
    if estimator_of(file):
        import joblib

        return treelite.sklearn.import_model(joblib.load(estimator_of(file)))
    raise CannotTake(f"treelite reads no {'ONNX' if kind == 'onnx' else 'CatBoost'} file")


def dump(model) -> dict:
    # treelite writes nothing where a threshold is infinite.
    return json.loads(re.sub(r'("threshold":\s*),', r"\1null,", model.dump_as_json()))


def is_category(node: dict) -> bool:
    return node.get("node_type") == "categorical_test_node"


def categories(file: pathlib.Path) -> set[int]:
    """Columns that hold categories."""
    kind = kind_of(file)
    if kind == "onnx":
        return set()
    if kind == "catboost":
        named = json.loads(file.read_text())["features_info"].get("categorical_features", [])
        return {feature["flat_feature_index"] for feature in named}
    if kind == "xgboost":
        import xgboost

        types = xgboost.Booster(model_file=str(file)).feature_types or []
        return {column for column, type_of in enumerate(types) if type_of == "c"}
    trees = dump(load(file))["trees"]
    return {node["split_feature_id"] for tree in trees for node in tree["nodes"] if is_category(node)}


def threshold(np, node: dict) -> float:
    """A threshold of doubles as the f32 that decides all f32 rows alike."""
    exact = node["threshold"]
    near = np.float32(exact)
    # By doubles: numpy would round a float of Python's that it compares with.
    rounded = float(near)
    # x <= t holds for the same x up to the largest f32 within t, x < t from the least one beyond it.
    if node["comparison_op"] == "<=" and rounded > exact:
        near = np.nextafter(near, np.float32(-math.inf))
    elif node["comparison_op"] == "<" and rounded < exact:
        near = np.nextafter(near, np.float32(math.inf))
    return float(near)


def comparison(forest: dict) -> str:
    """The one way in which all nodes compare, `<` or `<=`."""
    found = set()
    for tree in forest["trees"]:
        for node in tree["nodes"]:
            if is_category(node):
                raise CannotTake("its splits by category are not converted")
            if "comparison_op" in node:
                if node["threshold"] is None:
                    raise CannotTake("treelite does not say which of its thresholds are infinite, and of which sign")
                found.add(node["comparison_op"])
    if not found <= {"<"} and not found <= {"<="}:
        raise CannotTake(f"its nodes compare by {' and '.join(sorted(found))}")
    return found.pop() if found else "<"


def outputs_of(forest: dict) -> int:
    if forest["num_target"] != 1:
        raise CannotTake("several targets are not converted")
    return forest["num_class"][0]


def to_onnx(np, forest: dict) -> bytes:
    """The margins as an ONNX tree ensemble."""
    from onnx import TensorProto, helper

    mode = {"<": "BRANCH_LT", "<=": "BRANCH_LEQ"}[comparison(forest)]
    outputs = outputs_of(forest)
    names = "treeids nodeids featureids values modes truenodeids falsenodeids missing_value_tracks_true"
    nodes = {k: [] for k in names.split()}
    targets = {k: [] for k in "treeids nodeids ids weights".split()}
    for index, tree in enumerate(forest["trees"]):
        for node in tree["nodes"]:
            is_leaf = "leaf_value" in node
            row = (
                index,
                node["node_id"],
                0 if is_leaf else node["split_feature_id"],
                0.0 if is_leaf else threshold(np, node),
                "LEAF" if is_leaf else mode,
                0 if is_leaf else node["left_child"],
                0 if is_leaf else node["right_child"],
                0 if is_leaf else int(node["default_left"]),
            )
            for values, value in zip(nodes.values(), row):
                values.append(value)
            if is_leaf:
                leaf = node["leaf_value"]
                first = max(0, forest["class_id"][index])
                for offset, weight in enumerate(leaf if isinstance(leaf, list) else [leaf]):
                    for values, value in zip(targets.values(), (index, node["node_id"], first + offset, weight)):
                        values.append(value)
    attributes = {f"nodes_{k}": v for k, v in nodes.items()} | {f"target_{k}": v for k, v in targets.items()}
    how = "AVERAGE" if forest["average_tree_output"] else "SUM"
    base = forest["base_scores"]
    ensemble = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["margins"], domain="ai.onnx.ml", n_targets=outputs, aggregate_function=how,
        base_values=base if any(base) else None, **attributes,
    )
    graph = helper.make_graph(
        [ensemble],
        "forest",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, forest["num_feature"]])],
        [helper.make_tensor_value_info("margins", TensorProto.FLOAT, [None, outputs])],
    )
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8).SerializeToString()


def without_maps(file: pathlib.Path) -> bytes | None:
    """An ONNX file whose probabilities are one array; none where they are no dictionary a row."""
    import onnx

    model = onnx.load(str(file))
    graph = model.graph
    maps = [node for node in graph.node if node.op_type == "ZipMap"]
    if not maps:
        return None
    for node in maps:
        graph.node.remove(node)
        for out in [out for out in graph.output if out.name == node.output[0]]:
            graph.output.remove(out)
        dims = [None, None]
        graph.output.append(onnx.helper.make_tensor_value_info(node.input[0], onnx.TensorProto.FLOAT, dims))
    return model.SerializeToString()


class Sums:
    """A model of one output as a regression, so that a converter puts nothing after its sums. Stands in for treelite's."""

    def __init__(self, forest: dict):
        self.num_tree = len(forest["trees"])
        self.text = json.dumps({**forest, "task_type": "kRegressor", "postprocessor": "identity"})

    def dump_as_json(self) -> str:
        return self.text
