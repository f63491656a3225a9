"""Whether two renderers' pictures are the same but for noise: a z-test by blocks of pixels,
corrected for their number.

Each renderer makes K pictures of independent seeds. Over a block of pixels, z is the difference
of the two means over its standard error; with many blocks, the largest |z| is held against the
limit that all of them together pass by chance once in `1 / level` times (Bonferroni's
correction of Student's distribution, whose degrees of freedom are Welch's).
"""

import math

import torch
from scipy import stats


def block_means(images_KHW3, block):
    """Means (K, blocks) over squares of `block` pixels and each colour; height and width must
    be multiples of it.
    """
    count, height, width, _ = images_KHW3.shape
    if height % block or width % block:
        raise ValueError(
            f"pictures of {height} x {width} do not divide into blocks of {block}; "
            "all pixels must be compared"
        )
    cut = images_KHW3.double().reshape(count, height // block, block, width // block, block, 3)
    return cut.mean((2, 4)).reshape(count, -1)


def compare(ours_KHW3, theirs_KHW3, block=8, level=0.01):
    """{"blocks", "largest_z", "chance", "equal"}: the chance is that of so large a |z| in any
    block; equal where it is above `level`.

    A block that never varied in either must have the same mean, to a part in 100,000 (pictures
    in float32). Raises `ValueError` for fewer than 3 pictures of either, as no spread follows
    from fewer.
    """
    for name, images in (("ours", ours_KHW3), ("theirs", theirs_KHW3)):
        if len(images) < 3:
            raise ValueError(
                f"{name} has {len(images)} pictures; "
                "at least 3 of independent seeds give a standard error"
            )
    if not bool(torch.isfinite(ours_KHW3).all() and torch.isfinite(theirs_KHW3).all()):
        raise ValueError("a picture has a value that is not finite; a mean of it says nothing")
    ours, theirs = block_means(ours_KHW3, block), block_means(theirs_KHW3, block)
    errors = [ours.var(0) / len(ours), theirs.var(0) / len(theirs)]
    both = errors[0] + errors[1]
    gap = (ours.mean(0) - theirs.mean(0)).abs()
    still = both.sqrt() <= 1e-6 * ours.mean(0).abs()
    if bool((gap[still] > 1e-5 * ours.mean(0)[still].abs()).any()):
        return {"blocks": ours.shape[1], "largest_z": math.inf, "chance": 0.0, "equal": False}
    z = torch.where(still, 0.0, gap / both.sqrt().clamp_min(1e-30))
    freedom = both**2 / (
        errors[0] ** 2 / (len(ours) - 1) + errors[1] ** 2 / (len(theirs) - 1)
    ).clamp_min(1e-300)
    chances = 2 * stats.t.sf(z.numpy(), freedom.clamp_min(1).numpy())
    chance = min(1.0, float(chances.min()) * len(chances))
    return {
        "blocks": len(chances),
        "largest_z": float(z.max()),
        "chance": chance,
        "equal": chance > level,
    }
