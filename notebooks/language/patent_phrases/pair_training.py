"""Fine-tuning the encoder on rated pairs: two phrases apart, or both (and their context) in one
text.

- `apart` (a bi-encoder, Reimers and Gurevych 2019): each phrase alone, score = scale · cosine +
  shift. A phrase's vector can be kept, so a search over millions is a matrix product.
- `together` (a cross-encoder): `[CLS] anchor [SEP] target [SEP] title [SEP]`, the mean state
  through one linear layer. Words of both phrases see each other in every layer; nothing can be
  kept.

Both are trained by the squared error of the score. On a CPU the lowest layers stay as they are,
and their states are computed once and kept (`States`); an epoch then costs the upper layers
only. Embeddings are never trained. Texts of like length share a batch, so little is padding. On
a GPU with bfloat16 units the layers run in it.

Shapes: `N` pairs, `B` texts of a batch, `T` tokens, `D` = 384 features; `uses` (N, 1) or (N, 2)
int64 says which texts a pair is made of.
"""

import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from helpers import device as machine
from patent_pairs import Pairs, titles
from phrase_encoder import Encoder, buckets, pooled, token_ids
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

KINDS = ("apart", "together")


class Texts(NamedTuple):
    """Token ids of different texts, and for each pair the ones that it is made of, int64 (N, 1)
    or (N, 2)."""

    ids: list[list[int]]
    uses: np.ndarray


class Recipe(NamedTuple):
    """How to train: layers left as they are, passes over the pairs, pairs per step, highest
    learning rate, seed."""

    frozen: int = 4
    epochs: int = 3
    batch: int = 32
    rate: float = 1e-4
    seed: int = 0


def texts(pairs: Pairs, kind: str, context: bool) -> Texts:
    """The texts of the pairs: two for each pair if `apart`, one if `together`; with the
    context's title if asked.

    A text that many pairs use stands there once. Raises ValueError for another kind or an
    unknown context.
    """
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r}; allowed are {' and '.join(KINDS)}")
    unknown = sorted(set(pairs.context) - set(titles()))
    if context and unknown:
        raise ValueError(
            f"contexts {unknown[:3]} are unknown; cpc_titles.tsv has the {len(titles())} known"
        )
    about = [[titles()[one] for one in pairs.context]] if context else []
    texts_of = {
        "apart": ([pairs.anchor], [pairs.target]),
        "together": ([pairs.anchor, pairs.target],),
    }
    columns = [list(zip(*parts, *about, strict=True)) for parts in texts_of[kind]]
    once = list(dict.fromkeys(key for column in columns for key in column))
    phrases = list(dict.fromkeys(phrase for key in once for phrase in key))
    ids = dict(zip(phrases, token_ids(phrases), strict=True))
    place = {key: at for at, key in enumerate(once)}
    joined = [
        ids[key[0]] + [token for phrase in key[1:] for token in ids[phrase][1:]] for key in once
    ]
    uses = np.array([[place[key] for key in column] for column in columns])
    return Texts(joined, uses.T.reshape(len(pairs), -1))


class States:
    """The states of texts after the lowest `frozen` layers, computed once and kept on the
    encoder's device.

    They take 1.5 kB per token in float32. `states.batch(rows)` gives them as (B, T, D) with
    padding, and where the real tokens are, (B, T), or None without any padding.
    """

    @torch.inference_mode()
    def __init__(
        self, encoder: Encoder, ids: Sequence[Sequence[int]], frozen: int, tokens: int = 2048
    ) -> None:
        where = encoder.norm.weight.device
        self.lengths = np.array([len(one) for one in ids])
        self.starts = np.concatenate([[0], self.lengths.cumsum()])
        self.flat = torch.empty(int(self.starts[-1]), encoder.norm.weight.numel(), device=where)
        for rows in buckets(self.lengths, tokens):
            batch = torch.tensor([ids[row] for row in rows], device=where)
            with mixed(where):
                found = encoder.through(encoder.embed(batch), None, 0, frozen)
            places = torch.from_numpy(
                self.starts[rows][:, None] + np.arange(batch.shape[1])
            ).to(where)
            self.flat[places] = found.float()

    def batch(self, rows: np.ndarray) -> tuple[Tensor, Tensor | None]:
        lengths = self.lengths[rows]
        x_BTD = pad_sequence(
            [self.flat[self.starts[row] : self.starts[row + 1]] for row in rows],
            batch_first=True,
        )
        if (lengths == lengths[0]).all():
            return x_BTD, None
        real = torch.arange(x_BTD.shape[1]) < torch.from_numpy(lengths)[:, None]
        return x_BTD, real.to(x_BTD.device)


