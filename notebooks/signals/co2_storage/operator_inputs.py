"""What a neural operator of a storage site reads: twelve channels over depth, radius and time,
and the padding around them.

Article: "Accelerating Climate Change Mitigation with Machine Learning: The Case of Carbon
Storage" (NVIDIA Technical Blog, 2022); the channels are those of Wen et al., U-FNO (2022), our
own scaling.

Legend: B batch, Z rows, R rings, T report times.
"""

import torch
from torch.nn import functional as F

__all__ = ["CHANNELS", "encode", "padded"]

CHANNELS = (
    "radial permeability", "vertical permeability", "porosity", "perforation", "rate", "depth",
    "place in the aquifer", "irreducible water", "pore-size index", "radius", "row", "time",
)  # fmt: skip
HALVINGS = 3  # that the U path makes


def encode(cases, grid, moving=True):
    """The network's input (B, 12, Z, R, T), channels as `CHANNELS`, from a dict as
    `storage_cases.load` gives it; not `moving`: for the first time alone, (B, 12, Z, R, 1),
    all that a network with folded time reads.

    Permeabilities (mD) as logarithms, the rest scaled to about one; everything is zero
    below the aquifer, but not time and place. Tensor arithmetic alone, so that it can be
    traced; float32, on the cases' device.
    """
    k_BZR = cases["permeability"].float()
    device, inside = k_BZR.device, cases["mask"].float()
    B, Z, R = k_BZR.shape

    def case(name):
        return cases[name].float().reshape(-1, 1, 1)

    def along(values, shape):
        return (
            torch.as_tensor(values, dtype=torch.float32, device=device)
            .reshape(shape)
            .expand(B, Z, R)
        )

    depth_m = case("depth") + along(grid.depths_m, (1, Z, 1))
    logs = [(value.clamp(min=1e-6).log10() - 2) / 2 for value in (k_BZR, k_BZR * case("kv_kh"))]
    open_BZR = cases["perforation_mask"].float()[:, :, None].expand(B, Z, R)
    fields = [
        *logs,
        (cases["porosity"].float() - 0.2) * 10,
        open_BZR,
        open_BZR * case("rate") / open_BZR[:, :, :1].sum(1, keepdim=True).clamp(min=1) * 8,
        (depth_m - 1700) / 500,
        along(grid.depths_m, (1, Z, 1)) / case("thickness").clamp(min=1) * 2 - 1,
        ((case("swi") - 0.2) * 10).expand(B, Z, R),
        ((case("lam") - 0.5) * 5).expand(B, Z, R),
    ]
    places = [
        along(grid.centres_m, (1, 1, R)).clamp(min=1e-3).log10() / 2 - 1,
        along(grid.depths_m, (1, Z, 1)) / 100 - 1,
    ]
    still = torch.stack([field * inside for field in fields] + places, 1)
    times = torch.as_tensor(grid.times_days, dtype=torch.float32, device=device).log10() / 2 - 1
    times = times if moving else times[:1]
    T = len(times)
    clock = times.expand(B, 1, Z, R, T)
    return torch.cat([still[..., None].expand(B, still.shape[1], Z, R, T), clock], 1)


def padded(x_BCZRT, pad):
    """`x` with at least `pad` more cells at each axis's far end, up to a multiple of eight:
    zeros in depth, the last cell repeated in radius and time."""
    step = 2**HALVINGS
    z, r, t = (
        (size + more + step - 1) // step * step - size  # no negative numbers: tracing truncates
        for size, more in zip(x_BCZRT.shape[2:], pad, strict=True)
    )
    x = F.pad(x_BCZRT, (0, t, 0, r, 0, 0), mode="replicate")
    return F.pad(x, (0, 0, 0, 0, 0, z))
