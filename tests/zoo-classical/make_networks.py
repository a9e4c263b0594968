#!/usr/bin/env python3
"""Makes ONNX files in which a network and a forest are one graph, with rows and the expected outputs.

    python3 tests/zoo-classical/make_networks.py OUT [NAME ...]

The networks have seeded random weights: one of convolutions, as `torch.onnx.export` writes them, and one of the kind of
BERT. scikit-learn fits a random forest on what ONNX Runtime's network makes of random rows, skl2onnx writes the forest,
and both graphs are joined. OUT gets a folder for each model, with `model.onnx`, `rows.npy`, `output.npy` (the labels)
and `proba.npy` (the probabilities), which are scikit-learn's.

The models in this folder were made by this script with onnx 1.23.2, onnxruntime 1.32.0, skl2onnx 1.20.0 and
scikit-learn 1.9.1. Needs these.
"""

import argparse
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, compose, helper, numpy_helper
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

ROWS, KEPT, OPSET = 400, 48, 20


class Network:
    """Nodes and weights of a graph, from its input to its features."""

    def __init__(self, random):
        self.random, self.nodes, self.weights = random, [], []

    def weight(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def normal(self, *shape):
        inner = int(np.prod(shape[1:])) if len(shape) > 1 else 1
        return self.weight((self.random.normal(size=shape) / np.sqrt(inner)).astype(np.float32))

    def add(self, kind, *inputs, **attributes):
        name = f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def model(self, kind, columns, features, width):
        """The graph up to the features."""
        self.nodes[-1].output[0] = "features"
        inputs = [helper.make_tensor_value_info("X", kind, [None, columns])]
        outputs = [helper.make_tensor_value_info("features", TensorProto.FLOAT, [None, width])]
        graph = helper.make_graph(self.nodes, "network", inputs, outputs, self.weights)
        imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", 3)]
        return helper.make_model(graph, opset_imports=imports, ir_version=9)


def images(random):
    """Two convolutions, with pooling and normalization: images of 2 x 6 x 6 as rows, to eight features."""
    n = Network(random)
    x = n.add("Reshape", "X", n.weight(np.array([-1, 2, 6, 6])))
    x = n.add("Conv", x, n.normal(6, 2, 3, 3), n.normal(6), pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    channels = [np.abs(random.normal(size=6)).astype(np.float32) + 0.5 for _ in range(4)]
    x = n.add("BatchNormalization", x, *map(n.weight, channels), epsilon=1e-3)
    x = n.add("Relu", x)
    x = n.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 1], pads=[0, 1, 0, 0])
    x = n.add("Conv", x, n.normal(8, 3, 3, 2), group=2, pads=[1, 0, 2, 1], dilations=[1, 2], strides=[1, 2])
    x = n.add("Sigmoid", x)
    x = n.add("AveragePool", x, kernel_shape=[2, 2], pads=[0, 0, 1, 1])
    pooled = n.add("Flatten", n.add("GlobalAveragePool", x))
    x = n.add("Gemm", n.add("Flatten", x), n.normal(8, 96), n.normal(8), transB=1)
    x = n.add("Add", x, pooled)
    n.add("Relu", x)
    return n.model(TensorProto.FLOAT, 72, "features", 8), random.normal(size=(ROWS, 72)).astype(np.float32)


def texts(random):
    """An embedding and a transformer layer of two heads: sentences of seven tokens, to eight features."""
    n = Network(random)
    length, width, heads, inner = 7, 8, 2, 16
    table = (2 * random.normal(size=(30, width))).astype(np.float32)
    x = n.add("Add", n.add("Gather", n.weight(table), "X"), n.normal(length, width))
    x = n.add("LayerNormalization", x, n.normal(width), n.normal(width), epsilon=1e-6)
    split = n.weight(np.array([0, length, heads, width // heads]))

    def part():
        return n.add("Reshape", n.add("Add", n.add("MatMul", x, n.normal(width, width)), n.normal(width)), split)

    query, key, value = part(), part(), part()
    query = n.add("Transpose", query, perm=[0, 2, 1, 3])
    products = n.add("MatMul", query, n.add("Transpose", key, perm=[0, 2, 3, 1]))
    shares = n.add("Softmax", n.add("Mul", products, n.weight(np.float32(0.5))))
    seen = n.add("MatMul", shares, n.add("Transpose", value, perm=[0, 2, 1, 3]))
    seen = n.add("Reshape", n.add("Transpose", seen, perm=[0, 2, 1, 3]), n.weight(np.array([0, length, width])))
    x = n.add("Add", n.add("MatMul", seen, n.normal(width, width)), x)
    x = n.add("LayerNormalization", x, n.normal(width), n.normal(width))
    y = n.add("Gelu", n.add("Add", n.add("MatMul", x, n.normal(width, inner)), n.normal(inner)))
    x = n.add("Add", n.add("MatMul", y, n.normal(inner, width)), x)
    x = n.add("Gather", x, n.weight(np.array(0)), axis=1)
    n.add("Tanh", n.add("Gemm", x, n.normal(width, width), n.normal(width)))
    return n.model(TensorProto.INT64, length, "features", width), random.randint(0, 30, (ROWS, length))


def write(folder, network, rows, random):
    features = onnxruntime.InferenceSession(network.SerializeToString()).run(None, {"X": rows})[0]
    labels = np.digitize(features[:, 0] - features[:, 1] * features[:, 2], [-0.2, 0.2])
    labels = np.where(random.uniform(size=ROWS) < 0.1, 0, labels)
    forest = make_pipeline(StandardScaler(), RandomForestClassifier(9, max_depth=5, random_state=1))
    forest.fit(features, labels)
    options = {id(forest): {"zipmap": False}}
    kinds = [("features", FloatTensorType([None, features.shape[1]]))]
    graph = to_onnx(forest, initial_types=kinds, options=options, target_opset={"": OPSET, "ai.onnx.ml": 3})
    graph.ir_version = network.ir_version
    del graph.opset_import[:]
    graph.opset_import.extend(network.opset_import)
    joined = compose.merge_models(network, graph, [("features", "features")], prefix2="forest_")
    found = onnxruntime.InferenceSession(joined.SerializeToString()).run(None, {"X": rows})
    assert (found[0] == forest.predict(features)).all()
    # A feature at a threshold goes another way if it is rounded in another way.
    gaps = [np.abs(forest[0].transform(features)[:, t.tree_.feature[t.tree_.feature >= 0]]
                   - t.tree_.threshold[t.tree_.feature >= 0]).min(1) for t in forest[1].estimators_]
    clear = np.flatnonzero(np.min(gaps, 0) > 1e-4)[:KEPT]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(joined.SerializeToString())
    np.save(folder / "rows.npy", rows[clear])
    np.save(folder / "output.npy", forest.predict(features[clear]))
    np.save(folder / "proba.npy", forest.predict_proba(features[clear]).astype(np.float32))
    print(f"{folder.name}: {len(clear)} rows, {(folder / 'model.onnx').stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("name", nargs="*", help="only these models")
    arguments = parser.parse_args()
    for name, make in {"network-images": images, "network-texts": texts}.items():
        if not arguments.name or name in arguments.name:
            random = np.random.RandomState(7)
            network, rows = make(random)
            write(arguments.out / name, network, rows, random)


if __name__ == "__main__":
    main()
