"""Predict with trained decision forests: the same leaves as XGBoost, LightGBM, CatBoost or scikit-learn, in a fraction of
the time.

>>> import fangorn, numpy
>>> model = fangorn.load(zoo / "churn/model.ubj")
>>> rows = numpy.load(zoo / "churn/rows.npy")
>>> model.predict(rows)[:2].round(3)
array([0.065, 0.014], dtype=float32)

| function | takes |
|---|---|
| `load`, `loads` | a model file, or its bytes |
| `from_xgboost`, `from_lightgbm`, `from_catboost`, `from_sklearn`, `from_onnx`, `from_treelite` | a model in memory |

`fangorn.compat` has the classes of these libraries with their own signatures, so that a program changes one import.
`fangorn.torch` has a forest as a module of torch.
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
