"""Look at the loss between and around trained networks: lines, planes, curves, and sharpness.

A network's weights are one vector w of D numbers. Three of them span a plane with the
orthonormal axes

    u = (w2 - w1) / |w2 - w1|        v = (w3 - w1) - <w3 - w1, u> u, divided by its length

and a point (x, y) of it is the network w1 + x u + y v (Garipov et al. 2018). Between two
solutions the straight line crosses a hill. A quadratic Bezier curve with a trained middle m
need not (mode connectivity, the article's third figure):

    w(t) = (1-t)^2 w1 + 2 t (1-t) m + t^2 w2

Each point is a network of its own, so that its batch norms are recomputed before it is judged.
Legend: D weights, B batch.
"""

import copy

import numpy as np
import torch
from averaging import batch_norms, recompute_batch_norm
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector


def weights_of(model):
    """All parameters of the model as one vector (D,), a copy."""
    return parameters_to_vector(model.parameters()).detach().clone()


@torch.no_grad()
def set_weights(model, weights_D):
    """The model, with the vector (D,) written into its parameters."""
    expected = sum(parameter.numel() for parameter in model.parameters())
    if weights_D.shape != (expected,):
        got = tuple(weights_D.shape)
        raise ValueError(f"the vector has shape {got}; the model has {expected} weights")
    for parameter, new in zip(model.parameters(), _split(model, weights_D), strict=True):
        parameter.copy_(new)
    return model


def _split(model, weights_D):
    """The vector in pieces of the parameters' shapes, still part of its graph."""
    shapes = [parameter.shape for parameter in model.parameters()]
    pieces = weights_D.split([shape.numel() for shape in shapes])
    return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def plane_through(first_D, second_D, third_D):
    """The orthonormal axes (2, D) of the plane through three vectors, the first its origin;
    ValueError for three on a line."""
    u, v = second_D - first_D, third_D - first_D
    if u.norm() == 0:
        raise ValueError("the first two networks are the same; a plane needs three that differ")
    u = u / u.norm()
    rest = v - (v @ u) * u
    if rest.norm() <= 1e-5 * v.norm():
        raise ValueError("the three networks lie on one line; a plane needs a third direction")
    return torch.stack([u, rest / rest.norm()])


def bezier(first_D, middle_D, second_D, t):
    """The weights (D,) at share t in [0, 1] of the curve from the first to the second."""
    if not 0 <= t <= 1:
        raise ValueError(f"t is {t}; a curve runs from 0 to 1")
    return (1 - t) ** 2 * first_D + 2 * t * (1 - t) * middle_D + t**2 * second_D


