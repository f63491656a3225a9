"""Training on prefixes: a loss that cannot teach the wait head to wait, and one that can.

Chen et al. (2022) add three terms over the prefixes x_1 ... x_|x| of a sentence x; f gives the
disfluency logits, g the wait logits, s is the sigmoid:

    CE(f(x), y) + gamma * sum_i m(s(g(x_i))) . CE(f(x_i), y_i) + lambda * sum_i sum_j (i - j)
    s(g(x_i))_j

with m_j = 1 where j < k, and k the first word with s(g) > 0.5. The mask m is a step: its
gradient with respect to g is zero everywhere. So the second term, the only one with a reason to
wait, never reaches the wait head, and the third pushes it down (Adam, which divides a slope by
its size, does so at the paper's lambda, 1.5e-7, too). What waits remain no error has chosen.

Two repairs, per word, with the error e of f as a constant and a lag of i - j + 1 (as printed a
wait on the newest word is free). In both f learns from every prefix; else words that are hidden
are no longer learned, so they are hidden for ever.

    smooth      gamma e (1 - s(g)) + lambda lag s(g)
    logistic    gamma e softplus(-g) + lambda lag softplus(g)

*smooth* has a slope, s (1 - s), which dies where the head is sure: it ends at always or never.
*logistic* bounds both steps from above, as the logistic loss does in classification. It is
convex in g, and lowest at g = log(gamma E[e] / (lambda lag)): the head is above zero where the
error to be expected costs more than the wait. So another lambda is another threshold
(`word_stream.predictions`), and one network serves all prices.

Shapes: B prefixes of one length, N words. All sums are divided by the words of the batch.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from disfl_labels import LONGEST, Utterance, Vocabulary, fluent
from prefix_network import PrefixNetwork, unrolled
from torch import Tensor
from torch.nn import functional as F

Batch = tuple[Tensor, Tensor, Tensor]  # ids (B, N), labels (B, N), is the prefix all? (B)
KINDS = ("full", "prefixes", "causal", "printed", "smooth", "logistic")


@dataclass(frozen=True)
class Recipe:
    """How to train: `kind` is full (whole sentences), prefixes, causal (whole sentences for a
    causal network), or with waits printed, smooth or logistic.

    `draws`: prefixes of each sentence in an epoch, beside the whole; None takes all of them.
    `batch` is in words. `new_head`: the wait head begins as PyTorch draws it."""

    kind: str = "logistic"
    epochs: int = 3
    draws: int | None = 3
    rate: float = 2e-3
    batch: int = 2048
    gamma: float = 1.9
    latency: float = 0.35
    dropout: float = 0.1
    new_head: bool = False


def term_weights(wait_BN: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """What weighs each word's error and what weighs its lag, both (B, N), from wait logits."""
    if kind == "logistic":
        return F.softplus(-wait_BN), F.softplus(wait_BN)
    waits = torch.sigmoid(wait_BN)
    if kind == "smooth":
        return 1 - waits, waits
    return ((waits > 0.5).cumsum(1) == 0).to(waits.dtype), waits


def wait_loss(found: tuple[Tensor, Tensor], batch: Batch, recipe: Recipe) -> tuple[Tensor, ...]:
    """The three terms, weighted, for logits (B, N) of both heads; see the module's head."""
    (logits_BN, wait_BN), (_, labels_BN, whole_B) = found, batch
    ours, size, count = recipe.kind != "printed", logits_BN.shape[1], labels_BN.numel()
    entropy_BN = F.binary_cross_entropy_with_logits(logits_BN, labels_BN, reduction="none")
    whole_B1 = whole_B[:, None].to(entropy_BN.dtype)
    shown_BN, held_BN = term_weights(wait_BN, recipe.kind)
    lag_N = torch.arange(size - 1, -1, -1, device=logits_BN.device) + ours
    first = entropy_BN if ours else entropy_BN * whole_B1
    second = shown_BN * (entropy_BN.detach() if ours else entropy_BN) * (1 - whole_B1)
    late = lag_N * held_BN * (1 - whole_B1)
    terms = first, recipe.gamma * second, recipe.latency * late
    return tuple(term.sum() / count for term in terms)


