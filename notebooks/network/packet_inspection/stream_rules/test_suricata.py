"""Rules in Suricata's format give, read back, the verdicts that they gave before."""

import itertools
import random

import pytest
import suricataparser
from hypothesis import given, settings
from hypothesis import strategies as st

from . import Matcher, Program, read
from .own_rules import rule_texts
from .patterns import hex_rows
from .samples import sample
from .suricata import read_back, write
from .test_stream_rules import WORDS, published, run  # noqa: F401  (a fixture)

OWN = read(rule_texts())[0]
LINES, LEDGER = write(OWN)
THERE = Matcher(Program([rule for rule in OWN if rule.name not in {e.rule for e in LEDGER}]))
BACK = Matcher(Program(read_back(LINES)))


def test_the_ledger_names_what_the_format_lacks():
    assert {entry.rule: entry.reason for entry in LEDGER} == {}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=7))
def test_own_rules_say_the_same_when_read_back(parts):
    file = b"".join(parts)
    assert run(BACK, [file]) == run(THERE, [file])


def test_published_rules_say_the_same_when_read_back(published):  # noqa: F811
    rules = published[1].program.rules
    lines, ledger = write(rules)
    left = {entry.rule for entry in ledger}
    assert len(left) < 6 and all(suricataparser.parse_rule(line).sid for line in lines)
    there = Matcher(Program([rule for rule in rules if rule.name not in left]))
    back, rng = Matcher(Program(read_back(lines))), random.Random(3)
    for seed, rule in enumerate(there.program.rules[::3]):
        file = bytearray(sample(rule, seed))
        assert rule.name in run(back, [bytes(file)])
        file[rng.randrange(len(file))] ^= 255
        assert run(back, [bytes(file)]) == run(there, [bytes(file)])


def test_sids_are_unique_and_each_content_is_short_enough():
    rules = [suricataparser.parse_rule(line) for line in LINES]
    assert len({rule.sid for rule in rules}) == len(rules)
    long = read("rule r { strings: $a = { " + "41 " * 600 + "} condition: $a }")[0]
    (line,) = write(long)[0]
    sizes = [
        o.value.count(" ") + 1
        for o in suricataparser.parse_rule(line).options
        if o.name == "content"
    ]
    assert sizes == [255, 255, 90]


@pytest.mark.parametrize("sign", ["==", "<", "<=", ">", ">="])
@pytest.mark.parametrize("denied", [False, True])
def test_a_size_and_a_number_say_the_same_when_read_back(sign, denied):
    number = f"uint16be(0) {sign} 0x4142"
    for asks in (f"filesize {sign} 3", number) if not (sign == "==" and denied) else (number,):
        rules = read(f"rule r {{ condition: {'not ' * denied}{asks} }}")[0]
        here, back = Matcher(Program(rules)), Matcher(Program(read_back(write(rules)[0])))
        for file in (b"AA", b"AB", b"AC", b"ABC", b"ABCD"):
            assert run(back, [file]) == run(here, [file])


def test_a_choice_among_bytes_is_not_denied():
    # YARA and we say yes of a file of one byte; `byte_test` says no where bytes are missing
    rules = read("rule r { condition: not (uint16(0) == 5 or filesize > 9) }")[0]
    lines, (entry,) = write(rules)
    assert lines == [] and "short file" in entry.reason


def test_a_line_that_is_no_rule_is_refused():
    with pytest.raises(ValueError):
        read_back(["no rule at all"])


def test_rows_of_bytes_and_jumps_are_contents_alone():
    rule = read("rule r { strings: $a = { 41 42 ?? [1-3] 43 ?? } condition: $a }")[0]
    ((line,), _) = write(rule)
    assert (
        'content:"|41 42|"; content:"|43|"; distance:2; within:3; isdataat:1,relative;' in line
    )
    assert (
        list(itertools.chain(*read_back([line])[0].patterns.values()))[0].elements
        == hex_rows("41 42 ?? [1-3] 43 ??")[0]
    )
