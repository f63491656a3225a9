"""The study of five systems, the printed loss, a list of fillers, and a causal network; and the
networks that the page loads, three arms of its first seed.

    make study CHAPTERS=speech/disfluency STUDY=systems
    python -m study_disfluency disfluency_networks.safetensors

A seed draws the sentences of dev and test, and what the generator makes of them; of the
training questions it makes something else in each epoch. Test questions ask about other texts
than those of train and dev, which share theirs; one question that stands in two parts is left
out.

The wait head goes on from the network of prefixes, so it has read more. One network answers at
all prices of waiting, so the price is set after training, by a rule that looks at the dev part
alone: the smallest of `PRICES` at which the head waits no longer than a look-ahead of one.
"""

import copy
import math
import sys
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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
FULL = pt.Recipe("full", epochs=96, dropout=0.2)
HALF = replace(FULL, epochs=48)  # for what is compared at half the readings
PREFIXES = pt.Recipe("prefixes", epochs=32, draws=2, dropout=0.2)  # as many readings
WAITING = pt.Recipe("logistic", epochs=4, draws=2, batch=1024, dropout=0.2)
PRINTED = {  # the loss as the paper prints it: our price, the paper's, a head that is not zero
    "printed ours": replace(WAITING, kind="printed"),
    "printed paper": replace(WAITING, kind="printed", latency=1.5e-7),
    "printed default": replace(WAITING, kind="printed", latency=1.5e-7, new_head=True),
}
WORDS, BUCKETS = 1200, 200
SHIPPED = ("full", "prefixes", "wait")
STARTS = {"new": {}, "new causal": {"causal": True}, "narrow": {"width": 32}}
ORDINARY = Path(__file__).with_name("ordinary_sentences.json")

Guess = namedtuple("Guess", "epochs")  # masked pre-training; no label is read
# What an arm learns from: utterances, the numbers of their words, texts whose labels nobody
# knows (bare), and texts that the generator says anew in each epoch.
Lessons = namedtuple("Lessons", "utterances vocabulary bare said", defaults=((), ()))
# What is learned from and judged on; dev holds real and made (generated) utterances.
World = namedtuple("World", "train said dev real made vocabulary")


@dataclass(frozen=True)
class Labeller:
    """A network (None: the list of fillers), its words' numbers, the price chosen for it."""

    network: pn.PrefixNetwork | None
    vocabulary: dl.Vocabulary
    price: float | None = None


