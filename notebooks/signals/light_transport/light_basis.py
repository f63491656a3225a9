"""The picture under a lamp anywhere in the ceiling, as a weighted sum of pictures made once:
light is linear in its sources.

A lamp is cut into square tiles of one radiance. The picture of each tile alone is made once, by
number of scatterings; the picture under a lamp is the sum of its tiles' pictures, each times
the tile's share that is lit and its colour. That is exact for what is scattered. A lamp that
covers a tile in part is exact where tiles are small, and only there.

The lamp reflects as the ceiling does that it covers: a black one would darken the room where it
hangs, and the picture of a moved lamp would be no sum of the others.

Shapes: `T` tiles, `O` = depth + 1 numbers of scatterings, `H` and `W` pixels, 3 colours.
"""

import path_tracing
import rooms
import torch


def tiles(across=6, low=0.14, high=0.86):
    """(x, z) of the middles (T, 2) of `across` x `across` tiles of the ceiling, and their
    width.
    """
    path_tracing.check_count("across", across, 1)
    if not 0 <= low < high <= 1:
        raise ValueError(
            f"low is {low}, high is {high}; 0 <= low < high <= 1 keeps tiles in the ceiling"
        )
    width = (high - low) / across
    middle = low + width * (torch.arange(across, dtype=torch.float64) + 0.5)
    return torch.cartesian_prod(middle, middle), width


def basis(samples, depth, size=32, across=6, seed=0, device=None):
    """Pictures (T, O, H, W, 3) of the box under each tile alone at radiance 1; lamps seen
    straight are in none of them.

    Cost: T pictures. The lamp seen straight hides or shows itself, so it is drawn apart, not
    summed.
    """
    middles, width = tiles(across)
    pictures = []
    for number, (x, z) in enumerate(middles.tolist()):
        lamp = rooms.lamp((x, z), width, (1.0, 1.0, 1.0), diffuse=rooms.WHITE)
        scene = rooms.cornell_box(size, size, [lamp]).to(device)
        orders = path_tracing.render_orders(
            scene, samples, depth, path_tracing.Options("lamp"), seed + number
        )
        orders[0] = 0
        pictures.append(orders)
    return torch.stack(pictures)


def covered(centre, size, across=6):
    """The share (T,) of each tile that a square lamp of width `size` at `centre` (x, z) is
    over.
    """
    middles, width = tiles(across)
    gap = (middles - torch.tensor(centre, dtype=torch.float64)).abs()
    overlap = ((size + width) / 2 - gap).clamp(min=0, max=min(size, width))
    return overlap.prod(1) / width**2


def picture(basis_TOHW3, share_T, radiance, scatterings):
    """The picture (H, W, 3) of light scattered as often as `scatterings` lists, under tiles lit
    by `share` at `radiance` (RGB).
    """
    orders = basis_TOHW3.shape[1]
    if not all(0 <= number < orders for number in scatterings):
        raise ValueError(
            f"scatterings are {list(scatterings)}; the basis holds 0 to {orders - 1}"
        )
    chosen = basis_TOHW3[:, list(scatterings)].sum(1)
    weights = share_T.to(chosen.dtype)
    return torch.einsum("t,thwc->hwc", weights, chosen) * chosen.new_tensor(radiance)


def balance_error(direct, bounces, share):
    """(picture, energy over the true one's) where direct light counts 2 (1 - share) times and
    indirect light 2 share times.

    `share` 0.5 is the true picture, its ratio 1; any other has light that nothing sent, or
    lacks some that was.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share!r}; 0 is direct light alone, 1 indirect light alone")
    indirect = sum(bounces, torch.zeros_like(direct))
    mixed = 2 * (1 - share) * direct + 2 * share * indirect
    return mixed, float(mixed.sum() / (direct + indirect).sum())


def tone(radiance_HW3, exposure=1.0):
    """Values in 0 to 1 to be shown, of the whole sum: x / (1 + x), then the screen's gamma of
    2.2. Not linear, so it comes last.
    """
    scaled = (radiance_HW3 * exposure).clamp_min(0)
    return (scaled / (1 + scaled)) ** (1 / 2.2)
