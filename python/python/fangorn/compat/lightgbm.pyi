"""The types of `fangorn.compat.lightgbm`. What it refuses is not here, so that type checkers find it."""

from os import PathLike
from typing import Any, Mapping, TypeAlias

from numpy.typing import NDArray
from typing_extensions import Self

from .._fangorn import Error as LightGBMError
from .._fangorn import Model, Pipeline, Rows

__all__ = ["Booster", "LGBMClassifier", "LGBMModel", "LGBMRanker", "LGBMRegressor", "LightGBMError"]

_Path: TypeAlias = str | PathLike[str]

class Booster:
    params: dict[str, Any]
    best_iteration: int
    def __init__(
        self,
        params: Mapping[str, Any] | None = None,
        train_set: None = None,
        model_file: _Path | Any = None,
        model_str: str | None = None,
    ) -> None: ...
    @property
    def model(self) -> Model | Pipeline: ...
    # Contributions to sparse rows are sparse matrices, or a list of them.
    def predict(
        self,
        data: Rows,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        raw_score: bool = False,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        data_has_header: bool = False,
        validate_features: bool = False,
        **options: Any,
    ) -> Any: ...
    def num_iterations(self) -> int: ...
    def current_iteration(self) -> int: ...
    def num_trees(self) -> int: ...
    def num_model_per_iteration(self) -> int: ...
    def num_feature(self) -> int: ...
    def feature_name(self) -> list[str]: ...
    def model_to_string(
        self, num_iteration: int | None = None, start_iteration: int = 0, importance_type: str = "split"
    ) -> str: ...
    def save_model(
        self,
        filename: _Path,
        num_iteration: int | None = None,
        start_iteration: int = 0,
        importance_type: str = "split",
    ) -> Self: ...

class LGBMModel:
    def __init__(self, model: Any = None, /, **params: Any) -> None: ...
    @classmethod
    def from_model(cls, model: Any) -> Self: ...
    @property
    def booster_(self) -> Booster: ...
    @property
    def n_features_in_(self) -> int: ...
    @property
    def n_features_(self) -> int: ...
    @property
    def feature_name_(self) -> list[str]: ...
    def get_params(self, deep: bool = True) -> dict[str, Any]: ...
    def set_params(self, **params: Any) -> Self: ...
    def __sklearn_is_fitted__(self) -> bool: ...
    def predict(
        self,
        X: Rows,
        raw_score: bool = False,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        validate_features: bool = False,
        **options: Any,
    ) -> Any: ...

class LGBMRegressor(LGBMModel): ...
class LGBMRanker(LGBMModel): ...

class LGBMClassifier(LGBMModel):
    classes_: NDArray[Any] | None
    @property
    def n_classes_(self) -> int: ...
    def predict(
        self,
        X: Rows,
        raw_score: bool = False,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        validate_features: bool = False,
        **others: Any,
    ) -> Any: ...
    def predict_proba(
        self,
        X: Rows,
        raw_score: bool = False,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        validate_features: bool = False,
        **options: Any,
    ) -> Any: ...
