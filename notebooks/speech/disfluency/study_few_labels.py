"""The study of few labels: what pre-training, self-training and a first language are worth.

    make study CHAPTERS=speech/disfluency STUDY=transfer

With 300 labels, pre-trained or not; a small student with a teacher, without, or with as many
true labels; German from its own labels, with its own teacher, from English alone, and English
first. A seed draws the sentences of all parts, and the German, which is generated. Each network
reads `readings` sentences, so what is trained in two stages has read twice as many.
"""

from dataclasses import replace

import disfl_labels as dl
import disfluency_generator as dg
import numpy as np
import prefix_training as pt
import study_disfluency as systems
from helpers import data
from helpers.study import Arm, Job, Metric, Outcome, Part, Study
from study_disfluency import BUCKETS, FULL, WORDS, Guess, Labeller, begin, fit, part, world

FEW = replace(FULL, batch=512)  # for as many epochs as give `readings` sentences


def judge(made: Labeller, rows: list[dl.Utterance], job: Job) -> dict[str, float]:
    """Precision, recall and F1 of whole sentences; nothing of one that saw no label."""
    if isinstance(job.arm.loss, Guess):
        return {}
    found = np.concatenate(pt.final_labels(made.network, rows, made.vocabulary))
    gold = np.concatenate([u.labels for u in rows])
    hit, said, true = int(found @ gold), int(found.sum()), int(gold.sum())
    shares = hit / max(1, said), hit / max(1, true), 2 * hit / max(1, said + true)
    return dict(zip(("precision", "recall", "f1"), shares, strict=True))


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """One vocabulary for both languages; half of the English has labels, the rest is bare."""
    w = world(data.fetch("disfl_qa"), sizes["sentences"], sizes["tests"], seed)
    few, rng, others = sizes["few"], np.random.default_rng(seed), dg.alternatives(w.said)
    german = dg.german_parts(few, seed)
    rows = w.train + [dg.spoken(text, rng, others) for text in w.said]
    rows = [rows[at] for at in rng.permutation(len(rows))]
    texts = rows + german["more"] + german["few"]
    counted = [u.words for u in rows + (german["more"] + german["few"]) * 4]
    words = dl.Vocabulary.of(counted, WORDS, BUCKETS)
    return {
        "texts": part(texts, words),
        "few": part(rows[:few], words),
        "half": part(rows[::2], words),
        "few_rest": part(rows[:few] + rows[1::2], words),
        "few_rest_bare": part(rows[:few], words, rows[1::2]),
        "german_few": part(german["few"], words),
        "german_few_more_bare": part(german["few"], words, german["more"]),
        "test": part(w.real + w.made),
        "german_test": part(german["test"]),
    }


def german(start: str | tuple[str, ...], train: str | None = None) -> Arm:
    """An arm that is judged on German."""
    return Arm(start=start, train=train, loss=FEW if train else None, test=("german_test",))


BARE = "german_few_more_bare"  # labelled by the last of an arm's starts
TAUGHT = ("start", "train")
STUDY = Study(
    notebook="disfluency",
    name="transfer",
    arms={
        "pretrained": Arm(train="texts", loss=Guess(2)),
        "few_cold": Arm(train="few", loss=FEW),
        "few_pretrained": Arm(start="pretrained", train="few", loss=FEW),
        "teacher": Arm(start="pretrained", train="half", loss=FEW),
        "student_few": Arm(start="narrow", train="few", loss=FEW),
        "student_taught": Arm(start=("narrow", "teacher"), train="few_rest_bare", loss=FEW),
        "student_true": Arm(start="narrow", train="few_rest", loss=FEW),
        "german_alone": german("pretrained", "german_few"),
        "german_self": german(("pretrained", "german_alone"), BARE),
        "german_zero_shot": german("teacher"),
        "german_two_stage": german(("teacher", "german_alone"), BARE),
    },
    seeds=range(5),
    processes=2,
    sizes={"sentences": 3000, "tests": 200, "few": 300, "readings": 21_000},
    trial={"sentences": 12, "tests": 8, "few": 6, "readings": 40},
    metrics={key: Metric("share") for key in ("precision", "recall", "f1")},
    parts=parts,
    begin=begin,
    fit=fit,
    judge=judge,
    over=systems.STUDY.over,
    outcomes={
        "study_pretraining_gain": Outcome("f1", "few_pretrained", "few_cold", ("start",)),
        "study_self_training_gain": Outcome("f1", "student_taught", "student_few", TAUGHT),
        "study_teacher_over_truth": Outcome("f1", "student_taught", "student_true", TAUGHT),
        "study_two_stage_gain": Outcome("f1", "german_two_stage", "german_self", ("start",)),
    },
)
