"""What right context, chunks and moments cost in words: the price list of streaming, by seed.

    make study CHAPTERS=speech/asr STUDY=context

Each arm streams the same utterances through the shipped network, cut in its own way, all but
`offline` as the service does otherwise. Moments are those of training speech. The utterances
are joined from recordings that no training used, the same hundred in all seeds: the intervals
are about other utterances, not about other voices."""

import digit_speech
import jiwer
from helpers import data
from helpers.study import Arm, Metric, Outcome, Part, Study
from quartznet import load_model, variant

from .features import prior_of
from .stream_state import transcribe
from .windows import StreamOptions

SPEAKERS = [name for name, accent in digit_speech.ACCENTS.items() if accent == "USA"]
SERVICE = {"network": "folded", "chunk_ms": 60, "left_ms": 660, "right_ms": 180}
SERVICE |= {"normalise": "running"}
RIGHTS_MS = {"running": (0, 60, 120, 180, 300, 660), "window": (0, 180, 660)}


def parts(seed, sizes):
    """Utterances to stream, and speech of the training for the moments."""
    folder = data.fetch("fsdd")

    def spoken(split, count, drawn):
        made = digit_speech.utterances(folder, split, SPEAKERS, count=count, seed=drawn)
        units = {word.recording for one in made for word in one.words}
        return Part(([one.signal for one in made], [one.text for one in made]), units)

    return {"test": spoken("test", sizes["count"], seed), "moments": spoken("train", 15, 0)}


def judge(prior, part, job):
    """The word error rate of the utterances, streamed as the arm says."""
    how, (signals, texts) = dict(job.arm.setting), part
    network = variant(load_model(), how.pop("network"))
    heard = transcribe(network, signals, StreamOptions(**how, endpoint_ms=None), prior)
    return {"wer": jiwer.wer(texts, heard)}


def streamed(train="moments", **changed):
    """An arm that streams as the service does, but for what is changed."""
    return Arm(train=train, start="none", setting=SERVICE | changed)


ARMS = {"offline": streamed(None, left_ms=None, right_ms=None, normalise="window")}
for _way, _rights in RIGHTS_MS.items():
    ARMS |= {f"{_way}_{n}": streamed(normalise=_way, right_ms=n) for n in _rights}
ARMS |= {f"chunk_{n}": streamed(chunk_ms=n) for n in (100, 160, 800)}
ARMS |= {"int8": streamed(network="int8"), "no_moments": streamed(None)}
DIFFERS = {"window_180": "setting.normalise", "int8": "setting.network", "no_moments": "train"}
DIFFERS |= {f"running_{n}": "setting.right_ms" for n in (0, 660)}
DIFFERS |= {f"chunk_{n}": "setting.chunk_ms" for n in (160, 800)}

STUDY = Study(
    notebook="asr_streaming",
    name="context",
    arms=ARMS,
    seeds=range(5),
    processes=2,
    sizes={"count": 50},
    trial={"count": 1},
    metrics={"wer": Metric("%", 100)},
    outcomes={
        f"study_{name}_less": Outcome("wer", name, "running_180", [what], unit="points")
        for name, what in DIFFERS.items()
    },
    parts=parts,
    begin=lambda word, job: None,
    fit=lambda job: prior_of(job.train[0]),
    judge=judge,
)
