"""The server's side: which engine computes, and how requests become batches.

launch           settings, engines, Triton as a process
batcher          dynamic batching by Triton's rules
embedded         a server of KServe v2 in this process
onnx_model       a network in a file, without torch
triton_models    the models behind NVIDIA's Triton, in an environment of their own
"""

from .batcher import Batcher
from .embedded import EmbeddedServer
from .launch import EMMICHEL, PINS, Settings, Triton, engine, metrics, triton_python

__all__ = ["EMMICHEL", "PINS", "Batcher", "EmbeddedServer", "Settings", "Triton"]
__all__ += ["engine", "metrics", "triton_python"]
