"""The studies behind the page: started by hand from this folder, one part at a time.

    python -m study_disfluency --part systems --seeds 3 --keep disfluency_networks.safetensors
    python -m study_disfluency --part search
    python -m study_disfluency --part transfer --seeds 3

*systems*: five systems, the printed loss and a causal network, from other seeds each time; the
wait head starts from the all-prefix network of its seed. Its price of waiting follows a rule
that looks at the dev part of the first seed alone: the paper's gamma, and the smallest of
`PRICES` with which the head waits `PATIENCE` words or less there, on average. *search*: the two
weights of the loss, judged on dev, with the rule's choice. *transfer*: what masked
pre-training, self-training and a first language are worth when labels are few. Intervals are
over seeds (Student's t, 95 %).
"""

import argparse
import copy
import math
import statistics
from collections import defaultdict
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
from helpers import data, device, receipts

STUDENT_T = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 8: 2.365, 10: 2.262}  # 97.5 %
KEPT = ("f1", "precision", "recall", "edit_overhead", "time_to_detection", "waiting")
KEPT += ("first_time", "coverage", "final_f1", "strict_f1")
GAMMAS, PATIENCE = (1.0, 1.9, 4.0), 1.0
PRICES = (0.1, 0.12, 0.14, 0.16, 0.18, 0.2)  # in coarser steps waiting ends at once
FULL = pt.Recipe("full", epochs=4, dropout=0.2)
PREFIXES = pt.Recipe("prefixes", epochs=3, draws=2, dropout=0.2)
WAITING = pt.Recipe("soft", epochs=2, draws=2, batch=1024, dropout=0.2, latency=PRICES[-1])
WORDS, BUCKETS = 1200, 200
START = -3.0  # the wait head's first logit: at -1 a word behind ten others is hidden at 96 %


@dataclass(frozen=True)
class World:
    """What is learned from and judged on; `test` and `dev` hold real and generated
    utterances."""

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


def started(w: World, seed: int, causal: bool = False, width: int = 64) -> pn.PrefixNetwork:
    """A new network whose wait head begins with "predict" everywhere."""
    torch.manual_seed(seed)
    network = pn.PrefixNetwork(len(w.vocabulary), width, causal=causal).to(device.device())
    torch.nn.init.zeros_(network.wait.weight)
    torch.nn.init.constant_(network.wait.bias, START)
    return network


def waiting(
    base: pn.PrefixNetwork, w: World, seed: int, **changes
) -> tuple[pn.PrefixNetwork, ss.Scores]:
    """A copy of `base` trained with the wait head, and its scores on dev."""
    network = copy.deepcopy(base)
    pt.train(network, w.train, w.vocabulary, replace(WAITING, **changes), seed)
    return network, judged(network, w.dev, None, w)


def price(waits: dict[float, float]) -> float:
    """The rule: the smallest price with a mean wait of `PATIENCE` or less; the largest if
    none.

    `price({0.1: 2.0, 0.2: 0.9, 0.4: 0.1})` is 0.2."""
    return min((p for p, wait in waits.items() if wait <= PATIENCE), default=max(waits))


def trained(
    w: World, seed: int, cost: float | None
) -> tuple[dict[str, pn.PrefixNetwork], float]:
    """The networks of all systems, by name, of one seed, and the price of waiting: `cost`, or
    by the rule if None. All begin with masked pre-training but the causal one, and both wait
    heads with the all-prefix network."""
    base, found = started(w, seed), {}
    pt.pretrain(base, w.train, w.vocabulary, 1, seed)
    for name, recipe in (("full", FULL), ("prefixes", PREFIXES)):
        found[name] = copy.deepcopy(base)
        pt.train(found[name], w.train, w.vocabulary, recipe, seed)
    tried = {
        p: waiting(found["prefixes"], w, seed, latency=p)
        for p in (PRICES if cost is None else (cost,))
    }
    cost = price({p: told.waiting for p, (_, told) in tried.items()})
    found["soft"] = tried[cost][0]
    found["printed"], _ = waiting(found["prefixes"], w, seed, kind="printed", latency=cost)
    found["causal"] = started(w, seed, causal=True)
    pt.train(found["causal"], w.train, w.vocabulary, replace(FULL, kind="causal"), seed)
    return found, cost


