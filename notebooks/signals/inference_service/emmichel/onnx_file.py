"""The network as an ONNX file: what a server loads that knows nothing of torch."""

import copy
import warnings
from pathlib import Path

import torch

from .network import OUTPUTS, Probabilities

__all__ = ["save_onnx"]


def save_onnx(network, path):
    """The path, written: input `patches` (rows, 48, 48) float32, outputs `OUTPUTS` as
    probabilities, any number of rows."""
    served = Probabilities(copy.deepcopy(network).cpu()).eval()
    example = torch.zeros(2, network.side, network.side)
    rows = {name: {0: "rows"} for name in ("patches", *OUTPUTS)}
    names = {"input_names": ["patches"], "output_names": list(OUTPUTS), "dynamic_axes": rows}
    with warnings.catch_warnings():  # the older exporter is the quick one
        warnings.simplefilter("ignore")
        torch.onnx.export(served, (example,), str(path), dynamo=False, **names)
    return Path(path)
