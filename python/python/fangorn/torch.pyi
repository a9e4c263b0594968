"""The types of `fangorn.torch`."""

from os import PathLike

import torch

from ._fangorn import Model, Rows

__all__ = ["Forest"]

class Forest(torch.nn.Module):
    model: Model
    leaves: torch.nn.Parameter
    bias: torch.nn.Parameter
    outputs: torch.Tensor | None
    def __init__(
        self, model: Model | str | PathLike[str], *, train: bool = True, threads: int | None = None
    ) -> None: ...
    def forward(self, rows: torch.Tensor | Rows) -> torch.Tensor: ...
    def extra_repr(self) -> str: ...
