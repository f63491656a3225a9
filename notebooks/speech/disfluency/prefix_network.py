"""A small encoder with two heads for every word: disfluent or not, and predict or wait.

After Chen et al. (2022): BERT with two linear heads. Ours is small enough to train on a CPU.
The bidirectional network reads a whole prefix, and reads all of it again when a word is added,
because each word's state depends on all words. The *causal* one reads to the left only: the
states of old words do not change, so keys and values are kept and a new word costs one row. A
causal state cannot learn what comes behind its word, so its head looks back instead: at word i
it labels the words i, i - 1, ... i - BACK + 1, and a word older than that keeps its last label.

Shapes: B prefixes, N words, D width, H heads, K words that a state labels (1, or BACK if
causal)."""

import json
import math
from pathlib import Path

import torch
from disfl_labels import LONGEST, Vocabulary
from torch import Tensor, nn
from torch.nn import functional as F

BACK = 8
Cache = list[tuple[Tensor, Tensor]]


class Layer(nn.Module):
    """Attention and a feed-forward part, each on normed input and added to it (pre-norm)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(
        self, x_BND: Tensor, causal: bool, old: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """New states, and the keys and values (B, H, words so far, D/H) for the next call."""
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.norm(x_BND)).chunk(3, -1)
        )
        if old is not None:  # one new word: it may look at everything
            k, v, causal = torch.cat([old[0], k], 2), torch.cat([old[1], v], 2), False
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        x_BND = x_BND + self.out(mixed.transpose(1, 2).flatten(2))
        return x_BND + self.down(F.gelu(self.up(self.norm2(x_BND)))), (k, v)


class PrefixNetwork(nn.Module):
    """Words in, logits out; prefixes of a batch have one length, so nothing is padded.

    `disfluent, wait = PrefixNetwork(900)(ids)`: ids (B, N) int64, both (B, N, K) float32."""

    def __init__(self, vocabulary: int, width=64, layers=2, heads=4, causal=False) -> None:
        super().__init__()
        if width % heads or min(vocabulary, width, layers, heads) < 1:
            why = "sizes above 0, width a multiple of heads"
            raise ValueError(f"width={width}, heads={heads}, layers={layers}: {why}")
        self.heads, self.causal, self.back = heads, causal, BACK if causal else 1
        self.word, self.place = nn.Embedding(vocabulary, width), nn.Embedding(LONGEST, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.disfluent, self.wait = (nn.Linear(width, self.back) for _ in range(2))
        for table in (self.word, self.place):
            nn.init.normal_(table.weight, std=0.1)

    def encode(self, ids_BN: Tensor) -> Tensor:
        """The states (B, N, D) of whole prefixes."""
        x_BND = self.word(ids_BN) + self.place.weight[: ids_BN.shape[1]]
        for layer in self.layers:
            x_BND, _ = layer(x_BND, self.causal)
        return self.norm(x_BND)

    def forward(self, ids_BN: Tensor) -> tuple[Tensor, Tensor]:
        x_BND = self.encode(ids_BN)
        return self.disfluent(x_BND), self.wait(x_BND)

    def guess_words(self, ids_BN: Tensor) -> Tensor:
        """Logits (B, N, V) of the words, for masked pre-training; tied to the table."""
        return self.encode(ids_BN) @ self.word.weight.T / math.sqrt(self.word.weight.shape[1])

    def step(
        self, id_B1: Tensor, cache: Cache | None, at: int | Tensor
    ) -> tuple[Tensor, Cache]:
        """Disfluency logits (B, K) after one more word, number `at`, and the cache with it.

        Causal networks only: ValueError else, since a bidirectional state changes with each
        word."""
        if not self.causal:
            raise ValueError(
                "a bidirectional network has no cache: a new word changes all states"
            )
        x_BND, new = self.word(id_B1) + self.place.weight[at], []
        for layer, old in zip(self.layers, cache or [None] * len(self.layers), strict=True):
            x_BND, kept = layer(x_BND, True, old)
            new.append(kept)
        return self.disfluent(self.norm(x_BND))[:, 0], new


def unrolled(logits_NK: Tensor) -> Tensor:
    """What a causal network says of word j at prefix i: (N, N) from one pass over the sentence.

    Entry [i, j] for j <= i is the logit of state i for i - j words back, at most K - 1 back:
    older words keep what state j + K - 1 said. Above the diagonal stands minus infinity."""
    size, back = logits_NK.shape
    i, j = torch.meshgrid(*[torch.arange(size, device=logits_NK.device)] * 2, indexing="ij")
    state = torch.minimum(i, j + back - 1)
    found = logits_NK[state, (state - j).clamp(min=0)]
    return found.masked_fill(j > i, -math.inf)


def save(networks: dict[str, PrefixNetwork], vocabulary: Vocabulary, path: Path) -> None:
    """Networks that are not causal in float16, and their vocabulary, as safetensors."""
    from safetensors.torch import save_file

    states = {name: network.state_dict().items() for name, network in networks.items()}
    kept = {
        f"{name}/{key}": value.half() for name, state in states.items() for key, value in state
    }
    heads = {name: network.heads for name, network in networks.items()}
    about = {"words": vocabulary.words, "buckets": vocabulary.buckets, "heads": heads}
    save_file(kept, path, {"about": json.dumps(about)})


def load(path: Path) -> tuple[dict[str, PrefixNetwork], Vocabulary]:
    """What `save` kept: networks by name in float32, in evaluation mode, and the vocabulary."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        kept = {key: file.get_tensor(key).float() for key in file.keys()}  # noqa: SIM118
        about = json.loads(file.metadata()["about"])
    vocabulary, found = Vocabulary(about["words"], about["buckets"]), {}
    for name, heads in about["heads"].items():
        part = {k.split("/", 1)[1]: v for k, v in kept.items() if k.startswith(f"{name}/")}
        layers = len({key.split(".")[1] for key in part if key.startswith("layers.")})
        sizes = len(vocabulary), part["word.weight"].shape[1], layers, heads
        found[name] = PrefixNetwork(*sizes).eval()
        found[name].load_state_dict(part)
    return found, vocabulary
