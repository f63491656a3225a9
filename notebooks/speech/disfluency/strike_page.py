"""The network in ONNX: in int8 for the reader's browser, with what the page's script needs
beside it, and, for the race, one step of the cached network."""

import base64
import hashlib
import json
import logging
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from disfl_labels import LONGEST, Vocabulary, fluent, words_of
from prefix_network import PrefixNetwork
from prefix_training import logits
from torch import Tensor, nn

MIME = "application/vnd.rebuilt.live+json"


class _Prefix(nn.Module):
    """The network with results of shape (1, N), as the script reads them."""

    def __init__(self, network: PrefixNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, ids_1N: Tensor) -> tuple[Tensor, Tensor]:
        disfluent, wait = self.network(ids_1N)
        return disfluent[..., 0], wait[..., 0]


class _Step(_Prefix):
    """One more word: `PrefixNetwork.step` with the keys and values as plain tensors."""

    def forward(self, id_11: Tensor, at_1: Tensor, *old: Tensor) -> tuple[Tensor, ...]:
        cache = list(zip(old[::2], old[1::2], strict=True))
        found, new = self.network.step(id_11, cache, at_1)
        return found, *(part for pair in new for part in pair)


def onnx(network: PrefixNetwork, int8: bool = True) -> bytes:
    """A bidirectional network as the bytes of an ONNX file for 1 to 96 words.

    Input `ids` (1, N) int64; outputs `disfluent` and `wait` (1, N) float32 logits. With `int8`
    the matrices and tables are int8, of 7 bits, products are computed in int8 from inputs
    rounded on the fly: without VNNI a processor adds two products in 16 bits, which those of 8
    bits overflow."""
    if network.causal:
        raise ValueError("a causal network reads word by word: `onnx_step` exports that")
    given = {"ids": torch.arange(7)[None]}
    return _exported(_Prefix(network), given, {"ids": 1}, {"disfluent": 1, "wait": 1}, int8)


def onnx_step(network: PrefixNetwork) -> bytes:
    """One step of a causal network as the bytes of an ONNX file.

    Inputs `id` (1, 1) and `at` (1,) int64, and for each layer `key0`, `value0` … (1, H, words
    so far, D/H) float32; outputs `disfluent` (1, K), and `new_key0` … with the word in them."""
    if not network.causal:
        raise ValueError("a bidirectional network has no step: `onnx` exports its reading")
    heads, width = network.heads, network.word.weight.shape[1]
    names = [f"{kind}{at}" for at in range(len(network.layers)) for kind in ("key", "value")]
    given = {"id": torch.tensor([[2]]), "at": torch.tensor([3])}
    given |= {name: torch.zeros(1, heads, 3, width // heads) for name in names}
    told = {"disfluent": None} | {f"new_{name}": 2 for name in names}
    return _exported(_Step(network), given, dict.fromkeys(names, 2), told, int8=False)


def _exported(module: nn.Module, given: dict, free: dict, told: dict, int8: bool) -> bytes:
    """The module as ONNX; `free` and `told` have the axis of each input and output whose length
    is left free."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    axes = {name: {axis: "words"} for name, axis in free.items()}
    axes |= {name: {axis: "more"} for name, axis in told.items() if axis is not None}
    names = {"input_names": [*given], "output_names": [*told], "dynamic_axes": axes}
    how = {"dynamo": False, "opset_version": 17}  # the newer exporter leaves no length free
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this one is called legacy
        whole, small = Path(folder) / "whole.onnx", Path(folder) / "small.onnx"
        torch.onnx.export(module.eval(), tuple(given.values()), whole, **how, **names)
        if int8:
            logging.disable(logging.WARNING)  # a hint on preparing images
            how = {"weight_type": QuantType.QInt8, "per_channel": True, "reduce_range": True}
            quantize_dynamic(whole, small, **how)
            logging.disable(logging.NOTSET)
        return (small if int8 else whole).read_bytes()


def live_pack(
    network: PrefixNetwork, vocabulary: Vocabulary, examples: Sequence[str], html: str
) -> dict[str, object]:
    """What a cell displays as the live model of a page: `html` and, for the press, the files of
    a network with a wait head. `examples` are texts to play, with PyTorch's logits of them, for
    the page to compare itself with."""
    told = []
    for text in examples:
        row = fluent(words_of(text))
        both = [z[-1].tolist() for z in logits(network.cpu(), [row], vocabulary)[0]]
        ids = vocabulary(row.words)
        told.append({"text": text, "ids": ids, "disfluent": both[0], "wait": both[1]})
    meta = {"words": vocabulary.words, "buckets": vocabulary.buckets, "longest": LONGEST}
    meta = json.dumps(meta | {"examples": told}).encode()
    files = {}
    for name, content in {"strike.onnx": onnx(network), "meta.json": meta}.items():
        text = base64.b64encode(content).decode()
        files[name] = {"sha256": hashlib.sha256(content).hexdigest(), "base64": text}
    return {"text/html": html, MIME: {"name": "strike", "files": files}}