def world(folder: Path, sentences: int | None = None, tests: int = 300, seed: int = 0) -> World:
    """The world of a page or a study: labelled questions, a third of their originals as
    negatives, and all originals for the generator to say. Real test: `tests` questions and half
    as many other originals, at random; made: what the generator makes of these questions."""
    rng, held, parts = np.random.default_rng(seed), set(), {}
    labelled, originals, _ = dl.read(folder / "train.json")
    others = dg.alternatives(originals)
    for name in ("dev", "test"):
        rows, fluent, _ = dl.read(folder / f"{name}.json")
        asked, rest = np.split(rng.permutation(len(rows))[: tests + tests // 2], [tests])
        real = [rows[at] for at in asked] + [dl.fluent(fluent[at]) for at in rest]
        parts[name] = real, [dg.spoken(fluent[at], rng, others) for at in asked]
        held |= set(fluent)
    order = [at for at in rng.permutation(len(labelled)) if originals[at] not in held]
    train, said = zip(*((labelled[at], originals[at]) for at in order[:sentences]), strict=True)
    train += tuple(map(dl.fluent, said[: len(said) // 3]))
    vocabulary = dl.Vocabulary.of([u.words for u in labelled], WORDS, BUCKETS)
    return World([*train], [*said], sum(parts["dev"], []), *parts["test"], vocabulary)


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
    """The rule: the smallest price with a mean wait of `limit` or less; the largest if none."""
    return min((p for p, wait in waits.items() if wait <= limit), default=max(waits))


def calibrated(made: Labeller, dev: list[dl.Utterance]) -> Labeller:
    """The labeller with its price by the rule, and that as its wait head's threshold."""
    found, latency = pt.logits(made.network, dev, made.vocabulary), WAITING.latency
    waits = {p: read(found, dev, None, p / latency).waiting for p in PRICES}
    cost = price(waits, read(found, dev, 1).waiting)
    made.network.wait.bias.data -= math.log(cost / latency)
    return replace(made, price=cost)


def begin(word: str, job: Job) -> Labeller:
    """A new network, of the kind that the word names, or the list."""
    if word == "list":
        return Labeller(None, dl.Vocabulary([]))
    return Labeller(started(job.train, job.seed, **STARTS[word]), job.train.vocabulary)


def fit(job: Job) -> Labeller:
    """The first start after training; others, if there are any, label the bare texts first."""
    made, *teachers = (job.start,) if isinstance(job.start, Labeller) else job.start
    (rows, vocabulary, bare, said), recipe = job.train, job.arm.loss
    for teacher in teachers:
        rows = rows + pt.self_labelled(teacher.network, bare, vocabulary)
    others = dg.alternatives(said)
    drawn = lambda rng: rows + [dg.spoken(text, rng, others) for text in said]  # noqa: E731
    if isinstance(recipe, Guess):
        pt.pretrain(made.network, drawn, vocabulary, recipe.epochs, job.seed)
        return made
    if "readings" in job.sizes:
        recipe = replace(recipe, epochs=max(1, job.sizes["readings"] // len(rows)))
    pt.train(made.network, drawn, vocabulary, recipe, job.seed)
    return calibrated(made, job.choice) if job.choice else made


def judge(made: Labeller, rows: list[dl.Utterance], job: Job) -> dict:
    """The scores of one way to read a network, of many as lists, or of none but its price."""
    setting = job.arm.setting
    if not setting:
        return {"prices": [made.price] if made.price else []}
    if not made.network:
        told = ss.score([ws.floor_predictions(u.words) for u in rows], rows)
        return {key: getattr(told, key) for key in KEPT}
    found = pt.logits(made.network, rows, made.vocabulary)
    if tries := setting.get("readings"):
        if setting["doubt"]:
            found = [(z, -z.abs()) for z, _ in found]  # largest near 0, undecided
        many = [read(found, rows, *one) for one in tries]
        return {key: [getattr(told, key) for told in many] for key in DRAWN}
    told = read(found, rows, setting["ahead"], setting.get("price", 1.0))
    kinds = dl.KINDS if setting["ahead"] is None else ()  # one may have no word in a draw
    waits = {f"wait_{kind}": told.waits.get(kind, math.nan) for kind in kinds}
    return {key: getattr(told, key) for key in KEPT} | waits


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """What is learned from and judged on; ordinary sentences are the same for all seeds."""
    w = world(data.fetch("disfl_qa"), sizes["sentences"], sizes["tests"], seed)
    tests = {name: part(getattr(w, name)) for name in ("dev", "real", "made")}
    tests["typed"] = part(dl.read(ORDINARY)[0])
    return {"train": part(w.train, w.vocabulary, said=w.said), **tests}


def part(rows: list[dl.Utterance], vocabulary=None, bare: Sequence = (), said=()) -> Part:
    """Lessons, or, without a vocabulary, utterances to judge; units are cleaned sentences."""
    units = [" ".join(u.cleaned) for u in [*rows, *bare]] + [" ".join(text) for text in said]
    texts = [u.words for u in bare]
    return Part(Lessons(rows, vocabulary, texts, said) if vocabulary else rows, units)


def reading(start: str, ahead: int | None, **more) -> Arm:
    """An arm that reads prefixes with a look-ahead, or (None) by its wait head."""
    return Arm(start=start, setting={"ahead": ahead}, test=TESTS, **more)


TESTS = ("real", "made", "typed")
SYSTEMS = {
    "pretrained": Arm(train="train", loss=Guess(1), test=("real",)),
    "full": Arm(start="pretrained", train="train", loss=FULL, test=("real",)),
    "prefixes": Arm(start="pretrained", train="train", loss=PREFIXES, test=("real",)),
    "wait": Arm(start="prefixes", train="train", choice="dev", loss=WAITING, test=("real",)),
    **{name: reading(*how) for name, how in ws.SYSTEMS.items()},
    "floor": reading("list", 0),
    "causal": reading("new causal", 0, train="train", loss=replace(HALF, kind="causal")),
    "cold prefixes": reading("new", 0, train="train", loss=replace(PREFIXES, epochs=16)),
    "full look-ahead 1": reading("full", 1),
    "full look-ahead 2": reading("full", 2),
    "own look-ahead 1": reading("wait", 1),  # the wait head's network without its wait head
    "wait head never": reading("wait", 0),
}
for _name, _loss in PRINTED.items():
    _head = Arm(start="prefixes", train="train", loss=_loss, test=("real",))
    SYSTEMS |= {f"{_name} head": _head, _name: reading(f"{_name} head", None)}
    SYSTEMS[f"{_name} never"] = reading(f"{_name} head", 0)
for _name, _tries in CURVES.items():
    _how = {"readings": _tries, "doubt": _name == "doubt"}
    SYSTEMS[f"curve {_name}"] = Arm(start="wait", setting=_how, test=("real", "made"))
AHEAD, START, ENDS = ("setting.ahead",), ("start",), ("f1", "final_f1")
CAUSAL = ("loss.draws", "loss.epochs", "loss.kind", "start")  # epochs differ, readings do not
COMPARED = [  # label, one, less, in what they differ, scores
    ("network over floor", "all prefixes", "floor", START, ENDS),
    ("wait head over floor", "wait head", "floor", AHEAD + START, ENDS),
    ("causality", "causal", "cold prefixes", CAUSAL, ENDS),
]
for _one in (*PRINTED, "wait head"):
    COMPARED.append((f"{_one} waits", _one, f"{_one} never", AHEAD, ("f1", "strict_f1")))
for _one in ("own look-ahead 1", "look-ahead 1", "look-ahead 2", "all prefixes"):
    _differs = AHEAD if _one.startswith("own") else AHEAD + START
    _keys = ("f1", "strict_f1", "edit_overhead", "waiting")
    COMPARED.append((f"over {_one}", "wait head", _one, _differs, _keys))


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


STUDY = Study(
    notebook="disfluency",
    name="systems",
    arms=SYSTEMS,
    seeds=range(5),
    processes=2,
    sizes={"sentences": 5919, "tests": 300},  # all questions with labels
    trial={"sentences": 12, "tests": 8},
    metrics={key: Metric("words" if key in TIMES else "share") for key in KEPT}
    | {f"wait_{kind}": Metric("words") for kind in dl.KINDS},
    parts=parts,
    begin=begin,
    fit=fit,
    judge=judge,
    outcomes={
        f"study_{part}_{label}_{key}": Outcome(key, one, less, differs, part)
        for label, one, less, differs, keys in COMPARED
        for part in TESTS
        for key in keys
    },
    extra=drawn,
    key="study_{part}_{arm}_{metric}",
    over="seeds, each with its own draw of sentences",
)


def write_shipped(study: Study, path: Path) -> None:
    """Write the networks that the page loads, as the study makes them."""
    seed, sizes, found = study.seeds[0], study.sizes, {}
    parts = study.parts(seed, sizes)
    for name in ("pretrained", *SHIPPED):
        arm = study.arms[name]
        given = (parts[one].data if one else None for one in (arm.train, arm.choice))
        job = Job(name, arm, seed, sizes, None, *given)
        device.seed(seed)
        start = copy.deepcopy(found.get(arm.start)) or study.begin(arm.start, job)
        found[name] = study.fit(job._replace(start=start))
    pn.save({name: found[name].network for name in SHIPPED}, found["wait"].vocabulary, path)


if __name__ == "__main__":
    torch.set_num_threads(STUDY.threads)
    write_shipped(STUDY, Path(sys.argv[1]))
