"""A small encoder with two heads for every word: disfluent or not, and predict or wait.

After Chen et al. (2022): BERT with two linear heads. Ours is small enough to train on a CPU.
The bidirectional network reads a whole prefix, and reads all of it again when a word is added,
because each word's state depends on all words. The *causal* one reads to the left only: the
states of old words do not change, so keys and values are kept and a new word costs one row. A
causal state cannot learn what comes behind its word, so its head looks back instead: at word i
it labels the words i, i - 1, ... i - BACK + 1, and a word older than that keeps its last
label.

Shapes: B prefixes, N words, D width, H heads, K words that a state labels (1, or BACK if
causal)."""

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

    `disfluent, wait = PrefixNetwork(900)(ids)`: ids (B, N) int64, both results (B, N, K)
    float32."""

    def __init__(
        self,
        vocabulary: int,
        width: int = 64,
        layers: int = 2,
        heads: int = 4,
        causal: bool = False,
    ) -> None:
        super().__init__()
        if width % heads or min(vocabulary, width, layers, heads) < 1:
            raise ValueError(
                f"width={width}, heads={heads}: sizes above 0, width a multiple of heads"
            )
        self.sizes = {
            "vocabulary": vocabulary,
            "width": width,
            "layers": layers,
            "heads": heads,
        }
        self.causal, self.back = causal, BACK if causal else 1
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
        """Logits (B, N, V) of the words themselves, for masked pre-training; tied to the
        table."""
        return (
            self.encode(ids_BN) @ self.word.weight.T * math.sqrt(1 / self.word.weight.shape[1])
        )

    @torch.inference_mode()
    def step(self, id_B1: Tensor, cache: Cache | None, at: int) -> tuple[Tensor, Cache]:
        """Disfluency logits (B, K) after one more word, number `at`, and the cache with it.

        Causal networks only: ValueError else, since a bidirectional state changes with each
        word."""
        if not self.causal:
            raise ValueError(
                "a bidirectional network has no cache: each new word changes all states"
            )
        x_BND, new = self.word(id_B1) + self.place.weight[at], []
        for layer, old in zip(self.layers, cache or [None] * len(self.layers), strict=True):
            x_BND, kept = layer(x_BND, True, old)
            new.append(kept)
        return self.disfluent(self.norm(x_BND))[:, 0], new


def attention_reference(q_ND: Tensor, k_ND: Tensor, v_ND: Tensor) -> Tensor:
    """One head's attention in float64 loops: each word's mean of values, weighted by
    exp(q·k/√D)."""
    out = torch.zeros(q_ND.shape, dtype=torch.float64)
    for i, q in enumerate(q_ND.double()):
        weights = [math.exp(float(q @ k) / math.sqrt(len(q))) for k in k_ND.double()]
        for weight, v in zip(weights, v_ND.double(), strict=True):
            out[i] += weight / sum(weights) * v
    return out


def unrolled(logits_NK: Tensor) -> Tensor:
    """What a causal network says of word j at prefix i: (N, N) from one pass over the sentence.

    Entry [i, j] for j <= i is the logit of state i for i - j words back, at most K - 1 back:
    older words keep what state j + K - 1 said. Above the diagonal stands minus infinity."""
    size, back = logits_NK.shape
    i, j = torch.meshgrid(*[torch.arange(size, device=logits_NK.device)] * 2, indexing="ij")
    state = torch.minimum(i, j + back - 1)
    found = logits_NK[state, (state - j).clamp(min=0)]
    return found.masked_fill(j > i, -math.inf)


def mib(network: nn.Module, bytes_each: float = 4) -> float:
    """MiB of the parameters at so many bytes each."""
    return sum(p.numel() for p in network.parameters()) * bytes_each / 2**20


def save(networks: dict[str, PrefixNetwork], vocabulary: Vocabulary, path: Path) -> None:
    """Networks in int8 with one float16 scale a row, and their vocabulary, as safetensors.

    Vectors (norms, biases) stay float16. A weight moves by at most half a step of its row.
    """
    from safetensors.torch import save_file

    kept: dict[str, Tensor] = {}
    for name, network in networks.items():
        for key, value in network.state_dict().items():
            if value.dim() == 2:
                scale = (value.abs().amax(1, keepdim=True) / 127).clamp(min=1e-6).half()
                kept[f"{name}/{key}/scale"] = scale
                value = (value / scale.float()).round().clamp(-127, 127).to(torch.int8)
            kept[f"{name}/{key}"] = value if value.dtype == torch.int8 else value.half()
    kept |= {f"{name}/causal": torch.tensor(int(n.causal)) for name, n in networks.items()}
    kept |= {f"{name}/heads": torch.tensor(n.sizes["heads"]) for name, n in networks.items()}
    words = {"words": " ".join(vocabulary.words), "buckets": str(vocabulary.buckets)}
    save_file(kept, path, words)


def load(path: Path) -> tuple[dict[str, PrefixNetwork], Vocabulary]:
    """What `save` kept: networks by name in float32, in evaluation mode, and the vocabulary."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        kept = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        words = file.metadata()
    vocabulary = Vocabulary(words["words"].split(), int(words["buckets"]))
    found = {}
    for name in sorted({key.split("/")[0] for key in kept}):
        part = {k.split("/", 1)[1]: v for k, v in kept.items() if k.startswith(f"{name}/")}
        state = {}
        for key, value in part.items():
            if not key.endswith("/scale") and key not in ("causal", "heads"):
                scale = part.get(f"{key}/scale")
                state[key] = value.float() * (1 if scale is None else scale.float())
        width = state["word.weight"].shape[1]
        layers = len({key.split(".")[1] for key in state if key.startswith("layers.")})
        heads = int(part["heads"])
        network = PrefixNetwork(len(vocabulary), width, layers, heads, bool(part["causal"]))
        network.load_state_dict(state)
        found[name] = network.eval()
    return found, vocabulary
