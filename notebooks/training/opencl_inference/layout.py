"""Tensors in slices of four channels, the grid over them, and what fits into constant memory.

A phone's GPU reads four numbers at once, so channels lie in slices of four: a tensor (height,
width, channels) becomes (slices, height, width, 4), the last slice filled up with zeros. The
weights of a thin convolution may lie in constant memory. TensorFlow Lite's GPU delegate
(`lite/delegates/gpu/common/tasks/conv_constants.cc`, Apache-2.0, read for its rules) writes
such a kernel in one of two forms, and each pads one side only:

- normal: input number times four weights, I·4⌈O/4⌉ weights at each point of the kernel;
- dot product: four inputs dot four weights, O·4⌈I/4⌉.

The dot product is used where it needs fewer weights. The delegate first asks whether 4
divides O (then never) or only I (then always); the comparison alone says the same.

Shapes: `C` channels, `S` = ⌈C/4⌉ slices, `H` height, `W` width, `I` inputs, `O` outputs.
"""

import math
from collections import namedtuple

import torch
from kernel_sources import PLAIN

SLICE = 4
MOST_OUTPUT_SLICES = 8  # each output slice holds a register of four
# A convolution ready to run: shape (outputs, inputs, rows, columns), its settings, and what a
# device keeps of its weights and bias.
Layer = namedtuple("Layer", "shape stride pad form precision activation kept")
# An image on a device: a buffer or tensor, its shape (C, H, W), whether plain, its precision.
Held = namedtuple("Held", "data shape plain precision")
BYTES = {"float32": 4, "float16": 2, "mixed": 2}
# The delegate's limits in bytes by family; on Adreno GPUs more can be much slower.
CONSTANT_LIMITS = {"adreno 3xx-5xx": 2560, "adreno": 3584, "amd": 4096, "other": 1024}