def batches(
    utterances: Sequence[Utterance], vocabulary: Vocabulary, recipe: Recipe, rng, device="cpu"
) -> Iterator[Batch]:
    """One epoch in random order: prefixes of one length each; whole sentences, if `full`."""
    by_length = defaultdict(list)
    for utterance in utterances:
        size = len(utterance.words)
        if not 1 <= size <= LONGEST:
            raise ValueError(f"an utterance of {size} words: 1 to {LONGEST} are allowed")
        ids, ends = vocabulary(utterance.words), [size]
        if recipe.kind not in ("full", "causal") and size > 1:
            every = np.arange(1, size)
            few = recipe.draws is not None and recipe.draws < len(every)
            ends += (rng.choice(every, recipe.draws, replace=False) if few else every).tolist()
        for end in ends:
            by_length[end].append((ids[:end], utterance.labels[:end], end == size))
    made = []
    for length, rows in by_length.items():
        order, step = rng.permutation(len(rows)), max(1, recipe.batch // length)
        made += [[rows[at] for at in order[a : a + step]] for a in range(0, len(rows), step)]
    for at in rng.permutation(len(made)):
        ids, labels, whole = zip(*made[at], strict=True)
        yield (
            torch.tensor(ids, device=device),
            torch.tensor(labels, dtype=torch.float32, device=device),
            torch.tensor(whole, device=device),
        )


def loss_of(network: PrefixNetwork, batch: Batch, recipe: Recipe) -> Tensor:
    """The training loss of one batch for the recipe's kind."""
    disfluent, wait = network(batch[0])
    if network.causal:  # one pass over a sentence gives the labels of all its prefixes
        (_, size), back = batch[1].shape, min(network.back, batch[1].shape[1])
        pairs = ((disfluent[:, k:, k], batch[1][:, : size - k]) for k in range(back))
        error = partial(F.binary_cross_entropy_with_logits, reduction="sum")
        return sum(error(*pair) for pair in pairs) / (back * batch[1].numel())
    if recipe.kind in ("full", "prefixes"):
        return F.binary_cross_entropy_with_logits(disfluent[..., 0], batch[1])
    return sum(wait_loss((disfluent[..., 0], wait[..., 0]), batch, recipe))


def train(
    network: PrefixNetwork,
    utterances: Sequence[Utterance] | Callable[[np.random.Generator], Sequence[Utterance]],
    vocabulary: Vocabulary,
    recipe: Recipe,
    seed: int = 0,
    loss: Callable = loss_of,
) -> list[float]:
    """The mean loss of each epoch; the network is trained in place and left in evaluation mode.
    `utterances` may be a function that draws them anew for each epoch.

    Adam with a rate that falls in a line to zero. Word dropout (`recipe.dropout`) sends a word
    to a random bucket-or-word number, all its copies in the prefix alike, so that repetition
    survives."""
    if recipe.kind not in KINDS:
        raise ValueError(f"kind={recipe.kind!r}: {', '.join(KINDS)} are allowed")
    rng, where = np.random.default_rng(seed), next(network.parameters()).device
    torch.manual_seed(seed)
    if recipe.new_head:
        network.wait.reset_parameters()
    optimiser = torch.optim.AdamW(network.parameters(), lr=recipe.rate, weight_decay=0.01)
    network.train()
    means = []
    for epoch in range(recipe.epochs):
        rows = utterances(rng) if callable(utterances) else utterances
        made = list(batches(rows, vocabulary, recipe, rng, where))
        total = torch.zeros((), device=where)
        for at, (ids, labels, whole) in enumerate(made):
            for group in optimiser.param_groups:
                group["lr"] = recipe.rate * (1 - (epoch + at / len(made)) / recipe.epochs)
            ids = renamed(ids, len(vocabulary), recipe.dropout)
            value = loss(network, (ids, labels, whole), recipe)
            optimiser.zero_grad(set_to_none=True)
            value.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            total += value.detach()
        means.append(float(total) / len(made))
    network.eval()
    return means


def renamed(ids_BN: Tensor, size: int, share: float) -> Tensor:
    """Word numbers with a share of the vocabulary mapped to other numbers, per batch: a word
    may become another, but two copies of a word stay alike."""
    if not share:
        return ids_BN
    table = torch.arange(size, device=ids_BN.device)
    other = torch.randint(2, size, (size,), device=ids_BN.device)
    chosen = torch.rand(size, device=ids_BN.device) < share
    return torch.where(chosen, other, table)[ids_BN]


def pretrain(
    network: PrefixNetwork, texts, vocabulary: Vocabulary, epochs: int = 3, seed: int = 0
) -> list[float]:
    """Masked pre-training in miniature: 15 % of the words are hidden and guessed (BERT's task).

    `texts` are as `train`'s utterances, whose labels are not read. Returns the mean loss of
    each epoch, in nats for each hidden word."""

    def guess(network: PrefixNetwork, batch: Batch, recipe: Recipe) -> Tensor:
        ids = batch[0]
        hidden = torch.rand(ids.shape, device=ids.device) < 0.15
        hidden[:, 0] |= ~hidden.any(1)  # one at least
        logits = network.guess_words(ids.masked_fill(hidden, 1))[hidden]
        return F.cross_entropy(logits, ids[hidden])

    recipe = Recipe("full", epochs, batch=1024, dropout=0.0)
    return train(network, texts, vocabulary, recipe, seed, guess)


@torch.inference_mode()
def logits(
    network: PrefixNetwork,
    utterances: Sequence[Utterance],
    vocabulary: Vocabulary,
    tokens=16384,
) -> list[tuple[Tensor, Tensor]]:
    """For each utterance both heads' logits as (N, N): row i holds prefix i + 1, minus infinity
    beyond it. A causal network needs a pass a sentence, a bidirectional one a pass a prefix."""
    where = next(network.parameters()).device
    coded = [vocabulary(u.words) for u in utterances]
    if network.causal:
        found = [network(torch.tensor([ids], device=where)) for ids in coded]
        return [tuple(unrolled(part[0]).cpu() for part in both) for both in found]
    out = [tuple(torch.full((len(c),) * 2, -torch.inf) for _ in range(2)) for c in coded]
    by_length = defaultdict(list)
    for at, ids in enumerate(coded):
        for end in range(1, len(ids) + 1):
            by_length[end].append(at)
    for length, rows in by_length.items():
        step = max(1, tokens // length)
        for part in (rows[a : a + step] for a in range(0, len(rows), step)):
            both = network(torch.tensor([coded[at][:length] for at in part], device=where))
            for target, values in enumerate(both):
                for at, row in zip(part, values[..., 0].cpu(), strict=True):
                    out[at][target][length - 1, :length] = row
    return out


@torch.inference_mode()
def final_labels(
    network: PrefixNetwork, utterances: Sequence[Utterance], vocabulary: Vocabulary
) -> list[list[int]]:
    """The labels of whole sentences, one pass each."""
    where, found = next(network.parameters()).device, []
    for u in utterances:
        z_NK = network(torch.tensor([vocabulary(u.words)], device=where))[0][0]
        z_N = unrolled(z_NK)[-1] if network.causal else z_NK[:, 0]
        found.append((z_N > 0).int().tolist())
    return found


def self_labelled(
    teacher: PrefixNetwork, texts: Sequence[Sequence[str]], vocabulary: Vocabulary
) -> list[Utterance]:
    """The texts with the teacher's labels: what a student is trained on (self-training)."""
    bare = [fluent(words) for words in texts]
    labels = final_labels(teacher, bare, vocabulary)
    return [replace(u, labels=tuple(y)) for u, y in zip(bare, labels, strict=True)]
