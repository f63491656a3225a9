"""The studies behind the page: started by hand from this folder, one part at a time.

    python -m study_disfluency --part systems --seeds 3 --keep disfluency_networks.safetensors
    python -m study_disfluency --part search
    python -m study_disfluency --part transfer --seeds 3

*systems*: five systems, the printed loss and a causal network, from other seeds each time; the
wait head starts from the all-prefix network of its seed. One network answers at all prices of
waiting, so the price is set after training, by a rule that looks at the dev part alone: the
smallest of `PRICES` at which the head waits no longer than a look-ahead of one, on average.
*search*: the two weights of the loss, each pair trained and judged on dev; beside it what one
network says when it is read at the same ratio, and the smooth loss at the same prices.
*transfer*: what masked pre-training, self-training and a first language are worth when labels
are few. Intervals are over seeds (Student's t, 95 %).
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
DRAWN = ("f1", "strict_f1", "waiting", "coverage", "edit_overhead")
KEPT = (*DRAWN, "precision", "recall", "time_to_detection", "first_time", "final_f1")
GAMMAS, LATENCIES = (1.0, 1.9, 4.0), (0.1, 0.2, 0.35, 0.6)
PRICES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.8)  # nats a word
CURVES = {  # (look-ahead, price of waiting beside the rule's), read from one network
    "wait": tuple((None, 2 ** (step / 3)) for step in range(-6, 7)),
    "ahead": tuple((ahead, 1.0) for ahead in range(5)),
    "doubt": tuple((None, math.exp(-sure)) for sure in (0.2, 0.4, 0.7, 1, 1.4, 1.8, 2.2, 2.6)),
}
FULL = pt.Recipe("full", epochs=24, dropout=0.2)  # as many readings as three a sentence
PREFIXES = pt.Recipe("prefixes", epochs=8, draws=2, dropout=0.2)
WAITING = pt.Recipe("logistic", epochs=4, draws=2, batch=1024, dropout=0.2)
WORDS, BUCKETS, READINGS = 1200, 200, 21_000  # sentences read by each network of `transfer`


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


def started(w: World, seed: int, causal: bool = False, width: int = 64) -> pn.PrefixNetwork:
    """A new network whose wait head is undecided, which reads as "predict"."""
    torch.manual_seed(seed)
    network = pn.PrefixNetwork(len(w.vocabulary), width, causal=causal).to(device.device())
    for part in network.wait.parameters():
        torch.nn.init.zeros_(part)
    return network


def fitted(base: pn.PrefixNetwork, w: World, recipe: pt.Recipe, seed: int) -> pn.PrefixNetwork:
    """A copy of `base`, trained."""
    network = copy.deepcopy(base)
    pt.train(network, w.train, w.vocabulary, recipe, seed)
    return network


def read(found: list, part: list[dl.Utterance], look_ahead, price: float = 1.0) -> ss.Scores:
    """The scores of one reading of a network's logits."""
    return ss.score([ws.predictions(z, look_ahead, price) for z in found], part)


def price(waits: dict[float, float], limit: float) -> float:
    """The rule: the smallest price with a mean wait of `limit` or less; the largest if none.

    `price({0.1: 2.0, 0.2: 0.9, 0.4: 0.1}, 1.0)` is 0.2."""
    return min((p for p, wait in waits.items() if wait <= limit), default=max(waits))


def calibrated(network: pn.PrefixNetwork, w: World) -> float:
    """The price by the rule; the wait head's bias is moved so that zero is its threshold."""
    found, latency = pt.logits(network, w.dev, w.vocabulary), WAITING.latency
    waits = {p: read(found, w.dev, None, p / latency).waiting for p in PRICES}
    cost = price(waits, read(found, w.dev, 1).waiting)
    network.wait.bias.data -= math.log(cost / latency)
    return cost


def trained(w: World, seed: int) -> tuple[dict[str, pn.PrefixNetwork], float]:
    """The networks of one seed, by name, and the price of waiting. All but the causal one begin
    with masked pre-training, and both wait heads with the all-prefix network."""
    base = started(w, seed)
    pt.pretrain(base, w.train, w.vocabulary, 1, seed)
    found = {"full": fitted(base, w, FULL, seed), "prefixes": fitted(base, w, PREFIXES, seed)}
    found["wait"] = fitted(found["prefixes"], w, WAITING, seed)
    printed, causal = replace(WAITING, kind="printed"), replace(FULL, kind="causal")
    found["printed"] = fitted(found["prefixes"], w, printed, seed)
    found["causal"] = fitted(started(w, seed, causal=True), w, causal, seed)
    return found, calibrated(found["wait"], w)


