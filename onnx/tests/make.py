#!/usr/bin/env python3
"""Makes the models of onnx/tests/models: a small network and trees in one ONNX file each, with rows and what ONNX Runtime
says of them. Needs numpy, onnx, onnxruntime, scikit-learn and skl2onnx.

Inputs and weights are multiples of 1/8, so that the network's sums are exact in any order: a tree is then asked the same by
every runtime.
"""
import pathlib

import numpy as np
import onnx
import onnxruntime
import skl2onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

HERE = pathlib.Path(__file__).parent / "models"
ROWS, COLUMNS, HIDDEN = 96, 5, 6


def eighths(random, *shape):
    return (random.integers(-16, 17, shape) / 8).astype(np.float32)


class Network:
    """A Gemm and a Relu before trees."""

    def __init__(self, seed):
        random = np.random.default_rng(seed)
        self.x = eighths(random, ROWS, COLUMNS)
        self.weights, self.bias = eighths(random, HIDDEN, COLUMNS), eighths(random, HIDDEN)
        self.hidden = np.maximum(self.x @ self.weights.T + self.bias, 0)
        self.random = random

    def nodes(self):
        return [
            helper.make_node("Gemm", ["X", "W", "B"], ["G"], transB=1, name="hidden"),
            helper.make_node("Relu", ["G"], ["H"], name="relu"),
        ]

    def initializers(self):
        return [numpy_helper.from_array(self.weights, "W"), numpy_helper.from_array(self.bias, "B")]


def converted(estimator, rows, **options):
    """The nodes that skl2onnx makes of an estimator, taking H."""
    model = skl2onnx.to_onnx(
        estimator, rows[:1], target_opset={"": 17, "ai.onnx.ml": 3}, options={id(estimator): options} if options else None
    )
    nodes = list(model.graph.node)
    for node in nodes:
        node.input[:] = ["H" if name == model.graph.input[0].name else name for name in node.input]
    return nodes, list(model.graph.initializer), list(model.graph.output)


def save(name, network, nodes, outputs, initializers=(), ml=3):
    """Saves a model with its rows and each output that is a tensor of numbers."""
    graph = helper.make_graph(
        network.nodes() + nodes,
        name,
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["N", COLUMNS])],
        outputs,
        network.initializers() + list(initializers),
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", ml)]
    model = helper.make_model(graph, opset_imports=opsets, producer_name="make.py", ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, HERE / f"{name}.onnx")
    np.save(HERE / f"{name}.rows.npy", network.x)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for output, value in zip(session.get_outputs(), session.run(None, {"X": network.x})):
        if isinstance(value, list):
            value = np.array([[row[key] for key in sorted(row)] for row in value], np.float32)
        if value.dtype != object:
            np.save(HERE / f"{name}.{output.name}.npy", value)


def floats(name, columns):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", columns])


def regressor():
    """A network, trees of two targets, and a network after them."""
    network = Network(1)
    target = np.stack([network.hidden.sum(1), network.x[:, 0] * network.x[:, 1]], 1)
    trees = RandomForestRegressor(5, max_depth=4, random_state=1).fit(network.hidden, target)
    nodes, initializers, outputs = converted(trees, network.hidden)
    head = numpy_helper.from_array(eighths(network.random, 2, 3), "V")
    nodes.append(helper.make_node("MatMul", [outputs[0].name, "V"], ["Y"], name="head"))
    save("regressor", network, nodes, [floats("Y", 3)], [*initializers, head])


def classifier():
    """Integers for labels that are not 0 to n, and skl2onnx's ZipMap after the probabilities."""
    network = Network(2)
    target = np.array([3, 7, -2])[(network.hidden.sum(1) * 2).astype(int) % 3]
    trees = RandomForestClassifier(6, max_depth=4, random_state=2).fit(network.hidden, target)
    nodes, initializers, outputs = converted(trees, network.hidden, zipmap=True)
    save("classifier", network, nodes, outputs, initializers)


def strings():
    """Two classes called by strings, so that the label is no tensor of numbers."""
    network = Network(3)
    target = np.array(["left", "right"])[(network.hidden[:, 0] > network.hidden[:, 1]).astype(int)]
    trees = RandomForestClassifier(4, max_depth=3, random_state=3).fit(network.hidden, target)
    nodes, initializers, outputs = converted(trees, network.hidden, zipmap=True)
    save("strings", network, nodes, outputs, initializers)


def unified():
    """TreeEnsemble of version 5, of a boosted model's trees."""
    network = Network(4)
    target = network.hidden.sum(1) - network.x[:, 2] ** 2
    boosted = GradientBoostingRegressor(n_estimators=7, max_depth=3, random_state=4).fit(network.hidden, target)
    features, splits, yes, yes_leafs, no, no_leafs, roots, weights = [], [], [], [], [], [], [], []
    for tree in boosted.estimators_[:, 0]:
        tree = tree.tree_
        inner = [n for n in range(tree.node_count) if tree.children_left[n] >= 0]
        leaves = [n for n in range(tree.node_count) if tree.children_left[n] < 0]
        node = {n: len(features) + i for i, n in enumerate(inner)}
        leaf = {n: len(weights) + i for i, n in enumerate(leaves)}
        roots.append(node[0])
        for n in inner:
            features.append(int(tree.feature[n]))
            splits.append(np.float32(tree.threshold[n]))
            for child, ids, flags in ((tree.children_left[n], yes, yes_leafs), (tree.children_right[n], no, no_leafs)):
                ids.append(node.get(child, leaf.get(child)))
                flags.append(int(child in leaf))
        weights += [np.float32(tree.value[n, 0, 0] * boosted.learning_rate) for n in leaves]
    trees = helper.make_node(
        "TreeEnsemble", ["H"], ["Y"], domain="ai.onnx.ml", name="trees", n_targets=1, aggregate_function=1, post_transform=0,
        tree_roots=roots, nodes_featureids=features, nodes_truenodeids=yes, nodes_trueleafs=yes_leafs,
        nodes_falsenodeids=no, nodes_falseleafs=no_leafs,
        nodes_splits=numpy_helper.from_array(np.array(splits, np.float32)),
        nodes_modes=numpy_helper.from_array(np.zeros(len(splits), np.uint8)),
        leaf_targetids=[0] * len(weights), leaf_weights=numpy_helper.from_array(np.array(weights, np.float32)),
    )
    save("unified", network, [trees], [floats("Y", 1)], ml=5)


def doubles():
    """Trees alone, of rows of double: refused."""
    trees = helper.make_node(
        "TreeEnsembleRegressor", ["X"], ["Y"], domain="ai.onnx.ml", n_targets=1, nodes_treeids=[0], nodes_nodeids=[0],
        nodes_featureids=[0], nodes_values=[0.0], nodes_modes=["LEAF"], nodes_truenodeids=[0], nodes_falsenodeids=[0],
        target_ids=[0], target_treeids=[0], target_nodeids=[0], target_weights=[1.0],
    )
    rows = helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["N", 1])
    graph = helper.make_graph([trees], "doubles", [rows], [floats("Y", 1)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), HERE / "doubles.onnx")


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for make in (regressor, classifier, strings, unified, doubles):
        make()
