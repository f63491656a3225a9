import accumulation
import pytest
import torch
from torch.nn.functional import cross_entropy
from tutorial_network import classifier


def gradients(norm, parts):
    torch.manual_seed(0)
    model = classifier(16, norm=norm).double()
    x, y = torch.rand(7, 3, 16, 16).double(), torch.randint(5, (7,))
    loss = accumulation.step(
        model, zip(x.split(parts), y.split(parts), strict=True), cross_entropy
    )
    return torch.cat([p.grad.flatten() for p in model.parameters()]), loss


@pytest.mark.parametrize("norm", ["none", "group"])
@pytest.mark.parametrize("parts", [[1] * 7, [3, 4], [5, 2], [1, 6]])
def test_uneven_parts_have_the_whole_batchs_gradient(norm, parts):
    torch.testing.assert_close(
        gradients(norm, parts), gradients(norm, [7]), rtol=1e-10, atol=1e-12
    )


def test_batch_norm_breaks_the_equality():
    whole, parts = gradients("batch", [7])[0], gradients("batch", [3, 4])[0]
    assert (whole - parts).norm() > 0.01 * whole.norm()


def test_older_gradients_are_dropped():
    model = torch.nn.Linear(2, 1)
    batch = [(torch.ones(1, 2), torch.zeros(1, 1))]
    for _ in range(2):
        accumulation.step(model, batch, lambda p, y: (p - y).sum())
    assert model.weight.grad.tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("batches", [[], [(torch.ones(0, 2), torch.ones(0, 1))]])
def test_nothing_is_refused(batches):
    with pytest.raises(ValueError, match="mean over nothing"):
        accumulation.step(torch.nn.Linear(2, 1), batches, cross_entropy)
