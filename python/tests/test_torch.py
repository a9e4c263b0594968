"""`fangorn.torch.Forest`: margins of the model, and gradients of its leaves."""

import pickle

import numpy
import pytest

import fangorn
from conftest import ZOO, close, model_file

torch = pytest.importorskip("torch")
from fangorn.torch import Forest  # noqa: E402

NAMES = "churn softprob vector-leaf lightgbm-multiclass sklearn-forest-outputs no-trees only-leaves".split()


def loaded(name):
    return fangorn.load(model_file(ZOO / name)), torch.from_numpy(numpy.load(ZOO / name / "rows.npy"))


@pytest.mark.parametrize("name", NAMES)
def test_margins(name):
    model, rows = loaded(name)
    expected = model.margin(rows).reshape(len(rows), -1)
    forest = Forest(model)
    close(forest(rows).detach(), expected, 2e-5)
    with torch.no_grad():
        assert numpy.array_equal(forest(rows), expected, equal_nan=True)
    assert forest(rows[:0]).shape == (0, model.n_outputs)


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name):
    model, rows = loaded(name)
    forest = Forest(model)
    weights = torch.linspace(-1, 2, len(rows) * model.n_outputs).reshape(len(rows), model.n_outputs)
    (forest(rows) * weights).sum().backward()
    expected = numpy.zeros(forest.leaves.shape)
    for row, slots in enumerate(model.leaf_slot(rows)):
        for tree, slot in enumerate(slots):
            if model.tree_outputs is None:
                expected[slot] += weights[row].numpy()
            else:
                expected[slot, 0] += weights[row, model.tree_outputs[tree]]
    if model.n_trees:
        close(forest.leaves.grad, expected, 1e-4)
    close(forest.bias.grad, weights.sum(dim=0), 1e-4)


def test_leaves_are_trained():
    model, rows = loaded("churn")
    forest = Forest(model)
    target = torch.linspace(-3, 3, len(rows)).unsqueeze(1)
    optimizer = torch.optim.Adam(forest.parameters(), lr=0.05)
    losses = []
    for _ in range(60):
        loss = torch.nn.functional.mse_loss(forest(rows), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.05 * losses[0]
    # What is predicted without gradients is the trained forest, and no longer the model.
    with torch.no_grad():
        close(forest(rows), target, 0.5)
        assert not numpy.allclose(forest(rows), model.margin(rows).reshape(-1, 1))
    other = Forest(model)
    other.load_state_dict(forest.state_dict())
    assert torch.equal(other(rows), forest(rows))
    assert torch.equal(pickle.loads(pickle.dumps(forest))(rows), forest(rows))


def test_inside_a_network():
    model, rows = loaded("softprob")
    network = torch.nn.Sequential(Forest(model), torch.nn.Linear(5, 2))
    network(rows).sum().backward()
    assert network[0].leaves.grad.abs().sum() > 0
    assert not Forest(model, train=False)(rows).requires_grad
    assert "multi:softprob, 50 trees" in repr(network)
    with pytest.raises(fangorn.Error, match="least or the largest leaf value"):
        Forest(model_file(ZOO / "onnx-largest"))
