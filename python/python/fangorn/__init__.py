"""Predict with decision forests that XGBoost, LightGBM, CatBoost or scikit-learn trained.

Each row reaches the same leaves as in the library that trained the model, and predictions are the same within the
rounding of a sum, in a fraction of the time. Fangorn does not train.

>>> import fangorn, numpy
>>> model = fangorn.load(zoo / "churn/model.ubj")
>>> rows = numpy.load(zoo / "churn/rows.npy")
>>> model.predict(rows)[:2].round(3)
array([0.065, 0.014], dtype=float32)

In all examples, `zoo` is the folder `tests/zoo` of fangorn's repository, which holds small models and rows.

These functions make a model, which they compile for this machine's CPU:

- `load(path)` reads a model file, and `loads(data)` the bytes of one.
- `from_xgboost`, `from_lightgbm`, `from_catboost`, `from_sklearn`, `from_onnx` and `from_treelite` take a model in
  memory.

The model is a `Model`, or a `Pipeline` if it is more than one forest. Both have `predict` and `predict_class`. A Model
also has `margin`, `leaf`, `contributions` (SHAP values) and more: see `help(fangorn.Model)`, which also says which
types of rows are read. If a model, rows or an option can't be used, `fangorn.Error` is raised, a ValueError. Objects
that are no model or no rows raise a TypeError.

`fangorn.compat` has the classes of XGBoost, LightGBM, scikit-learn and treelite with their own signatures. To use it, a
program changes one import. `fangorn.torch.Forest` is a forest as a module of torch.
"""

import os as _os

from . import _fangorn
from ._fangorn import Error, Model, Pipeline, __version__
from ._load import (
    from_catboost,
    from_lightgbm,
    from_onnx,
    from_sklearn,
    from_treelite,
    from_xgboost,
    load,
    loads,
)

__all__ = [
    "Error",
    "Model",
    "Pipeline",
    "__version__",
    "from_catboost",
    "from_lightgbm",
    "from_onnx",
    "from_sklearn",
    "from_treelite",
    "from_xgboost",
    "load",
    "loads",
]

if hasattr(_os, "register_at_fork"):
    # Threads do not survive a fork, so a child starts its own.
    _os.register_at_fork(after_in_child=_fangorn._after_fork)
