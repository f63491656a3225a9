"""Fine-tuning the encoder on rated pairs, as a bi-encoder or a cross-encoder.

- A bi-encoder (Reimers and Gurevych 2019) reads `[CLS] phrase [SEP] title [SEP]`, each phrase
  alone. Its vectors can be kept, so a search over millions is a matrix product.
- A cross-encoder reads `[CLS] anchor [SEP] target [SEP] title [SEP]`. The words of both phrases
  see each other in every layer; nothing can be kept.

Either way a phrase's vector is the mean state of its own tokens, up to its [SEP], and the score
is scale · cosine + shift, trained by its squared error: training begins with the cosine, which
this encoder was made for, where the usual linear layer on the first state begins at random.
Nothing makes the score of two equal phrases 1: the line is fitted to all ratings.

After the title may follow other targets that raters saw for this anchor and context, as in the
competition's winning models; that is transductive, since a single query has no list.

On a CPU the states under the trained layers are computed once and kept (`States`). Embeddings
are never trained. On a GPU with bfloat16 units the layers run in it.

Shapes: `N` pairs of `K` texts each, `B` texts of a batch, `T` tokens, `S` phrases in a text,
`D` = 384 features. `K`, `S` are 2, 1 for a bi-encoder and 1, 2 for a cross-encoder.
"""

import copy
from typing import NamedTuple

import numpy as np
import torch
from helpers import device as machine
from patent_pairs import Pairs, other_targets, titles
from phrase_encoder import Encoder, buckets, token_ids
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

KINDS = ("bi-encoder", "cross-encoder")


class Texts(NamedTuple):
    """Different texts as token ids, where each of their phrases ends, (texts, S), and the texts
    of each pair, (N, K)."""

    ids: list[list[int]]
    ends: np.ndarray
    uses: np.ndarray


class Recipe(NamedTuple):
    """How to train."""

    frozen: int = 4  # layers left as they are
    epochs: int = 3
    batch: int = 32
    rate: float = 1e-4  # the highest
    seed: int = 0


def texts(pairs: Pairs, kind: str, context: bool, listed: int = 0) -> Texts:
    """The texts of the pairs, each once: two for each pair for a bi-encoder, one for a
    cross-encoder; with the context's title if asked, and with `listed` targets of its list.

    Raises ValueError for another kind or an unknown context.
    """
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r}; allowed are {' and '.join(KINDS)}")
    if context and (unknown := sorted(set(pairs.context) - set(titles()))):
        known = f"cpc_titles.tsv has the {len(titles())} known"
        raise ValueError(f"contexts {unknown[:3]} are unknown; {known}")
    more = [(titles()[one],) if context else () for one in pairs.context]
    if listed:
        random = np.random.default_rng(0)
        drawn = (random.permutation(rows)[:listed] for rows in other_targets(pairs))
        more = [(*one, *pairs.target[rows]) for one, rows in zip(more, drawn, strict=True)]
    both = [pairs.anchor, pairs.target]
    texts_of = [[one] for one in both] if kind == "bi-encoder" else [both]
    rows_of = [zip(*parts, more, strict=True) for parts in texts_of]
    columns = [[(*phrases, *rest) for *phrases, rest in rows] for rows in rows_of]
    once = list(dict.fromkeys(key for column in columns for key in column))
    phrases = list(dict.fromkeys(phrase for key in once for phrase in key))
    ids = dict(zip(phrases, token_ids(phrases), strict=True))
    joined, ends = [], []
    for first, *others in once:
        parts = [ids[first], *(ids[phrase][1:] for phrase in others)]  # one [CLS] only
        joined.append(sum(parts, []))
        ends.append(np.cumsum([len(part) for part in parts[: len(texts_of[0])]]))
    place = {key: at for at, key in enumerate(once)}
    uses = np.array([[place[key] for key in column] for column in columns])
    return Texts(joined, np.array(ends), uses.T.reshape(len(pairs), -1))


class States:
    """The states of texts after the lowest `frozen` layers, computed once and kept on the
    encoder's device: 1.5 kB per token in float32."""

    @torch.inference_mode()
    def __init__(self, encoder: Encoder, made: Texts, frozen: int, tokens: int = 2048) -> None:
        where = encoder.norm.weight.device
        self.lengths, self.ends = np.array([len(one) for one in made.ids]), made.ends
        self.starts = np.concatenate([[0], self.lengths.cumsum()])
        self.flat = torch.empty(int(self.starts[-1]), encoder.norm.weight.numel(), device=where)
        for rows in buckets(self.lengths, tokens):
            batch = torch.tensor([made.ids[row] for row in rows], device=where)
            with mixed(where):
                found = encoder.through(encoder.embed(batch), None, 0, frozen)
            places = self.starts[rows][:, None] + np.arange(batch.shape[1])
            self.flat[torch.from_numpy(places).to(where)] = found.float()

    def batch(self, rows: np.ndarray) -> tuple[Tensor, Tensor | None, Tensor]:
        """States (B, T, D) with padding; where tokens are real, (B, T), None without padding;
        which tokens are of which phrase, (B, S, T)."""
        of = [self.flat[self.starts[row] : self.starts[row + 1]] for row in rows]
        x_BTD, lengths = pad_sequence(of, batch_first=True), self.lengths[rows]
        at, ends = torch.arange(x_BTD.shape[1]), torch.from_numpy(self.ends[rows])[..., None]
        begins = F.pad(ends[:, :-1], (0, 0, 1, 0))
        phrase = ((begins <= at) & (at < ends)).to(x_BTD.device)
        if (lengths == lengths[0]).all():
            return x_BTD, None, phrase
        real = at < torch.from_numpy(lengths)[:, None]
        return x_BTD, real.to(x_BTD.device), phrase


