"""Images split into a low and a high part at a radius of their spectrum, and the radius' facts.

With X the two-dimensional Fourier transform of one channel x, and d(k) the distance of the
frequency k from zero, in steps of the grid:

    low = F x = the real part of the inverse transform of X · [d < r],    high = x - low

Source: Wang, Wu, Huang, Xing (2020), section 3. The paper keeps d <= r, its authors' code keeps
d < r, which is the default here; `edge=True` is the paper's. We differ in three ways. The
transform of a real image is half redundant, so only half of it is computed. One inverse
transform is enough, since the rest is the high part. And a mask that passes all, or nothing,
transforms nothing: its parts are exact, not rounded.

F is linear. Its mask is real and equal at k and -k, so F maps real images to real images, and
F F = F and <F x, y> = <x, F y>: it is the orthogonal projection onto the low frequencies.

Legend: B images, C channels, H height, W width. Leading axes may be any, also none.
"""

import math

import torch

TINY = 1e-5  # of pixels between 0 and 1: what is smaller is the transform's rounding


def split(images_BCHW, radius, edge=False):
    """The low and the high part of each channel, both of the images' shape and dtype.

    >>> low, high = split(torch.rand(8, 3, 32, 32), 8)    # low + high is the image

    radius: a finite number >= 0, in steps of the frequency grid. With `edge`, frequencies at
    exactly this distance belong to the low part. Half precision is computed in float32.
    Raises ValueError for integer images, fewer than two axes, an empty grid, another radius.
    NaN in a channel makes that channel's parts NaN. Cost: one transform and one inverse.
    """
    low = low_pass(images_BCHW, radius, edge)
    return low, images_BCHW - low


def low_pass(images_BCHW, radius, edge=False):
    """The low part alone; see `split`."""
    _check(images_BCHW, radius)
    height, width = images_BCHW.shape[-2:]
    square, farthest = radius**2, (height // 2) ** 2 + (width // 2) ** 2
    if not images_BCHW.numel() or square > farthest or edge and square == farthest:
        return images_BCHW.clone()
    if radius == 0 and not edge:
        return torch.zeros_like(images_BCHW)
    half = images_BCHW.dtype in (torch.float16, torch.bfloat16)
    spectrum = torch.fft.rfft2(images_BCHW.float() if half else images_BCHW)
    kept = mask(height, width, radius, edge, images_BCHW.device)[:, : width // 2 + 1]
    return torch.fft.irfft2(spectrum * kept, s=(height, width)).to(images_BCHW.dtype)


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
    return square <= radius**2 if edge else square < radius**2


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


def _check(images, radius):
    if not images.is_floating_point():
        raise ValueError(f"images are {images.dtype}; a floating-point type is allowed")
    if images.dim() < 2 or not all(images.shape[-2:]):
        raise ValueError(f"images have the shape {tuple(images.shape)}; (…, H, W) is allowed")
    if not (math.isfinite(radius) and radius >= 0):
        raise ValueError(f"radius is {radius}; a finite number from 0 on is allowed")