def bend(model, first_D, second_D, data, *, epochs, rate=0.05, batch=64, seed=0):
    """The middle (D,) of a `bezier` curve of low loss between two networks: it descends the
    loss at a random point of the curve for each batch. The model's weights stay."""
    names = [name for name, _ in model.named_parameters()]
    middle_D = ((first_D + second_D) / 2).requires_grad_()
    optimiser = torch.optim.SGD([middle_D], rate, momentum=0.9)
    drawn = torch.Generator().manual_seed(seed)
    model.train()
    for _ in range(epochs):
        order = torch.randperm(data.count, generator=drawn).to(data.labels_N.device)
        for index in order[: data.count // batch * batch].split(batch):
            x_BCHW, labels_B = data.at(index)
            t = torch.rand((), generator=drawn).item()
            pieces = _split(model, bezier(first_D, middle_D, second_D, t))
            logits = functional_call(model, dict(zip(names, pieces, strict=True)), (x_BCHW,))
            optimiser.zero_grad()
            F.cross_entropy(logits, labels_B).backward()
            optimiser.step()
    return middle_D.detach()


@torch.no_grad()
def judge(model, data):
    """(mean loss in nats, accuracy between 0 and 1) of the model on `Images`, in its mode."""
    logits = torch.cat([model(x_BCHW) for x_BCHW in data.batches()])
    loss = F.cross_entropy(logits, data.labels_N).item()
    return loss, (logits.argmax(1) == data.labels_N).float().mean().item()


def along(model, points, statistics, *parts):
    """`judge` of the model on each of the parts, at each of the points (D,): rows of numbers;
    the batch norms are recomputed there from the `Images` statistics."""
    rows = []
    for weights_D in points:
        recompute_batch_norm(set_weights(model, weights_D).eval(), statistics.batches())
        rows.append([value for part in parts for value in judge(model, part)])
    return rows


@torch.no_grad()
def sharpness(model, data, *, size=0.1, draws=10, seed=0):
    """By how many nats the mean loss on `Images` rises, with batch norms recomputed, when each
    filter or row of a matrix moves by `size` of its length in a random direction (of `draws`):
    rounding moves weights likewise, and a scale that a batch norm undoes does not count."""
    moved, drawn = copy.deepcopy(model).eval(), torch.Generator().manual_seed(seed)
    pairs = list(zip(model.parameters(), moved.parameters(), strict=True))
    losses = []
    for way in (0.0, *[size] * draws):
        for old, new in (pair for pair in pairs if pair[0].dim() > 1):
            step = torch.randn(old.shape, generator=drawn).to(old).flatten(1)
            step = step * (old.flatten(1).norm(dim=1) / step.norm(dim=1))[:, None]
            new.copy_(old + way * step.view_as(old))
        recompute_batch_norm(moved, data.batches())
        losses.append(judge(moved, data)[0])
    return sum(losses[1:]) / draws - losses[0]


@torch.no_grad()
def blend_statistics(model, first, second, share):
    """Fill the model's batch norms with (1 - share) of the first's statistics and share of the
    second's; a share below 0 counts as 0 and above 1 as 1, since variances stay positive."""
    share = min(max(share, 0.0), 1.0)
    for own, one, two in zip(*map(batch_norms, (model, first, second)), strict=True):
        for name in ("running_mean", "running_var"):
            blended = torch.lerp(getattr(one, name), getattr(two, name), share)
            getattr(own, name).copy_(blended)


def walk(first, second, shares, statistics, *parts):
    """{kind: rows of `judge` on the parts} at these shares of the way between two networks.

    The kinds of batch-norm statistics: `last`, the second network's everywhere; `average`,
    blended as the weights are; `recomputed` from the `Images` statistics at each point.
    """
    ends, lent = [weights_of(first), weights_of(second)], copy.deepcopy(second).eval()
    found = {"last": [], "average": [], "recomputed": []}
    for share in shares:
        set_weights(lent, torch.lerp(*ends, share))
        for kind, rows in found.items():
            if kind == "recomputed":
                recompute_batch_norm(lent, statistics.batches())
            else:
                blend_statistics(lent, first, second, 1.0 if kind == "last" else share)
            rows.append([value for part in parts for value in judge(lent, part)])
    return found


def columns(places, rows):
    """{name: list} of a curve: the places, and `along`'s rows of a training and a test part."""
    names = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")
    return places | {name: [row[at] for row in rows] for at, name in enumerate(names)}


def plane_rows(look, parts, weights, side=15):
    """{curve: columns} of the plane through the first three of the weights (D,): `curve_plane`
    has side x side points around all of them, `curve_spots` where they lie. look(points,
    statistics, *parts): `along` with its model."""
    axes, origin = plane_through(*weights[:3]), weights[0]
    spots = np.array([(axes @ (one - origin)).tolist() for one in weights])
    low, high = spots.min(0), spots.max(0)
    margin = 0.6 * (high - low)
    xs, ys = np.linspace(low - margin, high + margin, side).T.tolist()
    at_x, at_y = zip(*((x, y) for x in xs for y in ys), strict=True)
    points = [origin + x * axes[0] + y * axes[1] for x, y in zip(at_x, at_y, strict=True)]
    places = columns({"x": list(at_x), "y": list(at_y)}, look(points, parts[0], *parts))
    of_weights = {"x": spots[:, 0].tolist(), "y": spots[:, 1].tolist()}
    return {"curve_plane": places, "curve_spots": of_weights}