def judged(
    network: pn.PrefixNetwork, part: list[dl.Utterance], look_ahead, w: World, alone=False
) -> ss.Scores:
    """The scores of one system on one part."""
    found = pt.logits(network, part, w.vocabulary)
    return ss.score([ws.predictions(z, look_ahead, alone) for z in found], part)


def systems(w: World, seeds: int, keep: Path | None, receipt: receipts.Receipt) -> None:
    """Train and judge all systems; keep the networks of the first seed for the page."""
    table = {**ws.SYSTEMS, "printed": ("printed", None), "causal": ("causal", 0)}
    table["full look-ahead 1"], table["full look-ahead 2"] = ("full", 1), ("full", 2)
    table["alone"] = ("soft", None)  # the same network, read by the paper's rule
    values, waits, cost = defaultdict(list), defaultdict(list), None
    for seed in range(seeds):
        networks, cost = trained(w, seed, cost)
        if not seed:
            receipt.record("study_price", cost, "nats")
        if keep and not seed:
            pn.save({n: networks[n] for n in ("full", "prefixes", "soft")}, w.vocabulary, keep)
        for part in ("real", "made"):
            for name, (network, ahead) in table.items():
                own = name in ("printed", "alone")
                told = judged(networks[network], getattr(w, part), ahead, w, own)
                for key in KEPT:
                    values[f"{part}_{name}_{key}"].append(getattr(told, key))
                for kind, wait in told.waits.items() if ahead is None else ():
                    waits[f"{part}_{name}_wait_{kind}"].append(wait)
                print(
                    seed, part, name, f"F1 {told.f1:.3f}, wait {told.waiting:.2f}", flush=True
                )
    for key, many in (values | waits).items():
        timed = key.rsplit("_", 1)[-1] in ("detection", "waiting", "time") or "_wait_" in key
        put(receipt, key, many, "words" if timed else "share")
    for part in ("real", "made"):
        for other in ("look-ahead 1", "look-ahead 2", "all prefixes", "full look-ahead 1"):
            pairs = zip(
                values[f"{part}_wait head_f1"], values[f"{part}_{other}_f1"], strict=True
            )
            put(receipt, f"{part}_wait_over_{other}", [a - b for a, b in pairs], "share")


def put(receipt: receipts.Receipt, key: str, many: list[float], unit: str) -> None:
    """Record mean and interval over seeds under a name that receipts allow."""
    if not all(map(math.isfinite, many)):  # nothing was said or detected in some run
        return
    mean = statistics.fmean(many)
    name = f"study_{key}".replace(" ", "_").replace("-", "_")
    if len(many) < 2:
        receipt.record(name, mean, unit)
        return
    half = STUDENT_T.get(len(many), 2.2) * statistics.stdev(many) / len(many) ** 0.5
    receipt.record(name, mean, unit, mean - half, mean + half, len(many))


def search(w: World, receipt: receipts.Receipt) -> None:
    """Streaming F1, waiting and coverage on dev for each pair of weights; the rule's price."""
    base, rows = started(w, 0), defaultdict(list)
    pt.train(base, w.train, w.vocabulary, PREFIXES, 0)
    for gamma, latency in [(gamma, latency) for gamma in GAMMAS for latency in PRICES]:
        _, told = waiting(base, w, 0, gamma=gamma, latency=latency)
        for key, value in {"gamma": gamma, "latency": latency}.items():
            rows[key].append(value)
        for key in ("f1", "strict_f1", "waiting", "coverage", "edit_overhead"):
            rows[key].append(getattr(told, key))
        print(gamma, latency, f"F1 {told.f1:.3f} wait {told.waiting:.2f}", flush=True)
    receipt.curve("study_search", **rows)
    pairs = zip(rows["gamma"], rows["latency"], rows["waiting"], strict=True)
    waits = {p: wait for gamma, p, wait in pairs if gamma == WAITING.gamma}
    receipt.record("study_search_price", price(waits), "nats")


def whole(network: pn.PrefixNetwork, part: list[dl.Utterance], vocabulary) -> dict[str, float]:
    """Precision, recall and F1 of whole sentences."""
    found = pt.final_labels(network, part, vocabulary)
    pairs = [
        (x, y)
        for r, u in zip(found, part, strict=True)
        for x, y in zip(r, u.labels, strict=True)
    ]
    hit, said, true = (sum(map(f, pairs)) for f in (all, lambda p: p[0], lambda p: p[1]))
    return {
        "precision": hit / max(1, said),
        "recall": hit / max(1, true),
        "f1": 2 * hit / (said + true),
    }


