"""A trained scorer as a small file, and as an int8 network for a reader's browser.

Fine-tuning moves each matrix W of the trained layers by a difference whose singular values fall
fast, so W + A B with thin A and B keeps nearly all of it (the idea of LoRA, Hu et al. 2021;
here the difference is cut after training, by its singular values, and nothing thin is trained).
Biases and norms are kept whole. In float16 the file has well under 1 MB, where the layers
themselves take 21 MB.

For the browser the encoder alone is exported; its matrices are int8
with a scale per column (dynamic quantisation: states are rounded as they come). The embeddings'
rows of rare tokens that no phrase or title of the data set uses are left out, which a page has
to tell whoever types a word that needs one.
"""

import base64
import copy
import hashlib
import json
import logging
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from pair_training import PairScorer, scores
from patent_pairs import Pairs, titles
from phrase_encoder import PAD, Encoder, pooled, token_ids, tokeniser
from torch import Tensor, nn

RANK = 16
FREQUENT = range(1000, 13_000)  # the vocabulary's words, most frequent first; signs before
MIME = "application/vnd.rebuilt.live+json"


def difference(scorer: PairScorer, encoder: Encoder, rank: int = RANK) -> dict[str, Tensor]:
    """What training changed, by the weight's name, float16: whole, or as `name:left` and
    `name:right` of `rank`.

    `left` is (rows, rank), `right` (rank, columns), and their product is the nearest matrix of
    that rank.
    """
    before, found = (
        encoder.state_dict(),
        {f"last.{name}": one.half() for name, one in scorer.last.state_dict().items()},
    )
    for name, weight in scorer.encoder.state_dict().items():
        moved = (weight - before[name]).float().cpu()
        if not moved.any():
            continue
        if moved.ndim < 2 or rank >= min(moved.shape):
            found[name] = moved.half()
            continue
        left, strength, right = torch.linalg.svd(moved, full_matrices=False)
        root = strength[:rank].sqrt()
        found[f"{name}:left"], found[f"{name}:right"] = (
            (left[:, :rank] * root).half(),
            (root[:, None] * right[:rank]).half(),
        )
    return {name: one.contiguous().cpu() for name, one in found.items()}


def restored(encoder: Encoder, kept: dict[str, Tensor], kind: str, frozen: int) -> PairScorer:
    """The scorer again from the encoder and what `difference` kept; ValueError where a name is
    none of its weights."""
    scorer = PairScorer(encoder, kind, frozen)
    scorer.last.load_state_dict(
        {name[5:]: one.float() for name, one in kept.items() if name.startswith("last.")}
    )
    weights = scorer.encoder.state_dict()
    names = {name.partition(":")[0] for name in kept if not name.startswith("last.")}
    if unknown := names - weights.keys():
        raise ValueError(
            f"{sorted(unknown)[:3]} are no weights of this encoder; the file is another one's"
        )
    for name in names:
        moved = (
            kept[name]
            if name in kept
            else kept[f"{name}:left"].float() @ kept[f"{name}:right"].float()
        )
        weights[name] += moved.to(weights[name])
    return scorer


class WebEncoder(nn.Module):
    """An encoder for export: the rows of one text's tokens, (1, T), to its unit vector."""

    def __init__(self, encoder: Encoder, kept: np.ndarray) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder).float().cpu()
        words = self.encoder.word.weight[torch.from_numpy(kept)]
        self.encoder.word = nn.Embedding.from_pretrained(words)

    def forward(self, rows_1T: Tensor) -> Tensor:
        return pooled(self.encoder.through(self.encoder.embed(rows_1T), None), None)


def kept_tokens(ids: list[list[int]]) -> np.ndarray:
    """The tokens that a browser gets, sorted: those that occur in `ids`, and frequent words.

    Row n of its embeddings is that token's. The vocabulary is roughly sorted by frequency.
    """
    return np.array(sorted({PAD, *FREQUENT, *(token for one in ids for token in one)}))


def int8_network(encoder: Encoder, kept: np.ndarray) -> bytes:
    """The exported encoder with int8 matrices, as the bytes of an ONNX file for any length."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    network, example = WebEncoder(encoder, kept).eval(), torch.arange(5)[None]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # the exporter that leaves lengths free is called legacy
        whole, small = Path(folder) / "whole.onnx", Path(folder) / "small.onnx"
        names = {"input_names": ["rows"], "output_names": ["vector"]}
        free = {"dynamic_axes": {"rows": {1: "tokens"}}}
        torch.onnx.export(
            network, example, whole, dynamo=False, opset_version=17, **names, **free
        )
        logging.disable(logging.WARNING)  # a hint on preparing images
        quantize_dynamic(whole, small, weight_type=QuantType.QInt8, per_channel=True)
        logging.disable(logging.NOTSET)
        return small.read_bytes()


def vocabulary(kept: np.ndarray) -> str:
    """The whole vocabulary, a token per line in the order of ids, a `\\t` and its row where the
    browser has one."""
    row = {int(token): at for at, token in enumerate(kept)}
    words = sorted(tokeniser().get_vocab().items(), key=lambda item: item[1])
    return "\n".join(f"{word}\t{row[at]}" if at in row else word for word, at in words)


class LivePage:
    """The live model of a page: displayed, it shows `html` and hands its `files`, bytes by
    name, to the press."""

    def __init__(self, name: str, files: dict[str, bytes], html: str) -> None:
        self.name, self.files, self.html = name, files, html

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        told = {
            name: {
                "sha256": hashlib.sha256(content).hexdigest(),
                "base64": base64.b64encode(content).decode(),
            }
            for name, content in self.files.items()
        }
        pack = {"name": self.name, "files": told}
        return {"text/html": self.html, "text/plain": "a live model", MIME: pack}


def live_page(
    scorer: PairScorer, pairs: Pairs, examples: list[list[int]], known: Pairs, html: str
) -> LivePage:
    """The `LivePage` of a scorer `apart` with context, for words whose tokens `known` uses.

    `examples` are groups of rows of `pairs` with the same two phrases in different contexts;
    the pack holds their ratings and float32 scores, for the page to compare itself with.
    """
    phrases = list(dict.fromkeys([*known.anchor, *known.target, *titles().values()]))
    kept = kept_tokens(token_ids(phrases))
    found = scores(scorer, pairs[np.concatenate(examples)], True).tolist()
    told = []
    for rows in examples:
        code = [str(one) for one in pairs.context[rows]]
        ratings = dict(zip(code, pairs.score[rows].tolist(), strict=True))
        ours = {one: round(found.pop(0), 6) for one in code}
        told.append(
            {
                "anchor": pairs.anchor[rows[0]],
                "target": pairs.target[rows[0]],
                "ratings": ratings,
                "scores": ours,
            }
        )
    line = [scorer.last.weight.item(), scorer.last.bias.item()]
    files = {
        "pairs.onnx": int8_network(scorer.encoder, kept),
        "vocabulary.txt": vocabulary(kept).encode(),
        "meta.json": json.dumps({"titles": titles(), "examples": told, "line": line}).encode(),
    }
    return LivePage("pairs", files, html)