class PairScorer(nn.Module):
    """The layers from `frozen` on, scale and shift; called with `States` and pairs' texts."""

    def __init__(self, encoder: Encoder, kind: str, frozen: int) -> None:
        super().__init__()
        self.encoder, self.kind, self.frozen = copy.deepcopy(encoder), kind, frozen
        self.encoder.requires_grad_(False).layers[frozen:].requires_grad_(True)
        self.last = nn.Linear(1, 1, device=encoder.norm.weight.device)
        nn.init.ones_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, states: States, uses_NK: np.ndarray) -> Tensor:
        """Scores (N,), float32; a text of several pairs goes through the layers once."""
        once, place = np.unique(uses_NK, return_inverse=True)
        place_NK = torch.from_numpy(place.reshape(uses_NK.shape)).to(states.flat.device)
        return self.score(*states.batch(once), place_NK)

    def score(
        self, x_BTD: Tensor, real_BT: Tensor | None, phrase_BST: Tensor, place_NK: Tensor
    ) -> Tensor:
        with mixed(x_BTD.device):
            x_BTD = self.encoder.through(x_BTD, real_BT, self.frozen).float()
        vectors_BSD = F.normalize(phrase_BST.float() @ x_BTD, dim=2)  # the mean's direction
        first_ND, second_ND = vectors_BSD[place_NK].flatten(1, 2).unbind(1)
        return self.last((first_ND * second_ND).sum(1, keepdim=True))[:, 0]


def mixed(where: torch.device) -> torch.autocast:
    """bfloat16 where a GPU has units for it, else float32."""
    able = where.type == "cuda" and bool(machine.machine()["bf16"])
    return torch.autocast(where.type, torch.bfloat16, enabled=able)


def batches(states: States, uses: np.ndarray, size: int, random) -> list[np.ndarray]:
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
    groups = [{"params": moved}, {"params": scorer.last.parameters(), "lr": 10 * rate}]
    optimiser, warm = torch.optim.AdamW(groups, rate, weight_decay=0.01), max(1, steps // 10)
    pace = lambda at: min((at + 1) / warm, (steps - at) / max(1, steps - warm))  # noqa: E731
    return optimiser, torch.optim.lr_scheduler.LambdaLR(optimiser, pace)


def train(
    scorer: PairScorer, states: States, uses: np.ndarray, score: np.ndarray, recipe, told=None
) -> list[float]:
    """Train in place by a `Recipe`; the loss of each epoch. `told`, a function, hears the share
    done after each step. ValueError for a score that is no number."""
    if odd := int((~np.isfinite(score)).sum()):
        raise ValueError(f"{odd} scores are no finite number; each pair needs one")
    random = np.random.default_rng(recipe.seed)
    steps = recipe.epochs * -(-len(uses) // recipe.batch)
    optimiser, pace = _optimiser(scorer, recipe.rate, steps)
    target = torch.from_numpy(score).float().to(states.flat.device)
    losses, done = [], 0
    for _ in range(recipe.epochs):
        total = torch.zeros((), device=target.device)
        for rows in batches(states, uses, recipe.batch, random):
            wanted = target[torch.from_numpy(rows).to(target.device)]
            loss = F.mse_loss(scorer(states, uses[rows]), wanted)
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
def predict(scorer: PairScorer, states: States, uses: np.ndarray) -> np.ndarray:
    """Scores of the pairs, float32 (N,)."""
    found = torch.empty(len(uses), device=states.flat.device)
    order = np.argsort(states.lengths[uses].max(1), kind="stable")
    for rows in (order[at : at + 128] for at in range(0, len(order), 128)):
        found[torch.from_numpy(rows).to(found.device)] = scorer(states, uses[rows])
    return found.cpu().numpy()


def fine_tuned(
    encoder: Encoder, train_on: Pairs, kind: str, context: bool, recipe: Recipe
) -> tuple[PairScorer, list[float]]:
    """A scorer trained on these pairs, and its loss in each epoch; the encoder itself stays as
    it is."""
    made, scorer = texts(train_on, kind, context), PairScorer(encoder, kind, recipe.frozen)
    states = States(encoder, made, recipe.frozen)
    return scorer, train(scorer, states, made.uses, train_on.score, recipe)


def scores(scorer: PairScorer, pairs: Pairs, context: bool, listed: int = 0) -> np.ndarray:
    """Scores of pairs by a trained scorer, float32 (N,)."""
    made = texts(pairs, scorer.kind, context, listed)
    return predict(scorer, States(scorer.encoder, made, scorer.frozen), made.uses)


def with_other_targets(score: np.ndarray, vectors: np.ndarray, others: list) -> np.ndarray:
    """Features (N, 4): a pair's score, its distance to the mean of its list, the share of the
    list below it, and the mean cosine of its target to the list's (`vectors` (N, D))."""
    rows = []
    for at, list_ in enumerate(others):
        one, rest = score[at], score[list_]
        near = (vectors[list_] @ vectors[at]).mean() if len(list_) else 0.0
        beside = (one - rest.mean(), (rest < one).mean()) if len(list_) else (0.0, 0.5)
        rows.append((one, *beside, near))
    return np.array(rows)
