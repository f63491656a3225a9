"""The study of five systems, the printed loss and a causal network, each trained from every
seed on one draw of the data.

    make study CHAPTERS=speech/disfluency STUDY=systems

The wait head goes on from the all-prefix network, so it has read more. One network answers at
all prices of waiting, so the price is set after training, by a rule that looks at the dev part
alone: the smallest of `PRICES` at which the head waits no longer than a look-ahead of one, on
average.

Parts are held apart by their cleaned sentences. Dev and train of Disfl-QA ask about the same
texts (their ids begin alike); test asks about others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import disfl_labels as dl
import disfluency_generator as dg
import numpy as np
import prefix_network as pn
import prefix_training as pt
import streaming_scores as ss
import torch
import word_stream as ws
from helpers import data, device
from helpers.study import Arm, Job, Metric, Outcome, Part, Study, student

DRAWN = ("f1", "strict_f1", "waiting", "coverage", "edit_overhead")
KEPT = (*DRAWN, "precision", "recall", "time_to_detection", "first_time", "final_f1")
TIMES = ("waiting", "time_to_detection", "first_time")  # of these, in words
PRICES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.8)  # nats a word
CURVES = {  # (look-ahead, price of waiting beside the rule's), read from one network
    "wait": tuple((None, 2 ** (step / 3)) for step in range(-6, 7)),
    "ahead": tuple((ahead, 1.0) for ahead in range(5)),
    "doubt": tuple((None, math.exp(-sure)) for sure in (0.2, 0.4, 0.7, 1, 1.4, 1.8, 2.2, 2.6)),
}
FULL = pt.Recipe("full", epochs=24, dropout=0.2)  # as many readings as three a sentence
PREFIXES = pt.Recipe("prefixes", epochs=8, draws=2, dropout=0.2)
WAITING = pt.Recipe("logistic", epochs=4, draws=2, batch=1024, dropout=0.2)
WORDS, BUCKETS = 1200, 200
STARTS = {"new": {}, "new causal": {"causal": True}, "narrow": {"width": 32}}


class Guess(NamedTuple):
    """Masked pre-training, for so many epochs; no label is read."""

    epochs: int


class Lessons(NamedTuple):
    """What an arm learns from; `bare` are texts whose labels nobody knows."""

    utterances: list[dl.Utterance]
    vocabulary: dl.Vocabulary
    bare: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class Labeller:
    """A network, the numbers of its words, and the price of waiting that was chosen for it."""

    network: pn.PrefixNetwork
    vocabulary: dl.Vocabulary
    price: float | None = None


@dataclass(frozen=True)
class World:
    """What is learned from and judged on; `dev` holds real and made (generated) utterances."""

    train: list[dl.Utterance]
    dev: list[dl.Utterance]
    real: list[dl.Utterance]
    made: list[dl.Utterance]
    vocabulary: dl.Vocabulary


def world(folder: Path, sentences: int | None = None, tests: int = 300, seed: int = 0) -> World:
    """The world of a page or a study: labelled questions, fluent originals as negatives, and
    originals said anew by the generator. Real test: questions, and half as many other
    originals."""
    rng = np.random.default_rng(seed)
    labelled, originals, _ = dl.read(folder / "train.json")
    others = dg.alternatives(originals)
    order = rng.permutation(len(labelled))[:sentences]
    train = [labelled[at] for at in order]
    train += [dg.spoken(originals[at], rng, others) for at in order]
    train += [dl.fluent(originals[at]) for at in order[: len(order) // 3]]
    parts = {}
    for name in ("dev", "test"):
        rows, fluent, _ = dl.read(folder / f"{name}.json")
        real = rows[:tests] + [dl.fluent(w) for w in fluent[tests : tests + tests // 2]]
        parts[name] = real, [dg.spoken(w, rng, others) for w in fluent[:tests]]
    vocabulary = dl.Vocabulary.of([u.words for u in labelled], WORDS, BUCKETS)
    return World(train, sum(parts["dev"], []), *parts["test"], vocabulary)


def started(w: World | Lessons, seed: int, causal=False, width: int = 64) -> pn.PrefixNetwork:
    """A new network whose wait head is undecided, which reads as "predict"."""
    torch.manual_seed(seed)
    network = pn.PrefixNetwork(len(w.vocabulary), width, causal=causal).to(device.device())
    for part in network.wait.parameters():
        torch.nn.init.zeros_(part)
    return network


def read(found: list, part: list[dl.Utterance], look_ahead, price: float = 1.0) -> ss.Scores:
    """The scores of one reading of a network's logits."""
    return ss.score([ws.predictions(z, look_ahead, price) for z in found], part)


def price(waits: dict[float, float], limit: float) -> float:
    """The rule: the smallest price with a mean wait of `limit` or less; the largest if none.

    `price({0.1: 2.0, 0.2: 0.9, 0.4: 0.1}, 1.0)` is 0.2."""
    return min((p for p, wait in waits.items() if wait <= limit), default=max(waits))


def calibrated(made: Labeller, dev: list[dl.Utterance]) -> Labeller:
    """The labeller with its price by the rule; the wait head's bias is moved so that zero is
    its threshold."""
    found, latency = pt.logits(made.network, dev, made.vocabulary), WAITING.latency
    waits = {p: read(found, dev, None, p / latency).waiting for p in PRICES}
    cost = price(waits, read(found, dev, 1).waiting)
    made.network.wait.bias.data -= math.log(cost / latency)
    return replace(made, price=cost)


def begin(word: str, job: Job) -> Labeller:
    """A new network, of the kind that the word names."""
    network = started(job.train, job.seed, **STARTS[word])
    return Labeller(network, job.train.vocabulary)


