"""The study: every cut in two of every sample, and what a matcher has to carry across the cut.

    make study CHAPTERS=network/packet_inspection STUDY=cuts

A seed draws a sample for each published rule and each of ours. YARA judges the whole file; an
arm sees two packets. `state` is our matcher. The others are the same matcher without a memory:
`packet` begins anew with each packet, `tail_*` keeps so many of the bytes before and reads them
again. YARA gives up in signatures beyond its reach; there the rule that the sample was made for
counts as said.
"""

import functools

import yara
from helpers import data
from helpers.study import Arm, Job, Metric, Outcome, Part, Study

from .matcher import Matcher, Program
from .own_rules import rule_texts
from .rule_texts import read
from .samples import sample

REACH_OF_YARA = 1019  # bytes, of YARA 4.5.4, found by trying
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


def judge(made: int | None, held: list, job: Job) -> dict:
    """The share of cuts, mean of the samples, at which a rule is missed, and at which the
    verdicts are not those on the whole file; in percent."""
    missed, unequal = [], []
    for _, file, said in held:
        cuts = range(1, len(file), job.sizes["every_cut"])
        found = [said_of([file[:cut], file[cut:]], job.arm.loss) for cut in cuts]
        missed.append(sum(bool(said - one) for one in found) / len(cuts))
        unequal.append(sum(said != one for one in found) / len(cuts))
    return {"missed": sum(missed) / len(held), "unequal": sum(unequal) / len(held)}


STUDY = Study(
    notebook="packets",
    name="cuts",
    arms=ARMS,
    seeds=range(5),
    sizes={"every_rule": 1, "every_cut": 1},
    trial={"every_rule": 22, "every_cut": 150},
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
