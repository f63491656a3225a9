"""A trained scorer as a small file, and as an int8 network for a reader's browser.

Fine-tuning moves each matrix W of the trained layers by a difference whose singular values fall
fast, so W + A B with thin A and B keeps nearly all of it (the idea of LoRA, Hu et al. 2021;
here the difference is cut after training, by its singular values, and nothing thin is trained).
Biases and norms are kept whole. In float16 the file has well under 1 MB, where the layers
themselves take 21 MB.

For the browser the scorer is exported with int8 matrices, a scale per column (dynamic
quantisation: states are rounded as they come). Embeddings of rare tokens that neither a phrase
nor a title uses are left out: a page tells whoever types a word that needs one.
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
from phrase_encoder import PAD, Encoder, token_ids, tokeniser
from torch import Tensor, nn

RANK = 16
FREQUENT = range(1000, 13_000)  # the vocabulary's words, most frequent first; signs before
MIME = "application/vnd.rebuilt.live+json"


def difference(scorer: PairScorer, encoder: Encoder, rank: int = RANK) -> dict[str, Tensor]:
    """What training changed, by the weight's name, float16: whole, or, for a matrix, as
    `name:left` (rows, rank) and `name:right` (rank, columns), whose product is the nearest
    matrix of that rank."""
    found = {f"last.{name}": one for name, one in scorer.last.state_dict().items()}
    before = encoder.state_dict()
    for name, weight in scorer.encoder.state_dict().items():
        moved = (weight - before[name]).float()
        if moved.ndim == 2 and moved.any() and rank < min(moved.shape):
            left, strength, right = torch.linalg.svd(moved, full_matrices=False)
            root = strength[:rank].sqrt()
            found[f"{name}:left"] = left[:, :rank] * root
            found[f"{name}:right"] = root[:, None] * right[:rank]
        elif moved.any():
            found[name] = moved
    return {name: one.half().contiguous().cpu() for name, one in found.items()}


def restored(encoder: Encoder, kept: dict[str, Tensor], kind: str, frozen: int) -> PairScorer:
    """The scorer again from the encoder and what `difference` kept; ValueError where a name is
    none of its weights."""
    scorer = PairScorer(encoder, kind, frozen)
    weights = dict(scorer.encoder.state_dict())
    for name, one in kept.items():
        ours, _, side = name.partition(":")
        if ours.startswith("last."):
            scorer.last.state_dict()[ours[5:]].copy_(one)
        elif ours not in weights:
            raise ValueError(f"{ours} is no weight of this encoder; the file is another one's")
        elif side != "right":
            moved = one.float() @ kept[f"{ours}:right"].float() if side else one.float()
            weights[ours] += moved.to(weights[ours])
    return scorer


class WebScorer(nn.Module):
    """A cross-encoder for export: the rows of a text's tokens (1, T), and 1 where they are of
    the anchor and of the target, (1, 2, T), to its score (1,)."""

    def __init__(self, scorer: PairScorer, kept: np.ndarray) -> None:
        super().__init__()
        self.scorer = copy.deepcopy(scorer).float().cpu()
        words = self.scorer.encoder.word.weight[torch.from_numpy(kept)]
        self.scorer.encoder.word = nn.Embedding.from_pretrained(words)

    def forward(self, rows_1T: Tensor, phrase_12T: Tensor) -> Tensor:
        encoder, frozen = self.scorer.encoder, self.scorer.frozen
        x_1TD = encoder.through(encoder.embed(rows_1T), None, 0, frozen)
        return self.scorer.score(x_1TD, None, phrase_12T, torch.zeros(1, 1, dtype=torch.int64))


def kept_tokens(ids: list[list[int]]) -> np.ndarray:
    """The tokens that a browser gets, sorted: those that occur in `ids`, and frequent words.

    Row n of its embeddings is that token's. The vocabulary is roughly sorted by frequency.
    """
    return np.array(sorted({PAD, *FREQUENT, *(token for one in ids for token in one)}))


def int8_network(scorer: PairScorer, kept: np.ndarray) -> bytes:
    """The exported scorer with int8 matrices, as the bytes of an ONNX file for any length."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    names = {"input_names": ["rows", "phrase"], "output_names": ["score"]}
    names["dynamic_axes"] = {"rows": {1: "tokens"}, "phrase": {2: "tokens"}}
    network = WebScorer(scorer, kept).eval()
    example = (torch.arange(5)[None], torch.tensor([[[1.0, 1, 0, 0, 0], [0, 0, 1, 1, 0]]]))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # the exporter that leaves lengths free is called legacy
        whole, small = Path(folder) / "whole.onnx", Path(folder) / "small.onnx"
        torch.onnx.export(network, example, whole, dynamo=False, opset_version=17, **names)
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
        told = {}
        for name, content in self.files.items():
            text = base64.b64encode(content).decode()
            told[name] = {"sha256": hashlib.sha256(content).hexdigest(), "base64": text}
        pack = {"name": self.name, "files": told}
        return {"text/html": self.html, "text/plain": "a live model", MIME: pack}


def live_page(
    scorer: PairScorer, pairs: Pairs, examples: list[list[int]], known: Pairs, html: str
) -> LivePage:
    """The `LivePage` of a cross-encoder with context, for words whose tokens `known` uses.

    `examples` are groups of rows of `pairs` with the same two phrases in different contexts;
    the pack holds their ratings and float32 scores, for the page to compare itself with.
    """
    phrases = list(dict.fromkeys([*known.anchor, *known.target, *titles().values()]))
    kept = kept_tokens(token_ids(phrases))
    found = scores(scorer, pairs[np.concatenate(examples)], True).tolist()
    told = []
    for rows in examples:
        code = pairs.context[rows].tolist()
        one = {"anchor": pairs.anchor[rows[0]], "target": pairs.target[rows[0]]}
        one["ratings"] = dict(zip(code, pairs.score[rows].tolist(), strict=True))
        one["scores"] = {context: round(found.pop(0), 6) for context in code}
        told.append(one)
    files = {
        "pairs.onnx": int8_network(scorer, kept),
        "vocabulary.txt": vocabulary(kept).encode(),
        "meta.json": json.dumps({"titles": titles(), "examples": told}).encode(),
    }
    return LivePage("pairs", files, html)