def systems(w: World, seeds: int, keep: Path | None, receipt: receipts.Receipt) -> None:
    """Train and judge all systems; keep the networks of the first seed for the page."""
    table = {**ws.SYSTEMS, "printed": ("printed", None), "causal": ("causal", 0)}
    table |= {f"full look-ahead {n}": ("full", n) for n in (1, 2)}
    table["own look-ahead 1"] = ("wait", 1)  # the wait head's network without its wait head
    values, curves = defaultdict(list), defaultdict(list)
    for seed in range(seeds):
        networks, cost = trained(w, seed)
        values["price"].append(cost)
        if keep and not seed:
            pn.save({n: networks[n] for n in ("full", "prefixes", "wait")}, w.vocabulary, keep)
        for part in ("real", "made"):
            rows = getattr(w, part)
            found = {name: pt.logits(n, rows, w.vocabulary) for name, n in networks.items()}
            for name, (network, ahead) in table.items():
                told = read(found[network], rows, ahead)
                for key in KEPT:
                    values[f"{part}_{name}_{key}"].append(getattr(told, key))
                for kind, wait in told.waits.items() if name == "wait head" else ():
                    values[f"{part}_{name}_wait_{kind}"].append(wait)
                print(seed, part, name, f"{told.f1:.3f} {told.waiting:.2f}", flush=True)
            for name, tries in CURVES.items():
                doubt = [(z, -z.abs()) for z, _ in found["wait"]]  # largest near 0, undecided
                z = doubt if name == "doubt" else found["wait"]
                many = [read(z, rows, *one) for one in tries]
                for key in DRAWN:
                    curves[f"{part}_{name}", key].append([getattr(told, key) for told in many])
    for part in ("real", "made"):
        for other in ("own look-ahead 1", "look-ahead 1", "look-ahead 2", "all prefixes"):
            for key in ("f1", "strict_f1", "edit_overhead", "waiting"):
                pairs = (values[f"{part}_{name}_{key}"] for name in ("wait head", other))
                gaps = [a - b for a, b in zip(*pairs, strict=True)]
                values[f"{part}_over_{other}_{key}"] = gaps
    for key, many in values.items():
        timed = key.rsplit("_", 1)[-1] in ("detection", "waiting", "time") or "_wait_" in key
        put(receipt, key, many, "nats" if key == "price" else "words" if timed else "share")
    for curve in dict.fromkeys(name for name, _ in curves):
        means = {key: np.mean(curves[curve, key], 0).tolist() for key in DRAWN}
        receipt.curve(f"study_{curve}", **means)


def put(receipt: receipts.Receipt, key: str, many: list[float], unit: str) -> None:
    """Record mean and interval over seeds under a name that receipts allow."""
    if not all(map(math.isfinite, many)):  # nothing was said or detected in some run
        return
    mean, spread = statistics.fmean(many), ()
    if len(many) > 1:
        half = STUDENT_T.get(len(many), 2.2) * statistics.stdev(many) / len(many) ** 0.5
        spread = (mean - half, mean + half, len(many))
    receipt.record(f"study_{key}".replace(" ", "_").replace("-", "_"), mean, unit, *spread)


def search(w: World, receipt: receipts.Receipt) -> None:
    """F1, waiting and coverage on dev for each pair of weights, for one network read at the
    same ratio, and for the smooth loss at each price."""
    base, rows = fitted(started(w, 0), w, PREFIXES, 0), defaultdict(list)
    one = pt.logits(fitted(base, w, WAITING, 0), w.dev, w.vocabulary)
    tries = [("logistic", gamma, latency) for gamma in GAMMAS for latency in LATENCIES]
    tries += [("smooth", WAITING.gamma, latency) for latency in LATENCIES]
    for kind, gamma, latency in tries:
        new = fitted(base, w, replace(WAITING, kind=kind, gamma=gamma, latency=latency), 0)
        told = read(pt.logits(new, w.dev, w.vocabulary), w.dev, None)
        ratio = latency / gamma * WAITING.gamma / WAITING.latency
        same = read(one, w.dev, None, ratio)
        kept = {"gamma": gamma, "latency": latency, "smooth": float(kind == "smooth")}
        kept |= {"one_f1": same.f1, "one_waiting": same.waiting}
        for key, value in (kept | {key: getattr(told, key) for key in DRAWN}).items():
            rows[key].append(value)
        print(kind, gamma, latency, f"F1 {told.f1:.3f} wait {told.waiting:.2f}", flush=True)
    receipt.curve("study_search", **rows)
    receipt.record("study_search_pairs", len(tries), "pairs")


def whole(network: pn.PrefixNetwork, part: list[dl.Utterance], vocabulary) -> dict[str, float]:
    """Precision, recall and F1 of whole sentences."""
    found = np.concatenate(pt.final_labels(network, part, vocabulary))
    gold = np.concatenate([u.labels for u in part])
    hit, said, true = int(found @ gold), int(found.sum()), int(gold.sum())
    shares = hit / max(1, said), hit / max(1, true), 2 * hit / max(1, said + true)
    return dict(zip(("precision", "recall", "f1"), shares, strict=True))


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
    both, short = replace(w, vocabulary=words), replace(FULL, batch=512)
    cold = started(both, seed)
    base, student = copy.deepcopy(cold), started(both, seed, width=32)
    pt.pretrain(base, w.train + german["more"] + german["few"], words, 2, seed)
    rows = [w.train[at] for at in rng.permutation(len(w.train))]

    def fit(start: pn.PrefixNetwork, part: list[dl.Utterance]) -> pn.PrefixNetwork:
        recipe = replace(short, epochs=READINGS // len(part))
        return fitted(start, replace(both, train=part), recipe, seed)

    teacher, alone = fit(base, rows[::2]), fit(base, german["few"])
    told = pt.self_labelled(teacher, [u.words for u in rows[1::2]], words)
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
    if o.part == "search":
        search(w, receipt)
    elif o.part == "transfer":
        transfer(w, o.seeds, receipt)
    else:
        systems(w, o.seeds, o.keep, receipt)
    receipt.sizes(train=len(w.train), real=len(w.real), made=len(w.made), seeds=o.seeds)
    print(receipt.write(name=o.part))


if __name__ == "__main__":
    main()