class PairScorer(nn.Module):
    """The trained part: the layers from `frozen` on and the score's own weights; called with
    `States` and `uses`."""

    def __init__(self, encoder: Encoder, kind: str, frozen: int) -> None:
        super().__init__()
        self.encoder, self.kind, self.frozen = (
            copy.deepcopy(encoder).requires_grad_(False),
            kind,
            frozen,
        )
        self.encoder.layers[frozen:].requires_grad_(True)
        width, where = encoder.norm.weight.numel(), encoder.norm.weight.device
        self.last = nn.Linear(1 if kind == "apart" else width, 1, device=where)
        nn.init.constant_(self.last.weight, 1.0 if kind == "apart" else 0.0)
        nn.init.constant_(self.last.bias, 0.0 if kind == "apart" else 0.4)

    def forward(self, states: States, uses_NK: np.ndarray) -> Tensor:
        """Scores (N,), float32; a text that several of these pairs use goes through the layers
        once."""
        once, place = np.unique(uses_NK, return_inverse=True)
        x_BTD, real_BT = states.batch(once)
        return self.score(
            x_BTD, real_BT, torch.from_numpy(place.reshape(uses_NK.shape)).to(x_BTD.device)
        )

    def score(self, x_BTD: Tensor, real_BT: Tensor | None, place_NK: Tensor) -> Tensor:
        with mixed(x_BTD.device):
            x_BTD = self.encoder.through(x_BTD, real_BT, self.frozen)
        vectors = pooled(x_BTD.float(), real_BT)[place_NK]  # (N, K, D)
        if self.kind == "apart":
            return self.last((vectors[:, 0] * vectors[:, 1]).sum(1, keepdim=True))[:, 0]
        return self.last(vectors[:, 0] * vectors.shape[-1] ** 0.5)[:, 0]


def mixed(where: torch.device) -> torch.autocast:
    """bfloat16 where a GPU has units for it, else float32."""
    able = where.type == "cuda" and bool(machine.machine()["bf16"])
    return torch.autocast(where.type, torch.bfloat16, enabled=able)


def batches(
    states: States, uses: np.ndarray, size: int, random: np.random.Generator
) -> list[np.ndarray]:
    """The pairs in a new order, in batches whose texts have about one length: sorted within
    pools of 16 batches."""
    order = random.permutation(len(uses))
    longest = states.lengths[uses].max(1)
    made = []
    for pool in (order[at : at + 16 * size] for at in range(0, len(order), 16 * size)):
        pool = pool[np.argsort(longest[pool], kind="stable")]
        made += [pool[at : at + size] for at in range(0, len(pool), size)]
    return [made[at] for at in random.permutation(len(made))]


def _optimiser(scorer: PairScorer, rate: float, steps: int) -> tuple:
    """AdamW, and the pace of its rate: up for a tenth of the steps, then down to zero."""
    moved = [weight for weight in scorer.encoder.parameters() if weight.requires_grad]
    groups = [
        {"params": moved, "lr": rate},
        {"params": scorer.last.parameters(), "lr": 10 * rate},
    ]
    optimiser = torch.optim.AdamW(groups, weight_decay=0.01)
    warm = max(1, steps // 10)
    pace = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda at: min((at + 1) / warm, (steps - at) / max(1, steps - warm))
    )
    return optimiser, pace