def slices(channels):
    """How many slices of four hold that many channels: ⌈C/4⌉."""
    return -(-channels // SLICE)


def to_slices(image_CHW):
    """The image in slices of four channels, shape (S, H, W, 4), contiguous, the padding zero.

        to_slices(torch.ones(3, 2, 2)).shape    # (1, 2, 2, 4)

    dtype and device follow the input. Raises ValueError unless it has three axes and a channel.
    """
    if image_CHW.ndim != 3 or not image_CHW.shape[0]:
        shape = tuple(image_CHW.shape)
        raise ValueError(
            f"the image has shape {shape}; (channels, height, width), none empty, is allowed"
        )
    channels, height, width = image_CHW.shape
    padded = image_CHW.new_zeros(slices(channels) * SLICE, height, width)
    padded[:channels] = image_CHW
    return padded.view(-1, SLICE, height, width).permute(0, 2, 3, 1).contiguous()


def from_slices(image_SHW4, channels):
    """The image (C, H, W) of slices, without the padding: `to_slices` turned round.

    Raises ValueError where the slices cannot hold just that many channels.
    """
    if (
        image_SHW4.ndim != 4
        or image_SHW4.shape[3] != SLICE
        or slices(channels) != image_SHW4.shape[0]
    ):
        shape = tuple(image_SHW4.shape)
        raise ValueError(
            f"{shape} for {channels} channels; ({slices(channels)}, H, W, 4) is allowed"
        )
    count, height, width, _ = image_SHW4.shape
    return image_SHW4.permute(0, 3, 1, 2).reshape(count * SLICE, height, width)[:channels]


def dot_is_better(inputs, outputs):
    """Whether the dot-product form is used: never where the outputs fill their slices.

    dot_is_better(8, 3), dot_is_better(3, 8)    # (True, False)
    """
    _channels(inputs, outputs)
    return outputs * slices(inputs) < inputs * slices(outputs)


def constant_bytes(inputs, outputs, kernel, precision):
    """The bytes of a convolution's weights in constant memory, in the form that is used.

        constant_bytes(3, 8, (3, 3), "float32")    # 864: 3 · 8 weights at 9 points

    `kernel` is (height, width). `precision` is 'float32', 'float16', or 'mixed' (float sums,
    half weights). Raises ValueError for another precision and for sizes below 1.
    """
    _channels(inputs, outputs)
    if precision not in BYTES:
        raise ValueError(f"precision is {precision!r}; one of {', '.join(BYTES)} is allowed")
    height, width = kernel
    if min(height, width) < 1:
        raise ValueError(f"the kernel has sides {tuple(kernel)}; 1 or more is allowed")
    dot = dot_is_better(inputs, outputs)
    padded = outputs * slices(inputs) if dot else inputs * slices(outputs)
    return padded * SLICE * height * width * BYTES[precision]


def fits_constant(inputs, outputs, kernel, precision, family="other", groups=1):
    """Whether the delegate would keep these weights in constant memory on that family of GPUs.

        fits_constant(3, 8, (3, 3), "float32")    # True: 864 of 1,024 bytes

    `family` is a key of `CONSTANT_LIMITS`. Its exception for one build of a driver is not here.
    Raises ValueError as `constant_bytes` does, and for an unknown family.
    """
    if family not in CONSTANT_LIMITS:
        raise ValueError(
            f"family is {family!r}; one of {', '.join(CONSTANT_LIMITS)} is allowed"
        )
    small = constant_bytes(inputs, outputs, kernel, precision) <= CONSTANT_LIMITS[family]
    return groups == 1 and slices(outputs) <= MOST_OUTPUT_SLICES and small


def out_shape(layer, shape):
    """The shape (O, H, W) of what the layer makes of an image of that shape."""
    sides = [
        (n + 2 * layer.pad - k) // layer.stride + 1
        for n, k in zip(shape[1:], layer.shape[2:], strict=True)
    ]
    return layer.shape[0], *sides


def grid_of(layer, shape):
    """The grid (x, y, z) that the layer is launched over: width, height, slices or channels."""
    outputs, height, width = out_shape(layer, shape)
    return width, height, outputs if layer.form in PLAIN else slices(outputs)


def least(layer, shape):
    """(Bytes, operations) that the layer needs at least on an image of that shape: each number
    of the image, the weights, the bias and the result moved once, two operations a product.
    """
    out, width = out_shape(layer, shape), BYTES[layer.precision]
    numbers = math.prod(shape) + math.prod(layer.shape) + layer.shape[0] + math.prod(out)
    return width * numbers, conv_flops(out, layer.shape)


def conv_flops(out_shape, weights_shape):
    """The floating-point operations of a convolution, two for each product and sum."""
    return 2 * math.prod(out_shape) * math.prod(weights_shape[1:])


def checked_image(layer, held):
    """None. Raises ValueError where the layer cannot read what is held."""
    wanted = layer.shape[0] if "depthwise" in layer.form else layer.shape[1]
    small = min(out_shape(layer, held.shape)[1:]) < 1
    if held.shape[0] != wanted or small:
        raise ValueError(
            f"the image is {held.shape}; {wanted} channels, and sides that a kernel of "
            f"{layer.shape[2:]} fits into, are allowed"
        )
    if (held.plain, held.precision) != (layer.form in PLAIN, layer.precision):
        raise ValueError(
            f"the image lies {'plain' if held.plain else 'in slices'} as {held.precision}, the "
            f"layer is {layer.form} in {layer.precision}; put it there in the layer's own"
        )


def checked_weights(shape, bias_shape, stride, pad):
    """None. Raises ValueError where no convolution has such weights, bias, stride, padding."""
    if len(shape) != 4 or min(shape) < 1 or tuple(bias_shape) != shape[:1]:
        raise ValueError(
            f"weights {shape} and bias {tuple(bias_shape)}; (O, I, K, K), none empty, and (O,) "
            "are allowed"
        )
    if stride < 1 or pad < 0:
        raise ValueError(
            f"stride {stride} and padding {pad}; from 1 on, and from 0 on, are allowed"
        )


def checked_sum(one, other):
    """None. Raises ValueError unless both are held alike."""
    if one[1:] != other[1:]:
        raise ValueError(
            f"{one[1:]} and {other[1:]} are summed; only two of one kind are allowed"
        )


def pack(weights_OIKK, form):
    """The weights in the order that the form reads them, float32, the padding zero.

    Shapes: `naive` as given; `sliced` (slices of O, K, K, padded I, 4); `constant` (slices of
    O, K, K, I, 4); `dot` (O, K, K, slices of I, 4); `depthwise` (slices of O, K, K, 4).
    """
    if form in PLAIN:
        return weights_OIKK.float()
    outputs, inputs, rows, columns = weights_OIKK.shape
    whole = slices(inputs) * SLICE
    depth = {"depthwise": 1, "constant": inputs}.get(form, whole)
    count = outputs if form == "dot" else slices(outputs) * SLICE
    padded = weights_OIKK.new_zeros(count, depth, rows, columns, dtype=torch.float32)
    padded[:outputs, :inputs] = weights_OIKK
    if form == "dot":
        return padded.permute(0, 2, 3, 1).contiguous()
    split = padded.view(-1, SLICE, depth, rows, columns)
    return split.permute(0, 3, 4, 2, 1).contiguous()


def form_of(inputs, outputs, kernel, precision, family="other", groups=1):
    """'depthwise', 'constant', 'dot' or 'sliced', by the delegate's rules.

        form_of(3, 8, (3, 3), "float32")    # 'constant'

    Raises ValueError as `fits_constant` does, and for groups that are neither one nor all.
    """
    if groups not in (1, outputs) or (groups > 1 and inputs != outputs):
        raise ValueError(
            f"{groups} groups for {inputs} inputs and {outputs} outputs; one, or one a "
            "channel, are allowed"
        )
    if groups > 1:
        return "depthwise"
    if not fits_constant(inputs, outputs, kernel, precision, family):
        return "sliced"
    return "dot" if dot_is_better(inputs, outputs) else "constant"


def _channels(inputs, outputs):
    if min(inputs, outputs) < 1:
        raise ValueError(
            f"{inputs} inputs and {outputs} outputs; 1 or more of each are allowed"
        )
