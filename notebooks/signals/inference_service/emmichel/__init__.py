"""The network of ProtoDUNE-SP that tells tracks, showers and Michel electrons apart.

network      its layers, its parameters counted, its outputs
training     what it learns from, how, and the shipped weights
onnx_file    the network as a file that other engines read
"""

from .network import EmMichelTrack, infer, parameters
from .onnx_file import save_onnx
from .training import load_network

__all__ = ["EmMichelTrack", "infer", "load_network", "parameters", "save_onnx"]
