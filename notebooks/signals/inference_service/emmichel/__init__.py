"""The network of ProtoDUNE-SP that tells tracks, showers and Michel electrons apart.

network      its layers, its parameters counted, its outputs
training     what it learns from, and how
onnx_file    the network as a file that other engines read
train_network    how the shipped weights were made
"""

from .network import OUTPUTS, EmMichelTrack, full_size, infer, parameters
from .onnx_file import save_onnx
from .train_network import load_network
from .training import Examples, examples, loss_of, train

__all__ = [
    "OUTPUTS",
    "EmMichelTrack",
    "Examples",
    "examples",
    "full_size",
    "infer",
    "load_network",
    "loss_of",
]
__all__ += ["parameters", "save_onnx", "train"]
