"""A forest as a module of torch, on the CPU, whose leaf values are trained.

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
    """A forest: rows `(n, n_features)` become margins `(n, n_outputs)`.

    `leaves` is the parameter: the values of the leaves, `(slots, 1)`, or `(slots, n_outputs)` where leaves are vectors. The
    forward pass finds the leaf that each row reaches in each tree, reading the rows where they lie, and adds up the leaves'
    values; so the gradient of a leaf is the sum of the gradients of the rows that reach it. Splits are not trained, and rows
    get no gradient. `bias` is the base score of each output, a parameter too.

    While nothing needs a gradient, `fangorn.Model.margin` predicts from the model's own leaf values, unless they have been
    changed.

    Parameters
    ----------
    model : Model or path
        A forest whose margins are sums of leaf values.
    train : bool
        Whether the leaf values are trained.
    """

    def __init__(self, model, *, train=True, threads=None):
        super().__init__()
        if not isinstance(model, Model):
            model = load(model, threads=threads)
        if not model._sums:
            raise Error("the margin is the least or the largest leaf and no sum; a forest of sums can be trained")
        self.model = model
        values = numpy.asarray(model.leaf_values, numpy.float32)
        self.leaves = torch.nn.Parameter(torch.from_numpy(values.copy()), requires_grad=train)
        bias = torch.from_numpy(numpy.asarray(model.base_score, numpy.float32))
        self.bias = torch.nn.Parameter(bias, requires_grad=train)
        outputs = model.tree_outputs
        self.register_buffer("outputs", None if outputs is None else torch.from_numpy(outputs), persistent=False)
        # The values that the compiled model has.
        self._own = (self.leaves.detach().clone(), self.bias.detach().clone())

    def forward(self, rows):
        """Return the margins of rows, `(n, n_outputs)`."""
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
        """Say what the forest is."""
        return repr(self.model).removeprefix("<fangorn.Model: ").removesuffix(">")

    def __getstate__(self):
        return self.__dict__.copy()
