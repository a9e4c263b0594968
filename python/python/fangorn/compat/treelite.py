"""treelite's Model and its interpreter GTIL, which predict with fangorn.

    from fangorn.compat import treelite

    model = treelite.Model.deserialize("model.tl")
    treelite.gtil.predict(model, rows)
"""

import pathlib
import struct
import types

import numpy

from .. import _load
from .._fangorn import Error as TreeliteError
from ._common import module_getattr, refuse, refuses

__all__ = ["Model", "TreeliteError", "gtil"]

__getattr__ = module_getattr("treelite", set())

# The start of a checkpoint up to the number of targets: versions, types, trees, features, task, average, targets.
_HEADER = struct.Struct("<3iBBQiBBi")
_TYPES = {2: "float32", 3: "float64"}


class Model:
    """A model of treelite. `data` is the bytes of a checkpoint."""

    def __init__(self, data):
        self._data, self._models = bytes(data), {}
        _, _, _, threshold, _, self.num_tree, self.num_feature, _, _, self._targets = _HEADER.unpack_from(self._data)
        # The classes of each target follow, after their number.
        classes = struct.unpack_from(f"<{self._targets}i", self._data, _HEADER.size + 8)
        self.num_class, self._classes = list(classes), max(classes)
        self.input_type = self.output_type = _TYPES.get(threshold, "float32")
        self._model(None)

    @classmethod
    def deserialize(cls, filename):
        """Load a checkpoint."""
        return cls(pathlib.Path(filename).read_bytes())

    @classmethod
    def deserialize_bytes(cls, model_bytes):
        """Load a checkpoint from its bytes."""
        return cls(model_bytes)

    @classmethod
    def from_treelite(cls, model):
        """Make a model from a `treelite.Model`."""
        return cls(model.serialize_bytes())

    def serialize_bytes(self):
        """Return the bytes of the checkpoint that was loaded."""
        return self._data

    def serialize(self, filename):
        """Write the bytes of the checkpoint that was loaded."""
        pathlib.Path(filename).write_bytes(self._data)

    def _model(self, threads):
        if threads not in self._models:
            self._models[threads] = _load.loads(self._data, "treelite", threads=threads)
        return self._models[threads]

    for _name in "dump_as_json get_header_accessor get_tree_accessor concatenate".split():
        locals()[_name] = refuses("treelite", "Model", _name)
    del _name


def _prepared(model, data, nthread):
    if not isinstance(model, Model):
        if not hasattr(model, "serialize_bytes"):
            raise ValueError('Argument "model" must be a Model type')
        model = Model.from_treelite(model)
    sparse = hasattr(data, "tocsr")
    if not sparse and not isinstance(data, numpy.ndarray):
        raise ValueError('Argument "data" must be either 2D NumPy array or Scipy CSR matrix')
    if len(data.shape) != 2:
        raise ValueError('Argument "data" must be a 2D array')
    lacking = model.num_feature - data.shape[1]
    if not sparse:
        data = numpy.asarray(data, model.input_type)
        if lacking > 0:
            data = numpy.pad(data, ((0, 0), (0, lacking)), constant_values=numpy.nan)
    elif lacking > 0:
        data = data.tocsr(copy=True)
        data.resize(data.shape[0], model.num_feature)
    # GTIL reads no columns beyond the model's.
    return model, model._model(nthread if nthread > 0 else None), data[:, : model.num_feature]


def _predict(model, data, *, nthread=-1, pred_margin=False):
    """Predict rows. Returns an array of `(rows, targets, classes)`, margins if `pred_margin` is true."""
    model, forest, data = _prepared(model, data, nthread)
    found = forest.margin(data) if pred_margin else forest.predict(data)
    return found.reshape(len(found), model._targets, -1).astype(model.output_type)


def _predict_leaf(model, data, *, nthread=-1):
    """Return the id of the leaf that each row reaches in each tree: `(rows, trees)`."""
    model, forest, data = _prepared(model, data, nthread)
    return forest.leaf(data).astype(model.output_type)


def _predict_per_tree(model, data, *, nthread=-1):
    """Refused: `fangorn.Model.leaf_slot` and `leaf_values` give the leaf value of each tree."""
    refuse(
        "treelite",
        "gtil.predict_per_tree",
        "look up fangorn.Model.leaf_slot in leaf_values, which are already divided if the model averages its trees",
    )


gtil = types.ModuleType("fangorn.compat.treelite.gtil", "treelite's interpreter GTIL, which predicts with fangorn.")
gtil.predict, gtil.predict_leaf, gtil.predict_per_tree = _predict, _predict_leaf, _predict_per_tree