def train(
    scorer: PairScorer,
    states: States,
    uses: np.ndarray,
    score: np.ndarray,
    recipe: Recipe,
    told: Callable[[float], None] | None = None,
) -> list[float]:
    """Train in place by AdamW with a rate that rises for a tenth of the steps and falls to
    zero; the loss of each epoch.

    `told` hears the share done after each step. Raises ValueError for a score that is no
    number.
    """
    if not np.isfinite(score).all():
        raise ValueError(
            f"{(~np.isfinite(score)).sum()} scores are no finite number; each pair needs one"
        )
    random = np.random.default_rng(recipe.seed)
    steps = recipe.epochs * -(-len(uses) // recipe.batch)
    optimiser, pace = _optimiser(scorer, recipe.rate, steps)
    target = torch.from_numpy(score).float().to(states.flat.device)
    losses, done = [], 0
    for _ in range(recipe.epochs):
        total = torch.zeros((), device=target.device)
        for rows in batches(states, uses, recipe.batch, random):
            loss = F.mse_loss(
                scorer(states, uses[rows]), target[torch.from_numpy(rows).to(target.device)]
            )
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(scorer.parameters(), 1.0)
            optimiser.step()
            pace.step()
            total += loss.detach() * len(rows)
            done += 1
            if told:
                told(done / steps)
        losses.append(float(total) / len(uses))
    return losses


@torch.inference_mode()
def predict(
    scorer: PairScorer, states: States, uses: np.ndarray, size: int = 128
) -> np.ndarray:
    """Scores of the pairs, float32 (N,)."""
    found = torch.empty(len(uses), device=states.flat.device)
    order = np.argsort(states.lengths[uses].max(1), kind="stable")
    for at in range(0, len(order), size):
        rows = order[at : at + size]
        found[torch.from_numpy(rows).to(found.device)] = scorer(states, uses[rows])
    return found.cpu().numpy()


def fine_tuned(
    encoder: Encoder,
    train_on: Pairs,
    kind: str,
    context: bool,
    recipe: Recipe,
    told: Callable | None = None,
) -> tuple[PairScorer, list[float]]:
    """A scorer trained on these pairs, and its loss in each epoch; the encoder itself stays as
    it is."""
    torch.manual_seed(recipe.seed)
    made = texts(train_on, kind, context)
    scorer = PairScorer(encoder, kind, recipe.frozen)
    states = States(encoder, made.ids, recipe.frozen)
    return scorer, train(scorer, states, made.uses, train_on.score, recipe, told)


def scores(scorer: PairScorer, pairs: Pairs, context: bool) -> np.ndarray:
    """Scores of pairs by a trained scorer, float32 (N,)."""
    made = texts(pairs, scorer.kind, context)
    return predict(scorer, States(scorer.encoder, made.ids, scorer.frozen), made.uses)


def with_other_targets(
    cosine: np.ndarray, vectors: np.ndarray, others: list[np.ndarray]
) -> np.ndarray:
    """Features (N, 4) of a pair beside the other targets of its anchor and context.

    The pair's cosine or score, its distance to the mean of the list, the share of the list
    below it, and the target's mean cosine to the list's targets. `vectors` (N, D) are those of
    the targets. Transductive: they need the whole list of the raters, which a single query does
    not have.
    """
    rows = []
    for at, list_ in enumerate(others):
        if not len(list_):
            rows.append((cosine[at], 0.0, 0.5, 0.0))
            continue
        near = float((vectors[list_] @ vectors[at]).mean())
        rows.append(
            (
                cosine[at],
                cosine[at] - cosine[list_].mean(),
                (cosine[list_] < cosine[at]).mean(),
                near,
            )
        )
    return np.array(rows)
