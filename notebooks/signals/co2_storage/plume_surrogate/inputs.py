"""What a neural operator of a storage site reads: twelve channels over depth, radius and time.

The channels are those of Wen et al., U-FNO (2022), our own scaling. Pressure is predicted in
units of rate over permeability times thickness, as radial flow has it, for all networks alike.

Legend: B batch, Z rows, R rings, T report times.
"""

import torch

CHANNELS = (
    "radial permeability", "vertical permeability", "porosity", "perforation", "rate", "depth",
    "place in the aquifer", "irreducible water", "pore-size index", "radius", "row", "time",
)  # fmt: skip
SCALES = (  # (what counts as 0, what as 1) of the first nine channels
    (2, 2), (2, 2), (0.2, 0.1), (0, 1), (0, 0.125), (1700, 500), (0.5, 0.5), (0.2, 0.1),
    (0.5, 0.2),
)  # fmt: skip
BAR_PER_FLOW = 4e5  # bar · mD · m / (Mt/yr): about the largest build-up of a median case
FLOOR = 1e-6


def encode(cases, grid, moving=True):
    """The network's input (B, 12, Z, R, T), channels as `CHANNELS`, from a dict as
    `storage_sites.load` gives it; not `moving`: for the first time alone, all that a network
    with folded time reads.

    Permeabilities (mD) as logarithms, the rest scaled to about one; everything is zero below
    the aquifer, but not time and place. Tensor arithmetic alone, on the cases' device.
    """
    k_BZR = cases["permeability"].float()
    device, inside = k_BZR.device, cases["mask"].float()
    B, Z, R = k_BZR.shape

    def case(name):
        return cases[name].float().reshape(-1, 1, 1)

    def along(values, shape):
        return torch.as_tensor(values, dtype=torch.float32, device=device).reshape(shape)

    below_m = along(grid.depths_m, (1, Z, 1))
    open_BZ1 = cases["perforation_mask"].float()[:, :, None]
    logs = torch.stack([k_BZR, k_BZR * case("kv_kh")], 1).clamp(min=1e-6).log10()
    fields = [
        cases["porosity"].float(), open_BZ1,
        open_BZ1 * (case("rate") / open_BZ1.sum(1, keepdim=True).clamp(min=1)),
        case("depth") + below_m, below_m / case("thickness").clamp(min=1),
        case("swi"), case("lam"),
    ]  # fmt: skip
    raw = torch.cat([logs, torch.stack([field.expand(B, Z, R) for field in fields], 1)], 1)
    middle, unit = (along(values, (1, -1, 1, 1)) for values in zip(*SCALES, strict=True))
    outward = along(grid.centres_m, (1, 1, R)).clamp(min=1e-3).log10() / 2 - 1
    places = torch.stack([x.expand(B, Z, R) for x in (outward, below_m / 100 - 1)], 1)
    still = torch.cat([(raw - middle) / unit * inside[:, None], places], 1)
    times = torch.as_tensor(grid.times_days, dtype=torch.float32, device=device).log10() / 2 - 1
    times = times if moving else times[:1]
    T = len(times)
    clock = times.expand(B, 1, Z, R, T)
    return torch.cat([still[..., None].expand(B, still.shape[1], Z, R, T), clock], 1)


def pressure_unit(cases, grid):
    """(N,): the build-up in bar that a network calls 1, the scale of steady radial flow."""
    k_NZR = cases["permeability"].float() * cases["mask"].float()
    conductance = k_NZR.mean((1, 2)) * (grid.rows * grid.row_m)
    return BAR_PER_FLOW * cases["rate"].float() / conductance.clamp(min=FLOOR)
