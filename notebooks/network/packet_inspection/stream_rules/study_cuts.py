"""The study: every cut in two of every sample, and what a matcher has to carry across the cut.

    make study CHAPTERS=network/packet_inspection STUDY=cuts

A seed draws a sample for each published rule and each of ours. YARA judges the whole file; an
arm sees two packets. `state` is our matcher, asked at each cut. The others are the same matcher
without a memory, asked at some cuts of each sample: `packet` begins anew with each packet,
`tail_*` keeps so many of the bytes before and reads them again. YARA gives up in signatures
beyond its reach; there the rule that the sample was made for counts as said.
"""

import functools
import itertools
import random

import yara
from helpers import data
from helpers.study import Arm, Job, Metric, Outcome, Part, Study

from .matcher import Matcher, Program
from .own_rules import rule_texts
from .rule_texts import read
from .samples import sample

REACH_OF_YARA = 1019  # bytes, of YARA 4.5.4, found by trying
PIECE = 65  # bytes of a packet from a saved state: more than a flow keeps as they came
ARMS = {
    "state": Arm(loss=None),
    "packet": Arm(loss=0),
    "tail_64": Arm(loss=64),
    "tail_512": Arm(loss=512),
}


@functools.cache
def rules() -> tuple:
    """(the texts, the rules that a stream can answer, a matcher of them)."""
    folder = data.fetch("yara_rules")
    texts = [path.read_text() for path in sorted(folder.rglob("*.yara"))] + rule_texts()
    made, _ = read(texts)
    return texts, made, Matcher(Program(made))


def beyond(rule) -> bool:
    """Whether YARA gives up in one of the rule's signatures."""
    rows = [p.elements for patterns in rule.patterns.values() for p in patterns]
    return any(len(row) > REACH_OF_YARA for row in rows)


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """{test: (rule, file, what is to be said)}, a sample for every so many rules."""
    texts, made, _ = rules()
    judge, named = yara.compile(source="\n".join(texts)), {rule.name: rule for rule in made}
    found = []
    for number, rule in enumerate(made[:: sizes["every_rule"]]):
        file = sample(rule, 1000 * seed + number, rules=named)
        said = {match.rule for match in judge.match(data=file)} & named.keys()
        found.append((rule.name, file, said | ({rule.name} if beyond(rule) else set())))
    return {"test": Part(found, [f"sample {seed} of {name}" for name, *_ in found])}


def said_of(packets: list[bytes], tail: int | None) -> set[str]:
    """What the matcher says of the packets; with a `tail`, of each packet behind so many bytes
    of those before, its state thrown away."""
    matcher, made, before = rules()[2], [], b""
    for packet in packets:
        made += matcher.feed(packet if tail is None else before + packet)
        if tail is not None:
            made += matcher.finish()
            before = (before + packet)[-tail:] if tail else b""
    return {*made, *matcher.finish()} if tail is None else set(made)


def carried(matcher: Matcher) -> dict:
    """A copy of all that the matcher carries."""
    own = {name: value for name, value in vars(matcher).items() if name != "program"}
    return {name: v.copy() if hasattr(v, "copy") else v for name, v in own.items()}


def at_every_cut(file: bytes) -> list[set[str]]:
    """What our matcher says of each cut in two, from states that are saved once.

    The file comes byte by byte; the state is saved before each byte and at the end. Then a
    packet of `PIECE` bytes goes on from each saved state: it must name what the bytes named and
    end in the state saved there, since all that follows depends on it alone. A cut where such a
    packet begins or ends otherwise is tried with two whole packets.
    """
    matcher, saved, named = rules()[2], [], []
    for at in range(len(file)):
        saved.append(carried(matcher))
        named.append(matcher.feed(file[at : at + 1]))
    saved.append(carried(matcher))
    whole = {*itertools.chain(*named), *matcher.finish()}
    doubtful = set()
    for begin, end in ((at, min(at + PIECE, len(file))) for at in range(len(file))):
        vars(matcher).update(saved[begin])
        vars(matcher).update(carried(matcher))  # a copy, so that what was saved stays
        made = matcher.feed(file[begin:end])
        same = sorted(made) == sorted(itertools.chain(*named[begin:end]))
        if not same or carried(matcher) != saved[end]:
            doubtful |= {begin, end}
    matcher.finish()
    halves = ((cut, [file[:cut], file[cut:]]) for cut in range(1, len(file)))
    return [said_of(two, None) if cut in doubtful else whole for cut, two in halves]


def judge(made: int | None, held: list, job: Job) -> dict:
    """The share of cuts, mean of the samples, at which a rule is missed, and at which the
    verdicts are not those on the whole file; in percent.

    Ours is asked at every cut. The others start anew at each, which takes long; they are asked
    at some, drawn alike for all of them.
    """
    missed, unequal = [], []
    for name, file, said in held:
        rng = random.Random(f"{job.seed} {name}")
        drawn = rng.sample(range(1, len(file)), min(job.sizes["tail_cuts"], len(file) - 1))
        found = (
            at_every_cut(file)
            if job.arm.loss is None
            else [said_of([file[:cut], file[cut:]], job.arm.loss) for cut in drawn]
        )
        missed.append(sum(bool(said - one) for one in found) / len(found))
        unequal.append(sum(said != one for one in found) / len(found))
    return {"missed": sum(missed) / len(held), "unequal": sum(unequal) / len(held)}


STUDY = Study(
    notebook="packets",
    name="cuts",
    arms=ARMS,
    seeds=range(5),
    sizes={"every_rule": 1, "tail_cuts": 8},
    trial={"every_rule": 22, "tail_cuts": 2},
    metrics={"missed": Metric("%", 100.0), "unequal": Metric("%", 100.0)},
    parts=parts,
    fit=lambda job: job.arm.loss,
    judge=judge,
    outcomes={
        f"study_{name}_misses_more": Outcome("missed", name, "state", ["loss"])
        for name in ("packet", "tail_64", "tail_512")
    },
    over="draws of samples",
)
