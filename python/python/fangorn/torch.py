"""A forest as a module of torch, on the CPU. Its leaf values can be trained.

>>> import fangorn, torch
>>> from fangorn.torch import Forest
>>> forest = Forest(fangorn.load(zoo / "churn/model.ubj"))
>>> forest(torch.zeros(3, 12)).shape
torch.Size([3, 1])
>>> forest(torch.zeros(3, 12)).sum().backward()
>>> forest.leaves.grad.shape == forest.leaves.shape
True
"""

import numpy
import torch

from ._fangorn import Error, Model
from ._load import load

__all__ = ["Forest"]


class Forest(torch.nn.Module):
    """A forest as a module: it turns rows, `(n, n_features)`, into margins, `(n, n_outputs)`.

    The forward pass finds the leaf that each row reaches in each tree, and adds up the leaf values. So the gradient of
    a leaf value is the sum of the gradients of the rows that reach the leaf. Splits are not trained, and rows get no
    gradient. The rows and the module must be in the memory of the CPU.

    If no gradient is needed and neither parameter was changed, `fangorn.Model.margin` computes the margins.

    Parameters
    ----------
    model : fangorn.Model, or the path of a model file
        A forest whose margins are sums of leaf values.
    train : bool, default True
        Whether `leaves` and `bias` need gradients.
    threads : int, optional
        As for `fangorn.load`. It has an effect if `model` is a path.

    Attributes
    ----------
    leaves : torch.nn.Parameter of float32
        The leaf values: `(leaf slots, 1)`, or `(leaf slots, n_outputs)` if a leaf adds to every output.
    bias : torch.nn.Parameter of float32
        The base score of each output: `(n_outputs,)`.
    model : fangorn.Model
        The compiled forest, with its own leaf values.

    Raises
    ------
    fangorn.Error
        The margin is the least or the largest leaf value and no sum, or the file can't be read.
    """

    def __init__(self, model, *, train=True, threads=None):
        super().__init__()
        if not isinstance(model, Model):
            model = load(model, threads=threads)
        if not model._sums:
            raise Error("model: its margin is the least or the largest leaf value and no sum; give a forest of sums")
        self.model = model
        values = numpy.asarray(model.leaf_values, numpy.float32)
        self.leaves = torch.nn.Parameter(torch.from_numpy(values.copy()), requires_grad=train)
        bias = torch.from_numpy(numpy.asarray(model.base_score, numpy.float32))
        self.bias = torch.nn.Parameter(bias, requires_grad=train)
        outputs = model.tree_outputs
        self.register_buffer("outputs", None if outputs is None else torch.from_numpy(outputs), persistent=False)
        # The values of the compiled model.
        self._own = (self.leaves.detach().clone(), self.bias.detach().clone())

    def forward(self, rows):
        """Return the margins of rows, a tensor with the dtype of `leaves`: `(n, n_outputs)`.

        The rows can be of any type that `fangorn.Model.margin` reads.
        """
        needed = torch.is_grad_enabled() and (self.leaves.requires_grad or self.bias.requires_grad)
        if not needed and self._unchanged():
            margins = torch.from_numpy(self.model.margin(rows))
            return margins.reshape(len(margins), self.model.n_outputs).to(self.leaves.dtype)
        slots = torch.from_numpy(self.model.leaf_slot(rows))
        return self._sum(slots)

    def _unchanged(self):
        leaves, bias = self._own
        return torch.equal(leaves, self.leaves.detach().float()) and torch.equal(bias, self.bias.detach().float())

    def _sum(self, slots):
        count, trees = slots.shape
        outputs = self.model.n_outputs
        if trees == 0:
            return self.bias.expand(count, outputs)
        if self.outputs is None or outputs == 1:
            return torch.nn.functional.embedding_bag(slots, self.leaves, mode="sum") + self.bias
        values = torch.nn.functional.embedding(slots, self.leaves).squeeze(-1)
        margins = torch.zeros(count, outputs, dtype=values.dtype)
        return margins.index_add(1, self.outputs, values) + self.bias

    def extra_repr(self):
        """Return one line that describes the forest."""
        return repr(self.model).removeprefix("<fangorn.Model: ").removesuffix(">")

    def __getstate__(self):
        return self.__dict__.copy()
