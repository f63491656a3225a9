"""A trained scorer as a small file, and as an int8 network for a reader's browser.

Fine-tuning moves each matrix W of the trained layers by a difference whose singular values fall
fast, so W + A B with thin A and B keeps most of it (the idea of LoRA, Hu et al. 2021; here the
difference is cut after training). In float16 that takes well under 1 MB, the layers 21 MB.

For the browser, matrices are int8 with a scale for each token of the embeddings and for each
output of a layer, and states stay float32: dynamic quantisation, which rounds them too, turned
about a sixth of the moves between contexts round. Embeddings of rare tokens that neither a
phrase nor a title uses are left out.
"""

import base64
import copy
import hashlib
import io
import json
import warnings

import numpy as np
import torch
from pair_training import PairScorer, texts
from patent_pairs import Pairs, titles
from phrase_encoder import PAD, Encoder, token_ids, tokeniser
from torch import Tensor, nn

RANK = 16
BOUND = 0.02  # of int8: how far the difference of a pair's scores in two contexts may be off
FREQUENT = range(1000, 13_000)  # the vocabulary's words, most frequent first; signs before
MIME = "application/vnd.rebuilt.live+json"


def difference(scorer: PairScorer, encoder: Encoder, rank: int = RANK) -> dict[str, Tensor]:
    """What training changed, by the weight's name, float16: whole, or, for a matrix, its
    nearest of that rank as the product of `name:left` and `name:right`."""
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


def kept_tokens(phrases: list[str]) -> np.ndarray:
    """The tokens that a browser gets, one a row of its embeddings: those of the phrases and of
    all titles, and frequent words."""
    ids = token_ids(list(dict.fromkeys([*phrases, *titles().values()])))
    return np.array(sorted({PAD, *FREQUENT, *(token for one in ids for token in one)}))


def int8_network(scorer: PairScorer, kept: np.ndarray) -> bytes:
    """The exported scorer with int8 matrices, as the bytes of an ONNX file for any length."""
    import onnx

    how = {"input_names": ["rows", "phrase"], "output_names": ["score"], "opset_version": 17}
    how["dynamic_axes"] = {"rows": {1: "tokens"}, "phrase": {2: "tokens"}}
    network, whole = WebScorer(scorer, kept).eval(), io.BytesIO()
    example = (torch.arange(5)[None], torch.tensor([[[1.0, 1, 0, 0, 0], [0, 0, 1, 1, 0]]]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what leaves lengths free is called legacy
        torch.onnx.export(network, example, whole, dynamo=False, **how)
    model = onnx.load_from_string(whole.getvalue())
    for one in [one for one in model.graph.initializer if np.prod(one.dims) > 10_000]:
        name, weight = one.name, onnx.numpy_helper.to_array(one)
        over = 1 if name.endswith(("word.weight", "position.weight")) else 0
        scale = np.maximum(np.abs(weight).max(over, keepdims=True), 1e-9) / 127
        rounded = np.rint(weight / scale).astype(np.int8)
        one.CopyFrom(onnx.numpy_helper.from_array(rounded, f"{name}:int8"))
        model.graph.initializer.append(onnx.numpy_helper.from_array(scale, f"{name}:scale"))
        parts, node = [f"{name}:float", f"{name}:scale"], onnx.helper.make_node
        model.graph.node.insert(0, node("Mul", parts, [name]))  # both are done once, at loading
        model.graph.node.insert(0, node("Cast", [f"{name}:int8"], parts[:1], to=1))  # float32
    return model.SerializeToString()


def int8_scores(network: bytes, kept: np.ndarray, pairs: Pairs) -> np.ndarray:
    """Scores of pairs by `int8_network`, with their titles, as a browser makes them, (N,)."""
    from onnxruntime import InferenceSession

    session, made = InferenceSession(network), texts(pairs, "cross-encoder", True)
    found = []
    for ids, (first, second) in zip(made.ids, made.ends, strict=True):
        at = np.arange(len(ids))
        phrase = np.float32([[at < first, (first <= at) & (at < second)]])
        rows = np.searchsorted(kept, ids)[None]
        found.append(session.run(None, {"rows": rows, "phrase": phrase})[0].item())
    return np.array(found)[made.uses[:, 0]]


def vocabulary(kept: np.ndarray) -> str:
    """The whole vocabulary, a token per line in the order of ids, a `\\t` and its row where the
    browser has one."""
    row = {int(token): at for at, token in enumerate(kept)}
    words = sorted(tokeniser().get_vocab().items(), key=lambda item: item[1])
    return "\n".join(f"{word}\t{row[at]}" if at in row else word for word, at in words)


def live_bundle(
    network: bytes, kept: np.ndarray, pairs: Pairs, scored: np.ndarray, html: str
) -> dict:
    """What a page displays: `html`, and for the press the files of `int8_network`. Rows of
    `pairs` with the same two phrases are an example: ratings and float32 scores by context."""
    examples: dict[tuple[str, str], dict] = {}
    columns = (pairs.anchor, pairs.target, pairs.context, pairs.score, scored)
    for row in zip(*map(np.ndarray.tolist, columns), strict=True):
        anchor, target, context, rating, score = row
        empty = {"anchor": anchor, "target": target, "ratings": {}, "scores": {}}
        one = examples.setdefault((anchor, target), empty)
        one["ratings"][context], one["scores"][context] = rating, round(score, 6)
    meta = {"titles": titles(), "bound": BOUND, "examples": [*examples.values()]}
    files = {"pairs.onnx": network, "vocabulary.txt": vocabulary(kept).encode()}
    files["meta.json"], packed = json.dumps(meta).encode(), {}
    for name, one in files.items():
        hashed, coded = hashlib.sha256(one).hexdigest(), base64.b64encode(one).decode()
        packed[name] = {"sha256": hashed, "base64": coded}
    return {"text/html": html, MIME: {"name": "pairs", "files": packed}}
