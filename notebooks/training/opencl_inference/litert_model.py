"""The steps of a graph as a file for LiteRT, the peer of the race, written with its own schema.

Weights lie as LiteRT wants them: convolutions (O, K, K, I), depthwise (1, K, K, C); images (1,
H, W, C). A stride of 2 is padded by an operation of its own, since its 'SAME' puts the padding
to the other side than PyTorch.
"""

import math

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

CODES = ("CONV_2D", "DEPTHWISE_CONV_2D", "ADD", "PAD", "MEAN")


class _Graph:
    def __init__(self):
        self.graph, self.model = schema.SubGraphT(), schema.ModelT()
        self.graph.tensors, self.graph.operators, self.shapes = [], [], {}
        self.model.buffers = [schema.BufferT()]  # the first is that of no data

    def tensor(self, shape, data=None, kind="FLOAT32"):
        made = schema.TensorT()
        made.shape, made.type = list(shape), getattr(schema.TensorType, kind)
        if data is not None:
            held = schema.BufferT()
            held.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            made.buffer = len(self.model.buffers)
            self.model.buffers.append(held)
        self.graph.tensors.append(made)
        self.shapes[len(self.graph.tensors) - 1] = tuple(shape)
        return len(self.graph.tensors) - 1

    def operator(self, code, inputs, shape, options=None, **settings):
        made, out = schema.OperatorT(), self.tensor(shape)
        made.opcodeIndex, made.inputs, made.outputs = CODES.index(code), inputs, [out]
        if options:
            made.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            made.builtinOptions = getattr(schema, f"{options}T")()
            for name, value in settings.items():
                setattr(made.builtinOptions, name, value)
        self.graph.operators.append(made)
        return out

    def conv(self, step, image):
        conv, (_, height, width, _) = step.conv, self.shapes[image]
        pad, stride = conv.padding[0], conv.stride[0]
        if pad and stride > 1:
            sides = np.array([[0, 0], [pad, pad], [pad, pad], [0, 0]], np.int32)
            shape = (1, height + 2 * pad, width + 2 * pad, self.shapes[image][3])
            image = self.operator("PAD", [image, self.tensor((4, 2), sides, "INT32")], shape)
        deep = conv.groups > 1
        order = (1, 2, 3, 0) if deep else (0, 2, 3, 1)
        weights = conv.weight.detach().permute(order).contiguous().numpy()
        outputs = conv.out_channels
        bias = (
            np.zeros(outputs, np.float32) if conv.bias is None else conv.bias.detach().numpy()
        )
        inputs = [image, self.tensor(weights.shape, weights), self.tensor((outputs,), bias)]
        settings = {"strideH": stride, "strideW": stride}
        if deep:
            settings["depthMultiplier"] = 1
        valid = schema.Padding.VALID if stride > 1 or not pad else schema.Padding.SAME
        activation = schema.ActivationFunctionType
        settings["fusedActivationFunction"] = (
            activation.RELU6 if step.clamp else activation.NONE
        )
        shape = (1, math.ceil(height / stride), math.ceil(width / stride), outputs)
        name = "DepthwiseConv2DOptions" if deep else "Conv2DOptions"
        code = "DEPTHWISE_CONV_2D" if deep else "CONV_2D"
        return self.operator(code, inputs, shape, name, padding=valid, **settings)


def written(steps, size):
    """The bytes of a model of these steps, convolutions, sums and means over places, for an
    image (1, size, size, 3); its outputs are what no step reads, in order.

    Raises ValueError for a step of another kind.
    """
    graph = _Graph()
    at = {steps[0].inputs[0]: graph.tensor((1, size, size, 3))}
    for one in steps:
        given = [at[name] for name in one.inputs]
        if one.kind == "conv":
            at[one.name] = graph.conv(one, *given)
        elif one.kind == "add":
            at[one.name] = graph.operator("ADD", given, graph.shapes[given[0]], "AddOptions")
        elif one.kind == "AdaptiveAvgPool2d":
            axes = graph.tensor((2,), np.array([1, 2], np.int32), "INT32")
            shape = (1, 1, 1, graph.shapes[given[0]][3])
            at[one.name] = graph.operator(
                "MEAN", [*given, axes], shape, "ReducerOptions", keepDims=True
            )
        else:
            raise ValueError(f"{one.kind}: convolutions, sums and means are allowed")
    read = {name for one in steps for name in one.inputs}
    graph.graph.inputs = [at[steps[0].inputs[0]]]
    graph.graph.outputs = [at[one.name] for one in steps if one.name not in read]
    return _packed(graph)


def _packed(graph):
    model = graph.model
    model.version, model.subgraphs, model.operatorCodes = 3, [graph.graph], []
    for name in CODES:
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, name)
        code.deprecatedBuiltinCode, code.version = code.builtinCode, 1
        model.operatorCodes.append(code)
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
