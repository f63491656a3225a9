"""Sliding windows over a volume: where they lie, what each counts, and their sum.

MLPerf's 3D-UNet benchmark cuts a scan into windows of 128³ that overlap by half, multiplies
each window's class scores by a Gaussian, adds them up, divides by the sum of the Gaussians, and
takes the class with the largest score. With g a Gaussian of sigma = window / 8, the weight of a
voxel is

    w(z, y, x) = (g(z) g(y) g(x))^(1/3), its largest value scaled to 1.

A cube root of a product is the product of cube roots, so w is separable, and so is the sum of
the windows' weights on a regular grid. The *normalised* weight of a window is therefore a
product of three vectors, one for each axis; which vector depends on whether the window is the
first, a middle one, the last or the only one along its axis. NVIDIA's submission stores 27
patches of 128³ instead (first, middle, last in three axes), which leaves out the only one.

Where we differ: the rule of cropping and padding is stated for steps that do not divide the
window, too, so that the windows always cover everything; for those of the benchmark it is the
same.

D, H, W: depth, height and width of the volume; C: classes; S: side of a window.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch

TARGET_MM = (1.6, 1.2, 1.2)  # the voxels that the benchmark resamples to, depth first
KINDS = ("first", "middle", "last", "single")
CLASSES = 3  # background, kidney, tumour
AT_ONCE = (
    16  # slices whose largest class is taken together: what it needs meanwhile stays small
)


def step_of(window: int, overlap: float) -> int:
    """Voxels from a window to the next: 64 of 128 at 0.5; ValueError outside 0 <= overlap <
    1."""
    if window < 1 or not 0 <= overlap < 1:
        raise ValueError(f"window {window}, overlap {overlap}: at least 1, and 0 to below 1")
    return max(1, math.floor(window * (1 - overlap) + 1e-9))


def resampled_shape(shape, spacing, target=TARGET_MM) -> tuple[int, ...]:
    """The shape after resampling from `spacing` to `target`, both in mm, depth first."""
    if len(shape) != 3 or len(spacing) != 3 or min(shape) < 1:
        raise ValueError(f"shape {shape} and spacing {spacing}: three numbers each, sizes >= 1")
    if not all(0 < one < math.inf for one in (*spacing, *target)):
        raise ValueError(
            f"spacing {spacing}, target {target}: lengths in mm, above 0 and finite"
        )
    sizes = zip(shape, spacing, target, strict=True)
    return tuple(max(1, round(size * (old / new))) for size, old, new in sizes)


def fitted(size: int, window: int, step: int) -> tuple[int, int, int]:
    """(padded at the edge, cut away, padded with air): voxels of one axis, in this order.

    An axis shorter than the window is padded by repeating its edge. What is then left over
    beside whole steps is cut away where it is less than half a step, else padded to a whole
    one.
    """
    edge = max(0, window - size)
    over = (size + edge - window) % step
    cut = over if over < step // 2 else 0
    return edge, cut, (step - over) % step if not cut else 0


def grid(shape, spacing, window=128, overlap=0.5, target=TARGET_MM):
    """(padded shape, starts): the shape that the network sees, and each window's first voxel.

    `grid((29, 512, 512), (5.0, 0.977, 0.977))[0]` is (128, 448, 448): resampled, padded at the
    edge to a window, and cut or padded to whole steps. `shape` as stored, depth first;
    `spacing` in mm. The starts are triples, the last axis fastest. ValueError for impossible
    sizes.
    """
    step = step_of(window, overlap)
    padded = []
    for size in resampled_shape(shape, spacing, target):
        edge, cut, air = fitted(size, window, step)
        padded.append(size + edge - cut + air)
    return tuple(padded), starts_of(padded, window, step)


def starts_of(shape, window: int, step: int) -> list[tuple[int, int, int]]:
    """The first voxel of each window on a shape of whole steps; ValueError for another
    shape."""
    if any(size < window or (size - window) % step for size in shape):
        raise ValueError(
            f"shape {tuple(shape)}: window {window} and whole steps of {step} needed"
        )
    axes = [range(0, size - window + 1, step) for size in shape]
    return [(z, y, x) for z in axes[0] for y in axes[1] for x in axes[2]]


def gaussian(window: int, root: float = 3.0) -> np.ndarray:
    """(S,) float64: the root of a Gaussian with sigma = S / 8, its largest value 1.

    `root=3` is the benchmark's cube root, `root=1` the plain Gaussian, `root=math.inf` a
    constant.
    """
    at = (np.arange(window) - (window - 1) / 2) / (window / 8)
    one = np.exp(-0.5 * at**2 / root)
    return one / one.max()


def axis_weights(count: int, window: int, step: int, root: float = 3.0) -> np.ndarray:
    """(count, S): the normalised weight of each window along one axis; they add up to one at
    every voxel. Cost: count * S.
    """
    one = gaussian(window, root)
    total = np.zeros((count - 1) * step + window)
    for at in range(count):
        total[at * step : at * step + window] += one
    return np.stack([one / total[at * step : at * step + window] for at in range(count)])


def weights_1d(kind: str, window: int = 128, root: float = 3.0) -> np.ndarray:
    """(S,) float64: the normalised weight of a 'first', 'middle', 'last' or 'single' window
    along one axis, at an overlap of one half. 'single' is one everywhere: nothing else speaks
    there.
    """
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r}: allowed are {KINDS}")
    if window < 2 or window % 2:
        raise ValueError(f"window {window}: even sizes alone overlap by exactly one half")
    if kind == "single":
        return axis_weights(1, window, step_of(window, 0.5), root)[0]
    return axis_weights(3, window, step_of(window, 0.5), root)[KINDS.index(kind)]


def patches(window: int = 128, kinds=KINDS[:3], root: float = 3.0) -> dict[tuple, np.ndarray]:
    """{(kind, kind, kind): (S, S, S)}: precomputed patches of weights; 27 for three kinds, the
    article's, and 64 for four.
    """
    lines = {kind: weights_1d(kind, window, root).astype(np.float32) for kind in kinds}
    return {
        (a, b, c): lines[a][:, None, None] * lines[b][:, None] * lines[c]
        for a in kinds
        for b in kinds
        for c in kinds
    }


def kind_of(start: int, size: int, window: int) -> str:
    """Which of the four kinds a window is along an axis of `size`."""
    if size == window:
        return "single"
    return "first" if start == 0 else "last" if start + window == size else "middle"


def segment_reference(volume_DHW, network, window: int, overlap: float = 0.5) -> np.ndarray:
    """(D, H, W) uint8: the benchmark's way, step by step, with a whole map of weights,
    float64."""
    one = gaussian(window)
    patch = one[:, None, None] * one[:, None] * one
    scores_CDHW = np.zeros((CLASSES, *volume_DHW.shape))
    norm_DHW = np.zeros(volume_DHW.shape)
    for z, y, x in starts_of(volume_DHW.shape, window, step_of(window, overlap)):
        here = np.s_[z : z + window, y : y + window, x : x + window]
        cut = torch.as_tensor(volume_DHW[here])[None, None]
        scores_CDHW[(slice(None), *here)] += network(cut)[0].double().numpy() * patch
        norm_DHW[here] += patch
    return (scores_CDHW / norm_DHW).argmax(0).astype(np.uint8)


def weight_tables(shape, window: int, step: int, root: float, device) -> list[torch.Tensor]:
    """For each axis (count, S) float32 on the device: all that has to be loaded before the
    clock."""
    counts = [(size - window) // step + 1 for size in shape]
    tables = [axis_weights(count, window, step, root) for count in counts]
    return [torch.as_tensor(one, dtype=torch.float32, device=device) for one in tables]


@torch.no_grad()
def slabs(
    volume_DHW: torch.Tensor,
    network: Callable,
    window: int,
    overlap: float = 0.5,
    root: float = 3.0,
    batch: int = 4,
) -> Iterator[tuple[int, torch.Tensor]]:
    """Yields (first depth, (C, n, H, W) scores) of slabs that no later window reaches, in
    order.

    Windows go layer by layer along the depth. A row of windows is summed along its width, the
    row along the height, the layer along the depth: each score is multiplied once by a vector
    of S numbers, not by a patch. Only a layer of S voxels in depth is ever held: C * S * H * W
    scores instead of C * D * H * W. Scores carry the normalised weights, so nothing is divided.
    The next layer writes over what is yielded: read or clone it before you ask for more.
    """
    _, height, width = volume_DHW.shape
    step = step_of(window, overlap)
    starts = starts_of(volume_DHW.shape, window, step)
    deep, high, wide = weight_tables(volume_DHW.shape, window, step, root, volume_DHW.device)
    layers, columns = sorted({z for z, _, _ in starts}), sorted({x for _, _, x in starts})
    rows = sorted({y for _, y, _ in starts})
    held_CSHW = volume_DHW.new_zeros(CLASSES, window, height, width, dtype=torch.float32)
    row_CSSW = held_CSHW.new_empty(CLASSES, window, window, width)
    for z, deep_S in zip(layers, deep, strict=True):
        for y, high_S in zip(rows, high, strict=True):
            row_CSSW.zero_()
            slab = volume_DHW[z : z + window, y : y + window]
            _row(row_CSSW, slab, network, columns, wide, batch)
            weight_SS1 = (deep_S[:, None] * high_S)[..., None]
            held_CSHW[:, :, y : y + window].addcmul_(row_CSSW, weight_SS1)
        ready = step if z != layers[-1] else window
        yield z, held_CSHW[:, :ready]
        for at in range(0, window - ready, ready):  # what later layers still reach moves up
            later = held_CSHW[:, at + ready : at + 2 * ready]
            held_CSHW[:, at : at + later.shape[1]] = later
        held_CSHW[:, window - ready :] = 0


def _row(row_CSSW, slab, network, columns, table, batch: int) -> None:
    """Adds the windows of one row, each times its vector along the width."""
    window, groups = row_CSSW.shape[1], -(-len(columns) // batch)
    for some in np.array_split(np.arange(len(columns)), groups):  # alike: a lone window is slow
        cuts = torch.stack([slab[..., columns[k] : columns[k] + window] for k in some])
        for k, found_CSSS in zip(some, network(cuts[:, None]), strict=True):
            row_CSSW[..., columns[k] : columns[k] + window].addcmul_(found_CSSS, table[k])


def segment(
    volume_DHW: torch.Tensor, network: Callable, window: int, **options
) -> torch.Tensor:
    """(D, H, W) uint8 of classes, on the volume's device: `segment(volume, network, 128)`.

    `network` maps (B, 1, S, S, S) to (B, 3, S, S, S) scores. The largest score is taken slab by
    slab, on the device: one byte a voxel leaves it. ValueError for a volume of other than whole
    steps (`ct_volumes.prepared` makes one), or with NaN.
    """
    if volume_DHW.ndim != 3 or not volume_DHW.is_floating_point():
        kind = f"{tuple(volume_DHW.shape)} of {volume_DHW.dtype}"
        raise ValueError(f"a volume is (D, H, W) of floats; got {kind}")
    if volume_DHW.numel() and not all(map(math.isfinite, torch.aminmax(volume_DHW))):
        raise ValueError("the volume has NaN or infinite voxels: one spreads over its windows")
    return segment_unchecked(volume_DHW, network, window, **options)


def segment_unchecked(volume_DHW, network: Callable, window: int, **options) -> torch.Tensor:
    """The same without a look at the voxels, for which the host would wait."""
    classes_DHW = torch.empty(volume_DHW.shape, dtype=torch.uint8, device=volume_DHW.device)
    for z, scores_CnHW in slabs(volume_DHW, network, window, **options):
        for at in range(0, scores_CnHW.shape[1], AT_ONCE):
            few = scores_CnHW[:, at : at + AT_ONCE]
            classes_DHW[z + at : z + at + few.shape[1]] = largest(few)
    return classes_DHW


def largest(scores_CDHW: torch.Tensor) -> torch.Tensor:
    """(D, H, W) uint8: the class of the largest score, the first of equal ones, as argmax does;
    two comparisons of three planes, on a CPU many times as fast as PyTorch's argmax over the
    first axis.
    """
    none, kidney, tumour = scores_CDHW
    best = torch.maximum(none, kidney)
    found = (kidney > none).view(torch.uint8)  # the same bytes, no copy
    return found.masked_fill_(tumour > best, 2)


def bytes_held(shape, window: int, whole: bool = False) -> int:
    """Bytes of float32 sums: of a whole volume with its map of weights (three channels each, as
    the benchmark's reference keeps them), or of a layer and a row of windows.
    """
    depth, height, width = shape
    if whole:
        return 2 * CLASSES * 4 * depth * height * width
    return CLASSES * 4 * window * width * (height + window)
