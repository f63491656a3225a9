"""The network in the reader's browser: ONNX in int8, and what the page's script needs beside
it."""

import base64
import hashlib
import json
import logging
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from disfl_labels import LONGEST, Utterance, Vocabulary
from prefix_network import PrefixNetwork
from prefix_training import logits
from torch import Tensor, nn

MIME = "application/vnd.rebuilt.live+json"


class _Bare(nn.Module):
    """The network with results of shape (1, N), as the script reads them."""

    def __init__(self, network: PrefixNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, ids_1N: Tensor) -> tuple[Tensor, Tensor]:
        disfluent, wait = self.network(ids_1N)
        return disfluent[..., 0], wait[..., 0]


def onnx(network: PrefixNetwork, int8: bool = True) -> bytes:
    """A bidirectional network as the bytes of an ONNX file for 1 to 96 words.

    Input `ids` (1, N) int64; outputs `disfluent` and `wait` (1, N) float32 logits. With `int8`
    the matrices and tables are int8, of 7 bits, products are computed in int8 from inputs
    rounded on the fly: without VNNI a processor adds two products in 16 bits, which those of 8
    bits overflow."""
    if network.causal:
        raise ValueError("a causal network is not exported: the page reads the whole prefix")
    from onnxruntime.quantization import QuantType, quantize_dynamic

    names = {"input_names": ["ids"], "output_names": ["disfluent", "wait"]}
    names["dynamic_axes"] = {name: {1: "words"} for name in ("ids", "disfluent", "wait")}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # the exporter that leaves lengths free is called legacy
        whole, small = Path(folder) / "whole.onnx", Path(folder) / "small.onnx"
        example = torch.arange(7)[None]
        torch.onnx.export(
            _Bare(network).eval(), (example,), whole, dynamo=False, opset_version=17, **names
        )
        if int8:
            logging.disable(logging.WARNING)  # a hint on preparing images
            how = {"weight_type": QuantType.QInt8, "per_channel": True, "reduce_range": True}
            quantize_dynamic(whole, small, **how)
            logging.disable(logging.NOTSET)
        return (small if int8 else whole).read_bytes()


class LivePage:
    """The live model of a page: displayed, it shows `html` and hands its `files`, bytes by
    name, to the press."""

    def __init__(self, name: str, files: dict[str, bytes], html: str) -> None:
        self.name, self.files, self.html = name, files, html

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        told = {}
        for name, content in self.files.items():
            text = base64.b64encode(content).decode()
            told[name] = {"sha256": hashlib.sha256(content).hexdigest(), "base64": text}
        pack = {"name": self.name, "files": told}
        return {"text/html": self.html, "text/plain": "a live model", MIME: pack}


def live_page(
    network: PrefixNetwork, vocabulary: Vocabulary, examples: Sequence[str], html: str
) -> LivePage:
    """The `LivePage` of a network with a wait head; `examples` are texts to play, and the pack
    holds PyTorch's logits of them, for the page to compare itself with."""
    from disfl_labels import words_of

    told = []
    for text in examples:
        words = words_of(text)
        row = Utterance(words, (0,) * len(words), ("fluent",) * len(words))
        both = [z[-1].tolist() for z in logits(network.cpu(), [row], vocabulary)[0]]
        ids = vocabulary(words)
        told.append({"text": text, "ids": ids, "disfluent": both[0], "wait": both[1]})
    meta = {"words": vocabulary.words, "buckets": vocabulary.buckets, "longest": LONGEST}
    files = {
        "strike.onnx": onnx(network),
        "meta.json": json.dumps(meta | {"examples": told}).encode(),
    }
    return LivePage("strike", files, html)
