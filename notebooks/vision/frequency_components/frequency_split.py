"""Images split into a low and a high part at a radius of their spectrum, and the radius' facts.

With X the two-dimensional Fourier transform of one channel x, and d(k) the distance of the
frequency k from zero, in steps of the grid:

    low = F x = the real part of the inverse transform of X · [d < r],    high = x - low

Source: Wang, Wu, Huang, Xing (2020), section 3. The paper keeps d <= r, its authors' code keeps
d < r, which is the default here; `edge=True` is the paper's. We compute no transform: a real
image is a sum of products of a real wave down and one across, and (±u, ±v) are equally far
from zero, so F keeps or drops each product whole. With the waves below r as P's, Q's columns:

    low = P ((P' x Q) · [u² + v² < r²]) Q'      # four small matrix products

A radius that passes all computes nothing: its parts are exact, not rounded. For large images
and radii a fast transform would need fewer operations. F is linear, F F = F, and <F x, y> =
<x, F y>: it is the orthogonal projection onto the low frequencies.

Legend: B images, C channels, H height, W width. Leading axes may be any, also none.
"""

import math

import torch
from torch.nn import functional as F

TINY = 1e-5  # of pixels between 0 and 1: what is smaller is the transform's rounding


def split(images_BCHW, radius, edge=False):
    """The low and the high part of each channel, both of the images' shape and dtype.

    >>> low, high = split(torch.rand(8, 3, 32, 32), 8)    # low + high is the image

    radius: a finite number >= 0, in steps of the frequency grid. With `edge`, frequencies at
    exactly this distance belong to the low part. Half precision is computed in float32.
    Raises ValueError for integer images, fewer than two axes, an empty grid, another radius.
    NaN in a channel makes that channel's parts NaN. Cost for H = W with P waves below the
    radius: 4 H P (H + P) operations a channel, and one subtraction.
    """
    low = low_pass(images_BCHW, radius, edge)
    return low, images_BCHW - low


def low_pass(images_BCHW, radius, edge=False):
    """The low part alone; see `split`."""
    _check(images_BCHW, radius)
    height, width = images_BCHW.shape[-2:]
    farthest = (height // 2) ** 2 + (width // 2) ** 2
    if _inside(farthest, radius, edge):
        return images_BCHW.clone()
    half = images_BCHW.dtype in (torch.float16, torch.bfloat16)
    x_BCHW = images_BCHW.float() if half else images_BCHW
    (down_HP, u_P), (across_WQ, v_Q) = (waves(s, radius, edge, x_BCHW) for s in (height, width))
    parts_BCPQ = down_HP.mT @ (x_BCHW @ across_WQ)
    parts_BCPQ = parts_BCPQ * _inside(u_P[:, None] ** 2 + v_Q**2, radius, edge)
    return (down_HP @ parts_BCPQ @ across_WQ.mT).to(images_BCHW.dtype)


def waves(side, radius, edge, like):
    """The waves of one axis within the radius, (side, P) as `like`, and their frequencies (P,).

    Orthonormal columns: a constant, cosines, sines but that at half of an even side, which is
    nothing. Then zeros, up to 16: of 15 columns a processor's products take twice the time.
    """
    count = min(math.floor(radius) + 1 if edge else math.ceil(radius), side // 2 + 1)
    frequency = torch.arange(count, device=like.device)
    place = torch.arange(side, device=like.device, dtype=torch.float64)
    angle = 2 * math.pi / side * place[:, None] * frequency
    odd = slice(1, (side + 1) // 2)
    found = torch.cat([angle.cos(), angle[:, odd].sin()], 1)
    found, more = (found / found.norm(dim=0)).to(like.dtype), (0, -found.shape[1] % 16)
    return F.pad(found, more), F.pad(torch.cat([frequency, frequency[odd]]), more)


def mask(height, width, radius, edge=False, device=None):
    """Which frequencies the low part keeps, (H, W) bool, frequency zero first as `fft2` has it.

    >>> mask(32, 32, 8).sum()    # of 1,024 frequencies
    tensor(193)
    """
    rows, columns = (
        (torch.arange(side, device=device) + side // 2) % side - side // 2
        for side in (height, width)
    )
    square = rows[:, None] ** 2 + columns**2
    return _inside(square, radius, edge)


def reach(height, width):
    """The distance of the farthest frequency from zero: beyond it nothing is left."""
    return math.hypot(height // 2, width // 2)


def stretch(images_BCHW):
    """Each image (C, H, W) divided by its largest value, so that the largest is one.

    The authors' code does this to the parts of its images. An image without a value above 1e-5,
    such as a high part of which only rounding is left, stays as it is.
    """
    peak = images_BCHW.amax((-3, -2, -1), keepdim=True)
    return images_BCHW / torch.where(peak > TINY, peak, torch.ones_like(peak))


def _inside(square, radius, edge):
    return square <= radius**2 if edge else square < radius**2


def _check(images, radius):
    if not images.is_floating_point():
        raise ValueError(f"images are {images.dtype}; a floating-point type is allowed")
    if images.dim() < 2 or not all(images.shape[-2:]):
        raise ValueError(f"images have the shape {tuple(images.shape)}; (…, H, W) is allowed")
    if not (math.isfinite(radius) and radius >= 0):
        raise ValueError(f"radius is {radius}; a finite number from 0 on is allowed")
