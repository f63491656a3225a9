"""The network of ProtoDUNE-SP that tells tracks, showers and Michel electrons apart.

network      its layers, its parameters counted, its outputs, its file for other engines
training     what it learns from, how, and the shipped weights
"""

from .network import EmMichelTrack, export, infer, parameters, save_onnx
from .training import load_network

__all__ = ["EmMichelTrack", "export", "infer", "load_network", "parameters", "save_onnx"]
