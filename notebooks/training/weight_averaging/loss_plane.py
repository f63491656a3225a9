"""Look at the loss between and around trained networks: lines, planes through three of them, and curves.

A network's weights are one vector w of D numbers. Three of them span a plane with the orthonormal axes

    u = (w2 - w1) / |w2 - w1|        v = (w3 - w1) - <w3 - w1, u> u, divided by its length

and a point (x, y) of it is the network w1 + x u + y v (Garipov et al. 2018). Between two solutions the straight line
crosses a hill; a quadratic Bezier curve through a trained middle point m does not (mode connectivity, the article's third figure):

    w(t) = (1-t)^2 w1 + 2 t (1-t) m + t^2 w2

Each point is a network of its own, so its batch norms are recomputed before it is judged. Legend: D weights.
"""

from typing import NamedTuple

import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters


def weights_of(model):
    """All parameters of the model as one vector (D,), a copy."""
    return parameters_to_vector(model.parameters()).detach().clone()


@torch.no_grad()
def set_weights(model, weights_D):
    """Write the vector (D,) into the model's parameters; the model."""
    expected = sum(parameter.numel() for parameter in model.parameters())
    if weights_D.shape != (expected,):
        raise ValueError(f"the vector has shape {tuple(weights_D.shape)}; the model has {expected} weights")
    vector_to_parameters(weights_D, model.parameters())
    return model


class Plane(NamedTuple):
    """A plane in the space of weights: origin (D,), two orthonormal axes (D,)."""

    origin: torch.Tensor
    u: torch.Tensor
    v: torch.Tensor

    def at(self, x, y):
        """The weights (D,) of the point (x, y)."""
        return self.origin + x * self.u + y * self.v

    def coordinates(self, weights_D):
        """(x, y) of the weights' projection onto the plane."""
        away = weights_D - self.origin
        return (away @ self.u).item(), (away @ self.v).item()


def plane_through(first_D, second_D, third_D):
    """The `Plane` through three vectors of weights, with the first in its origin; ValueError when they lie on a line."""
    u, v = second_D - first_D, third_D - first_D
    if u.norm() == 0:
        raise ValueError("the first two networks are the same; a plane needs three that differ")
    u = u / u.norm()
    rest = v - (v @ u) * u
    if rest.norm() <= 1e-5 * v.norm():
        raise ValueError("the three networks lie on one line; a plane needs a third direction")
    return Plane(first_D, u, rest / rest.norm())


def bezier(first_D, middle_D, second_D, t):
    """The weights (D,) at share t of the quadratic curve from the first to the second; t outside [0, 1] is refused."""
    if not 0 <= t <= 1:
        raise ValueError(f"t is {t}; a curve runs from 0 to 1")
    return (1 - t) ** 2 * first_D + 2 * t * (1 - t) * middle_D + t**2 * second_D
