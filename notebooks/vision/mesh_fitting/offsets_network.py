"""From two silhouettes to a car at once: a small network that has seen many cars says how far
each vertex has to move.
"""

from dataclasses import dataclass

import cameras
import hard_raster
import mesh_losses as ml
import meshes
import torch
from torch import nn

SIZE, LEVEL = 32, 3  # of the silhouettes that it reads, and of the sphere
EYES = cameras.axes(
    torch.deg2rad(torch.tensor([0.0, 60.0])), torch.deg2rad(torch.tensor([0.0, 35.0]))
)
STRETCH = {
    "length": (0.75, 1.05),
    "height": (0.7, 1.35),
    "cabin": (0.6, 1.4),
}  # of the cars that are drawn


@dataclass(frozen=True)
class Cars:
    """Cars of drawn proportions: what two cameras see of them (N, 2, S, S), their vertices (N,
    V, 3).
    """

    seen: torch.Tensor
    vertices: torch.Tensor


def draw(count: int, seed: int) -> Cars:
    """So many cars with proportions drawn evenly from `STRETCH`."""
    chance, made = torch.Generator().manual_seed(seed), []
    for shares in torch.rand(count, len(STRETCH), generator=chance):
        stretched = zip(STRETCH.items(), shares.tolist(), strict=True)
        made.append(
            meshes.car(
                LEVEL,
                **{
                    name: low + share * (high - low) for (name, (low, high)), share in stretched
                },
            )
        )
    seen = torch.stack([hard_raster.render(*mesh[:2], EYES, SIZE, fine=2)[0] for mesh in made])
    return Cars(seen, torch.stack([mesh[0] for mesh in made]))


class OffsetsNetwork(nn.Module):
    """(N, 2, 32, 32) silhouettes to (N, V, 3): the sphere's vertices, each moved."""

    def __init__(self):
        super().__init__()
        sphere, self.faces = meshes.icosphere(LEVEL)
        self.register_buffer("sphere", sphere)
        self.encoder = nn.Sequential(
            nn.Conv2d(2, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * (SIZE // 4) ** 2, 96),
            nn.ReLU(),
        )
        self.offsets = nn.Linear(96, sphere.numel())
        nn.init.zeros_(self.offsets.weight)
        nn.init.zeros_(self.offsets.bias)

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """The moved vertices; ValueError for silhouettes of another shape."""
        if seen.dim() != 4 or tuple(seen.shape[1:]) != (2, SIZE, SIZE):
            raise ValueError(
                f"silhouettes have the shape {tuple(seen.shape)}; "
                f"(N, 2, {SIZE}, {SIZE}) is allowed"
            )
        return self.sphere + self.offsets(self.encoder(seen)).view(len(seen), -1, 3)


def train(
    cars: Cars,
    steps: int = 150,
    batch: int = 32,
    rate: float = 2e-3,
    seed: int = 0,
    device="cpu",
):
    """A network trained on these cars: the mean squared distance of each vertex from its own
    place.
    """
    torch.manual_seed(seed)
    network = OffsetsNetwork().to(device)
    optimiser = torch.optim.Adam(network.parameters(), lr=rate)
    chance = torch.Generator().manual_seed(seed)
    seen, wanted = cars.seen.to(device), cars.vertices.to(device)
    for _ in range(steps):
        chosen = torch.randint(len(seen), (batch,), generator=chance).to(device)
        loss = (network(seen[chosen]) - wanted[chosen]).square().sum(-1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return network.eval()


def overlaps(
    vertices: torch.Tensor, cars: Cars, faces: torch.Tensor, eyes: torch.Tensor, size: int = 64
) -> list[float]:
    """For each car the IoU of predicted vertices (N, V, 3), seen by cameras that no network has
    looked through.
    """
    found = []
    for ours, truth in zip(vertices, cars.vertices, strict=True):
        both = [hard_raster.render(one, faces, eyes, size, fine=2)[0] for one in (ours, truth)]
        found.append(float(ml.iou(*both)))
    return found