def german_parts(few: int, seed: int, tests: int = 300) -> dict[str, list]:
    """Generated German: labelled, unlabelled and test utterances of different sentences."""
    rng = np.random.default_rng(1000 + seed)
    texts = list(dict.fromkeys(dg.german(rng) for _ in range(2 * few + 600 + tests)))
    others = dg.alternatives(texts)
    made = [dg.spoken(t, rng, others, dg.GERMAN) for t in texts]
    return {"few": made[:few], "test": made[-tests:], "more": made[few : 2 * few]}


def transfer(w: World, seeds: int, receipt: receipts.Receipt, few: int = 300) -> None:
    """Few labels: with pre-training or without; a small student with a teacher or without;
    German from its own labels, with its own teacher, from English alone, and English first."""
    values = defaultdict(list)
    for seed in range(seeds):
        for name, found in few_labels(w, seed, few).items():
            print(seed, name, f"F1 {found['f1']:.3f}", flush=True)
            for key, value in found.items():
                values[f"{name}_{key}"].append(value)
    for key, many in values.items():
        put(receipt, key, many, "share")
    for name, one, other in (
        ("pretraining", "few_pretrained", "few_cold"),
        ("self_training", "student_taught", "student_few"),
        ("two_stage", "german_two_stage", "german_self"),
    ):
        pairs = zip(values[f"{one}_f1"], values[f"{other}_f1"], strict=True)
        put(receipt, f"{name}_gain", [a - b for a, b in pairs], "share")


def few_labels(w: World, seed: int, few: int) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 by name, for one seed of `transfer`."""
    german, rng = german_parts(few, seed), np.random.default_rng(seed)
    texts = [u.words for u in w.train] + [u.words for u in german["more"] + german["few"]] * 4
    words = dl.Vocabulary.of(texts, WORDS, BUCKETS)
    both, short = replace(w, vocabulary=words), replace(FULL, epochs=6, batch=512)
    cold = started(both, seed)
    base, student = copy.deepcopy(cold), started(both, seed, width=32)
    pt.pretrain(base, w.train + german["more"] + german["few"], words, 2, seed)
    rows = [w.train[at] for at in rng.permutation(len(w.train))]
    half = len(rows) // 2

    def fit(start: pn.PrefixNetwork, part: list[dl.Utterance]) -> pn.PrefixNetwork:
        network = copy.deepcopy(start)
        pt.train(network, part, words, short, seed)
        return network

    teacher, alone = fit(base, rows[:half]), fit(base, german["few"])
    told = pt.self_labelled(teacher, [u.words for u in rows[half:]], words)
    more = german["few"] + pt.self_labelled(alone, [u.words for u in german["more"]], words)
    english = {
        "few_cold": fit(cold, rows[:few]),
        "few_pretrained": fit(base, rows[:few]),
        "teacher": teacher,
        "student_few": fit(student, rows[:few]),
        "student_taught": fit(student, rows[:few] + told),
    }
    second = {"alone": alone, "self": fit(base, more), "zero_shot": teacher}
    second["two_stage"] = fit(teacher, more)
    found = {name: whole(network, w.real + w.made, words) for name, network in english.items()}
    for name, network in second.items():
        found[f"german_{name}"] = whole(network, german["test"], words)
    return found


def main(argv: list[str] | None = None) -> None:
    """Run one part and write its receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--part", choices=("systems", "search", "transfer"), required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sentences", type=int, help="so many labelled questions only")
    parser.add_argument("--tests", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    o = parser.parse_args(argv)
    torch.set_num_threads(o.threads)
    receipt = receipts.start("disfluency", device.tier("auto"), threads=o.threads)
    w = world(data.fetch("disfl_qa"), o.sentences, o.tests)
    if o.part == "systems":
        systems(w, o.seeds, o.keep, receipt)
    elif o.part == "search":
        search(w, receipt)
    else:
        transfer(w, o.seeds, receipt)
    receipt.sizes(train=len(w.train), real=len(w.real), made=len(w.made), seeds=o.seeds)
    print(receipt.write(name=o.part))


if __name__ == "__main__":
    main()
