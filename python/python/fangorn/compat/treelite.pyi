"""The types of `fangorn.compat.treelite`. What it refuses is not here, so that type checkers find it."""

from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias

from numpy.typing import NDArray
from typing_extensions import Self

from .._fangorn import Error as TreeliteError

__all__ = ["Model", "TreeliteError", "gtil"]

_Path: TypeAlias = str | PathLike[str]

class _Sparse(Protocol):
    def tocsr(self) -> Any: ...

_Rows: TypeAlias = NDArray[Any] | _Sparse

class Model:
    num_tree: int
    num_feature: int
    num_class: list[int]
    input_type: Literal["float32", "float64"]
    output_type: Literal["float32", "float64"]
    def __init__(self, data: bytes | bytearray | memoryview) -> None: ...
    @classmethod
    def deserialize(cls, filename: _Path) -> Self: ...
    @classmethod
    def deserialize_bytes(cls, model_bytes: bytes | bytearray | memoryview) -> Self: ...
    @classmethod
    def from_treelite(cls, model: Any) -> Self: ...
    def serialize_bytes(self) -> bytes: ...
    def serialize(self, filename: _Path) -> None: ...

# A module at run time. A model is a Model, or a `treelite.Model`.
class gtil:
    @staticmethod
    def predict(model: Any, data: _Rows, *, nthread: int = -1, pred_margin: bool = False) -> NDArray[Any]: ...
    @staticmethod
    def predict_leaf(model: Any, data: _Rows, *, nthread: int = -1) -> NDArray[Any]: ...
