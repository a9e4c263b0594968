"""The types of `fangorn.compat.xgboost`. What it refuses is not here, so that type checkers find it."""

from os import PathLike
from types import EllipsisType
from typing import Any, Literal, Mapping, Sequence, TypeAlias

import numpy
from numpy.typing import NDArray
from typing_extensions import Self

from .._fangorn import Error as XGBoostError
from .._fangorn import Model, Rows

__all__ = [
    "Booster",
    "DMatrix",
    "QuantileDMatrix",
    "XGBClassifier",
    "XGBModel",
    "XGBRFClassifier",
    "XGBRFRegressor",
    "XGBRanker",
    "XGBRegressor",
    "XGBoostError",
]

_Path: TypeAlias = str | PathLike[str]
_Rows: TypeAlias = Rows | Sequence[float]
# The path of a model file, its bytes, or a Booster of either package.
_File: TypeAlias = _Path | bytes | bytearray | memoryview | Any

class DMatrix:
    data: Any
    feature_names: list[str] | None
    feature_types: Any
    def __init__(
        self,
        data: _Rows,
        label: Any = None,
        *,
        weight: Any = None,
        base_margin: Any = None,
        missing: float | None = None,
        silent: bool = False,
        feature_names: Sequence[str] | None = None,
        feature_types: Any = None,
        nthread: int | None = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_weights: Any = None,
        enable_categorical: bool = True,
        data_split_mode: Any = 0,
        **_: Any,
    ) -> None: ...
    def num_row(self) -> int: ...
    def num_col(self) -> int: ...
    def get_label(self) -> NDArray[numpy.float32]: ...
    def get_weight(self) -> NDArray[numpy.float32]: ...
    def get_base_margin(self) -> NDArray[numpy.float32]: ...
    def set_base_margin(self, margin: Any) -> None: ...
    def set_info(
        self,
        *,
        label: Any = None,
        weight: Any = None,
        base_margin: Any = None,
        feature_names: Sequence[str] | None = None,
        feature_types: Any = None,
        **_: Any,
    ) -> None: ...

QuantileDMatrix = DMatrix

class Booster:
    def __init__(
        self, params: Mapping[str, Any] | None = None, cache: Any = None, model_file: _File | None = None
    ) -> None: ...
    def load_model(self, fname: _File) -> None: ...
    def save_model(self, fname: _Path) -> None: ...
    def save_raw(self, raw_format: str = "ubj") -> bytearray: ...
    def set_param(self, params: Any, value: Any = None) -> None: ...
    @property
    def model(self) -> Model: ...
    @property
    def feature_names(self) -> list[str] | None: ...
    @property
    def best_iteration(self) -> int: ...
    def num_features(self) -> int: ...
    def num_boosted_rounds(self) -> int: ...
    def predict(
        self,
        data: DMatrix,
        *,
        output_margin: bool = False,
        pred_leaf: bool = False,
        pred_contribs: bool = False,
        approx_contribs: bool = False,
        pred_interactions: bool = False,
        validate_features: bool = True,
        training: bool = False,
        iteration_range: tuple[int, int] = (0, 0),
        strict_shape: bool = False,
    ) -> NDArray[numpy.float32]: ...
    def inplace_predict(
        self,
        data: _Rows,
        *,
        iteration_range: tuple[int, int] = (0, 0),
        predict_type: Literal["value", "margin"] = "value",
        missing: float = ...,
        validate_features: bool = True,
        base_margin: Any = None,
        strict_shape: bool = False,
    ) -> NDArray[numpy.float32]: ...
    def __getitem__(self, rounds: int | numpy.integer[Any] | slice | EllipsisType) -> Booster: ...
    def __copy__(self) -> Booster: ...
    def __deepcopy__(self, _: Any) -> Booster: ...
    def copy(self) -> Booster: ...

class XGBModel:
    missing: float
    n_jobs: int | None
    def __init__(
        self, model: Any = None, /, *, missing: float = ..., n_jobs: int | None = None, **params: Any
    ) -> None: ...
    @classmethod
    def from_model(cls, model: Any) -> Self: ...
    def load_model(self, fname: _File) -> None: ...
    def save_model(self, fname: _Path) -> None: ...
    def get_booster(self) -> Booster: ...
    def get_params(self, deep: bool = True) -> dict[str, Any]: ...
    def set_params(self, **params: Any) -> Self: ...
    @property
    def objective(self) -> str: ...
    @property
    def best_iteration(self) -> int: ...
    @property
    def n_features_in_(self) -> int: ...
    @property
    def feature_names_in_(self) -> NDArray[Any]: ...
    def get_num_boosting_rounds(self) -> int: ...
    def __sklearn_is_fitted__(self) -> bool: ...
    def predict(
        self,
        X: _Rows,
        *,
        output_margin: bool = False,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: tuple[int, int] | None = None,
    ) -> NDArray[Any]: ...
    def apply(self, X: _Rows, iteration_range: tuple[int, int] | None = None) -> NDArray[numpy.float32]: ...

class XGBRegressor(XGBModel): ...
class XGBRFRegressor(XGBRegressor): ...
class XGBRanker(XGBModel): ...

class XGBClassifier(XGBModel):
    @property
    def n_classes_(self) -> int: ...
    @property
    def classes_(self) -> NDArray[Any]: ...
    def predict_proba(
        self,
        X: _Rows,
        validate_features: bool = True,
        base_margin: Any = None,
        iteration_range: tuple[int, int] | None = None,
    ) -> NDArray[numpy.float32]: ...

class XGBRFClassifier(XGBClassifier): ...