def fit(job: Job) -> Labeller:
    """The first start after training; others, if there are any, label the bare texts first."""
    made, *teachers = (job.start,) if isinstance(job.start, Labeller) else job.start
    (rows, vocabulary, bare), recipe = job.train, job.arm.loss
    if isinstance(recipe, Guess):
        pt.pretrain(made.network, rows, vocabulary, recipe.epochs, job.seed)
        return made
    for teacher in teachers:
        rows = rows + pt.self_labelled(teacher.network, bare, vocabulary)
    if "readings" in job.sizes:
        recipe = replace(recipe, epochs=max(1, job.sizes["readings"] // len(rows)))
    pt.train(made.network, rows, vocabulary, recipe, job.seed)
    return calibrated(made, job.choice) if job.choice else made


def judge(made: Labeller, rows: list[dl.Utterance], job: Job) -> dict:
    """The scores of one way to read a network, of many as lists, or of none but its price."""
    setting = job.arm.setting
    if not setting:
        return {"prices": [made.price] if made.price else []}
    found = pt.logits(made.network, rows, made.vocabulary)
    if tries := setting.get("readings"):
        if setting["doubt"]:
            found = [(z, -z.abs()) for z, _ in found]  # largest near 0, undecided
        many = [read(found, rows, *one) for one in tries]
        return {key: [getattr(told, key) for told in many] for key in DRAWN}
    told = read(found, rows, setting["ahead"], setting.get("price", 1.0))
    kinds = told.waits if setting["ahead"] is None else {}
    waits = {f"wait_{kind}": wait for kind, wait in kinds.items()}
    return {key: getattr(told, key) for key in KEPT} | waits


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """What is learned from and judged on, the same for all seeds."""
    w = world(data.fetch("disfl_qa"), sizes["sentences"], sizes["tests"])
    tests = {name: part(getattr(w, name)) for name in ("dev", "real", "made")}
    return {"train": part(w.train, w.vocabulary), **tests}


def part(rows: list[dl.Utterance], vocabulary=None, bare: Sequence = ()) -> Part:
    """Lessons, or, without a vocabulary, utterances to be judged on; the units are the cleaned
    sentences."""
    units = [" ".join(u.cleaned) for u in rows] + [" ".join(u.cleaned) for u in bare]
    texts = [u.words for u in bare]
    return Part(Lessons(rows, vocabulary, texts) if vocabulary else rows, units)


def reading(start: str, ahead: int | None, **more) -> Arm:
    """An arm that reads prefixes with a look-ahead, or (None) by its wait head."""
    return Arm(start=start, setting={"ahead": ahead}, test=("real", "made"), **more)


SYSTEMS = {
    "pretrained": Arm(train="train", loss=Guess(1), test=("real",)),
    "full": Arm(start="pretrained", train="train", loss=FULL, test=("real",)),
    "prefixes": Arm(start="pretrained", train="train", loss=PREFIXES, test=("real",)),
    "wait": Arm(start="prefixes", train="train", choice="dev", loss=WAITING, test=("real",)),
    **{name: reading(*how) for name, how in ws.SYSTEMS.items()},
    "printed": reading("prefixes", None, train="train", loss=replace(WAITING, kind="printed")),
    "causal": reading("new causal", 0, train="train", loss=replace(FULL, kind="causal")),
    "cold prefixes": reading("new", 0, train="train", loss=PREFIXES),
    "full look-ahead 1": reading("full", 1),
    "full look-ahead 2": reading("full", 2),
    "own look-ahead 1": reading("wait", 1),  # the wait head's network without its wait head
}
for _name, _tries in CURVES.items():
    _how = {"readings": _tries, "doubt": _name == "doubt"}
    SYSTEMS[f"curve {_name}"] = Arm(start="wait", setting=_how, test=("real", "made"))
OTHERS = {"own look-ahead 1": (), "look-ahead 1": ("start",), "look-ahead 2": ("start",)}
OTHERS["all prefixes"] = ("start",)
COMPARED = {
    f"study_{part}_over_{other}_{key}": Outcome(
        key, "wait head", other, ("setting.ahead", *more), part
    )
    for part in ("real", "made")
    for other, more in OTHERS.items()
    for key in ("f1", "strict_f1", "edit_overhead", "waiting")
}
CAUSAL = ("loss.draws", "loss.epochs", "loss.kind", "start")  # draws and epochs: all is read
COMPARED |= {
    f"study_{part}_causality_{key}": Outcome(key, "causal", "cold prefixes", CAUSAL, part)
    for part in ("real", "made")
    for key in ("f1", "final_f1")
}


def drawn(receipt, found: dict) -> None:
    """Record the price, and the curves' means over the seeds."""
    prices = [scores["real"]["prices"][0] for scores in found["wait"].values()]
    mean, low, high = student(prices)
    receipt.record("study_price", mean, "nats", low, high, len(prices), interval="95 %")
    for name in CURVES:
        for part in ("real", "made"):
            runs = [scores[part] for scores in found[f"curve {name}"].values()]
            means = {key: np.mean([run[key] for run in runs], 0).tolist() for key in DRAWN}
            receipt.curve(f"study_{part}_{name}", **means)


METRICS = {key: Metric("words" if key in TIMES else "share") for key in KEPT}
STUDY = Study(
    notebook="disfluency",
    name="systems",
    arms=SYSTEMS,
    seeds=range(5),
    sizes={"sentences": 3000, "tests": 300},
    trial={"sentences": 12, "tests": 8},
    metrics=METRICS | {f"wait_{kind}": Metric("words") for kind in dl.KINDS},
    parts=parts,
    begin=begin,
    fit=fit,
    judge=judge,
    outcomes=COMPARED,
    extra=drawn,
    key="study_{part}_{arm}_{metric}",
    over="seeds, on one draw of the data",
)
