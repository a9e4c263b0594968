"""Models from files, from bytes, and from the objects of other libraries."""

from os import PathLike
from typing import Any, Literal

from ._fangorn import Model, Pipeline, Rounds

_Sum = Literal["any", "tree", "exact"]
_Path = str | PathLike[str]
_Bytes = bytes | bytearray | memoryview

# These return a Model, or a Pipeline if the file is more than one forest. The type is Any, so that callers who load
# forests need no isinstance.
def load(
    path: _Path,
    *,
    schedule: str | None = None,
    threads: int | None = None,
    sum: _Sum = "any",
    iteration_range: Rounds = None,
) -> Any: ...
def loads(
    data: _Bytes | str,
    format: str | None = None,
    *,
    schedule: str | None = None,
    threads: int | None = None,
    sum: _Sum = "any",
    iteration_range: Rounds = None,
) -> Any: ...
def unpickle(data: bytes, options: dict[str, Any]) -> Model: ...
def from_xgboost(
    model: Any,
    *,
    schedule: str | None = None,
    threads: int | None = None,
    sum: _Sum = "any",
    iteration_range: Rounds = None,
) -> Model: ...
def from_lightgbm(
    model: Any,
    *,
    schedule: str | None = None,
    threads: int | None = None,
    sum: _Sum = "any",
    start_iteration: int = 0,
    num_iteration: int | None = None,
) -> Model | Pipeline: ...
def from_catboost(
    model: Any, *, pool: Any = None, schedule: str | None = None, threads: int | None = None, sum: _Sum = "any"
) -> Model: ...
def from_sklearn(
    model: Any,
    *,
    schedule: str | None = None,
    threads: int | None = None,
    sum: _Sum = "any",
    initial_types: Any = None,
) -> Model | Pipeline: ...
def from_onnx(
    model: _Path | _Bytes | Any, *, schedule: str | None = None, threads: int | None = None, sum: _Sum = "any"
) -> Model | Pipeline: ...
def from_treelite(
    model: Any, *, schedule: str | None = None, threads: int | None = None, sum: _Sum = "any"
) -> Model: ...
