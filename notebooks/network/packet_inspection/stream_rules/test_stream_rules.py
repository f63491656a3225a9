"""Verdicts equal to YARA's on whole files, for drawn cuts and packets of one byte; the
ledger."""

import functools
import itertools
import random

import pytest
import yara
from helpers import data
from hypothesis import given, settings
from hypothesis import strategies as st

from . import Matcher, Program, Rule, compile, read
from .automaton import AhoCorasick, BitPattern
from .own_rules import EICAR, PARTS, rule_text, rule_texts
from .patterns import FOREVER, Inexpressible, Pattern, hex_rows
from .regexes import regex_patterns
from .samples import instance, sample


def run(matcher: Matcher, pieces) -> set[str]:
    """Every verdict on a file that comes in these pieces; none comes twice."""
    made = [name for piece in pieces for name in matcher.feed(piece)] + matcher.finish()
    assert len(made) == len(set(made))
    return set(made)


def cut(file: bytes, places) -> list[bytes]:
    edges = [0, *sorted(places), len(file)]
    return [file[a:b] for a, b in itertools.pairwise(edges)]


def alone(patterns) -> Matcher:
    """A matcher of one rule that asks one string."""
    atom = ("match", "$a", 0, FOREVER)
    return Matcher(Program([Rule("r", atom, {atom: patterns})]))


# YARA 4.5.4 reads some 1,024 bytes from those it looks up, and no further: found by trying
# `41 42 43 44`, n wildcards, `45`. A longer signature never fires there.
REACH_OF_YARA = 1019


def too_long_for_yara(rule: Rule) -> bool:
    rows = [p.elements for patterns in rule.patterns.values() for p in patterns]
    return any(len(row) > REACH_OF_YARA for row in rows)


def yara_says(compiled, file: bytes) -> set[str]:
    return {match.rule for match in compiled.match(data=file)}


@functools.cache
def published_rules():
    """The texts, a matcher and the ledger, once for the tests of both modules."""
    try:
        folder = data.fetch("yara_rules")
    except data.DataError as error:
        pytest.skip(str(error))
    texts = [path.read_text() for path in sorted(folder.rglob("*.yara"))]
    return texts, *compile(texts)


@pytest.fixture(scope="module")
def published():
    return published_rules()


@pytest.fixture(scope="module")
def own():
    return compile(rule_texts())[0], yara.compile(source="\n".join(rule_texts()))


def test_the_ledger_of_the_published_rules_names_modules_alone(published):
    texts, matcher, ledger = published
    assert len(texts) == 52 and len(matcher.program.rules) == 42
    assert sorted(entry.reason.split(":")[0] for entry in ledger) == ["module elf"] + 9 * [
        "module pe"
    ]


def test_published_rules_speak_as_yara_does_for_drawn_cuts_and_single_bytes(published):
    texts, matcher, _ = published
    judge, rng = yara.compile(source="\n".join(texts)), random.Random(5)
    longer = {rule.name for rule in matcher.program.rules if too_long_for_yara(rule)}
    assert len(longer) < 4
    for seed, rule in enumerate(matcher.program.rules):
        file = sample(rule, seed)
        wanted = yara_says(judge, file) | ({rule.name} & longer)
        assert wanted == {rule.name}, f"a sample of {rule.name}"
        for _ in range(3):
            assert run(matcher, cut(file, [rng.randrange(len(file))])) == wanted
        if seed % 6 == 0:
            assert run(matcher, [file[i : i + 1] for i in range(len(file))]) == wanted


def test_a_wrong_byte_in_a_published_signature_is_no_match(published):
    texts, matcher, _ = published
    judge, rng = yara.compile(source="\n".join(texts)), random.Random(6)
    for seed, rule in enumerate(matcher.program.rules):
        file = bytearray(sample(rule, seed))
        for _ in range(3):
            file[rng.randrange(len(file))] ^= 1 << rng.randrange(8)
        wanted = yara_says(judge, bytes(file))
        assert run(matcher, cut(bytes(file), [rng.randrange(len(file))])) == wanted


def test_the_state_of_a_flow_stays_below_what_is_said(published):
    _, matcher, _ = published
    rng = random.Random(7)
    rules = matcher.program.rules
    for piece in [b"MZ", *(sample(rule, 1)[: rng.randrange(60, 400)] for rule in rules)]:
        matcher.feed(piece)
        assert matcher.state_bytes() <= matcher.program.most_bytes()
    matcher.finish()
    assert matcher.state_bytes() < 200


@pytest.mark.parametrize("name", PARTS)
def test_each_own_rule_is_expressed(own, name):
    assert name in {rule.name for rule in own[0].program.rules}


WORDS = [
    b"InspectMe", b"iNSPECTmE", b"again", b"secret", "secret".encode("utf-16-le"), b"token",
    "TOKEN".encode("utf-16-le"), b" key ", b"key", b"keys", b"monkey",
    "key".encode("utf-16-le"),
    " key ".encode("utf-16-le"), "mkey".encode("utf-16-le"), b"a\tb\x00\\\"c", b"id=123;",
    b"id=12;", b"id=123456;", b"get /index.php", b"%PDF-1.4", b"EOF\r\n", b"EOF\n",
    b"PK\x03\x04\x00\x00\x08\x00\x1a", b"PK\x03\x04\x00\x00\x08\x00\x08\x01\x02\xfa",
    b"\xde\xad\x00\xbe\xef", b"\xde\xad\x01\xbe\xef", b"size", b"\x00" * 1024, b"ftyp",
    b"magic",
    b"one!", b"two!", b"tri!", b"alpha", b"omega", b"\xca\xfe\xba\xbe", b"body", b"\x1f\x8b",
    b"\x7fELF", EICAR.encode(), b"k", b"e", b"y\x00", b"\x00", b" ", b"\n", b"3;",
]  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=7), st.data())
def test_own_rules_speak_as_yara_does_wherever_the_file_is_cut(own, parts, data):
    matcher, judge = own
    file = b"".join(parts)
    places = data.draw(st.lists(st.integers(0, len(file)), max_size=4))
    wanted = yara_says(judge, file)
    assert run(matcher, cut(file, places)) == wanted
    if len(file) < 300:
        assert run(matcher, [file[i : i + 1] for i in range(len(file))]) == wanted


ITEMS = ["41", "42", "4?", "?1", "??", "~41", "[1-2]", "[0-3]", "(41 | 42 41)", "[2-]"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(ITEMS), max_size=5), st.lists(st.sampled_from(b"ABQ"), max_size=14)
)
def test_hex_strings_fit_what_yaras_fit(middle, letters):
    string, file = "{ 41 " + " ".join(middle) + " 42 }", bytes(letters)
    text = f"rule r {{ strings: $a = {string} condition: $a }}"
    ours = alone([Pattern(row) for row in hex_rows(string)])
    assert run(ours, cut(file, [min(3, len(file))])) == yara_says(
        yara.compile(source=text), file
    )


PIECES = [
    "a",
    "b",
    ".",
    "[ab]",
    "[^a]",
    "a?",
    "b*",
    "a+",
    "(a|bc)",
    "b{1,3}",
    "(ab){1,2}",
    "\\w",
]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), max_size=4), st.text("abc\n", max_size=12), st.booleans()
)
def test_regular_expressions_fit_what_yaras_fit(middle, text, nocase):
    source = "a" + "".join(middle) + "c"
    rule = f"rule r {{ strings: $a = /{source}/{'i' if nocase else ''} condition: $a }}"
    ours, file = alone(regex_patterns(source, nocase)), text.encode()
    assert run(ours, cut(file, [min(2, len(file))])) == yara_says(
        yara.compile(source=rule), file
    )


LETTERS = st.lists(st.sampled_from(b"ab"), max_size=6).map(bytes)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(LETTERS.filter(len), min_size=1, max_size=9) | st.lists(st.binary(min_size=1)),
    LETTERS | st.binary(max_size=60),
)
def test_the_table_ends_each_anchor_where_bytes_find_it(anchors, file):
    machine, state, found = AhoCorasick(anchors), 0, set()
    for at, byte in enumerate(file, 1):
        state = machine.table[state + byte]
        found |= {(at, index) for index in machine.ends.get(state, ())}
    assert found == {
        (at, index)
        for index, anchor in enumerate(anchors)
        for at in range(1, len(file) + 1)
        if file[:at].endswith(anchor)
    }


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(ITEMS), min_size=1, max_size=6), st.integers(0, 99))
def test_an_instance_of_a_pattern_is_read_to_its_end(items, seed):
    for row in hex_rows(" ".join(items)):
        bits, state, at = BitPattern(Pattern(row)), 0, -1
        for at, byte in enumerate(instance(Pattern(row), random.Random(seed))):
            state = bits.step(state, byte, at == 0)
        assert bits.done(state or 1 * (at < 0))


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("#a > 2", "counts matches"),
        ("for any i in (1..2) : ($a at i)", "loop"),
        ("@a[1] < 9", "where a match lies"),
        ("uint32(uint32(0x3C)) == 0x4550", "the file itself says"),
        ("uint32(0x10000) == 1", "first 4,096 bytes"),
        ("$a at entrypoint", "entrypoint"),
    ],
)
def test_what_a_stream_cannot_answer_goes_to_the_ledger(condition, reason):
    rule = 'rule r { strings: $a = "x" condition: ' + condition + " and $a }"
    matcher, ledger = compile([rule, rule_text("any_case")])
    assert [entry.rule for entry in ledger] == ["r"] and reason in ledger[0].reason
    assert run(matcher, [b"inspectme"]) == {"any_case"}


@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("turned", [False, True])
def test_a_size_is_compared_as_yara_does_and_as_early_as_it_can_be(sign, turned):
    asks = f"3 {sign} filesize" if turned else f"filesize {sign} 3"
    rule = f"rule r {{ condition: {asks} }}"
    matcher, judge = compile(rule)[0], yara.compile(source=rule)
    for size in range(7):
        early = [bool(matcher.feed(b"x")) for _ in range(size)]
        assert (any(early) or matcher.finish() == ["r"]) == bool(yara_says(judge, bytes(size)))
        if any(early):
            matcher.finish()
            ours = {"!=": 4, ">": 4, ">=": 3, "<": 4, "<=": 3}[sign]
            assert early.index(True) + 1 == ours


@pytest.mark.parametrize("modifier", ["", " nocase"])
def test_no_case_is_folded_before_a_class_is_turned_round(modifier):
    rule = f"rule r {{ strings: $a = /b[^a]c/{modifier} condition: $a }}"
    matcher, judge = compile(rule)[0], yara.compile(source=rule)
    for file in (b"bac", b"bAc", b"BxC", b"bxc"):
        assert run(matcher, [file]) == yara_says(judge, file)


def test_products_come_before_sums_as_yara_has_it():
    rule = 'rule r { strings: $a = "x" condition: filesize - 2 * 3 == 4 and $a at 1 + 2 * 2 }'
    matcher, judge = compile(rule)[0], yara.compile(source=rule)
    for file, wanted in (
        (b".....x....", {"r"}),
        (b".....x......", set()),
        (b"......x...", set()),
    ):
        assert run(matcher, [file]) == yara_says(judge, file) == wanted


@pytest.mark.parametrize(
    "string",
    [
        '"x" xor',
        '"abc" base64',
        r"/a\b/",
        "/(ab)*c/",
        "/ab?/ fullword",
        "/ab?/ wide",
        "{ 41 [9000] 42 }",
        "/(ab|c){30}d/",
        "{ " + "( 41 42 | 43 ) " * 30 + "}",
    ],
)
def test_strings_that_have_no_rows_go_to_the_ledger(string):
    assert len(compile("rule r { strings: $a = " + string + " condition: $a }")[1]) == 1


def test_a_rule_that_asks_one_in_the_ledger_follows_it():
    texts = ['rule a { strings: $a = "x" condition: #a == 1 }', "rule b { condition: a }"]
    assert [entry.rule for entry in compile(texts)[1]] == ["a", "b"]


def test_a_private_rule_is_asked_and_not_reported():
    texts = ['private rule a { strings: $a = "x" condition: $a }', "rule b { condition: a }"]
    assert run(compile(texts)[0], [b"x"]) == {"b"}


def test_a_verdict_comes_with_the_byte_that_decides_it():
    matcher, _ = compile(rule_text("any_case"))
    assert [matcher.feed(b) for b in (b"inspectm", b"E", b"inspectme")] == [
        [],
        ["any_case"],
        [],
    ]


def test_what_waits_for_the_end_comes_with_finish_and_the_next_file_is_new():
    matcher, _ = compile(rule_text("without"))
    assert matcher.feed(b"alpha") == [] and matcher.finish() == ["without"]
    assert run(matcher, [b"alpha", b"omega"]) == set() and run(matcher, [b""]) == set()


def test_a_file_that_no_rule_can_fit_is_not_searched(published):
    _, matcher, _ = published
    matcher.feed(b"PK\x03\x04")
    known = zip(matcher.program.rules, matcher.decided, strict=True)
    left = [rule.name for rule, verdict in known if verdict is None]
    assert left == ["Win32_Trojan_Emotet"]  # the one that asks nothing of a file's first bytes
    matcher.finish()


def test_flows_share_a_program_and_nothing_else():
    first, _ = compile(rule_text("any_case"))
    second = first.another()
    first.feed(b"inspect")
    assert second.feed(b"Me") == [] and first.feed(b"Me") == ["any_case"]


def test_texts_that_are_no_rules_are_refused():
    for text in ("rule {", "rule a { condition: true } rule a { condition: true }"):
        with pytest.raises(ValueError):
            compile(text)
    matcher = compile([])[0]
    assert matcher.feed(b"x") == []
    for bad in (5, "text"):
        with pytest.raises(TypeError):
            matcher.feed(bad)


def test_a_letter_of_several_bytes_is_no_class_of_bytes():
    with pytest.raises(Inexpressible):
        regex_patterns("na\xefve")


def test_a_sample_satisfies_what_its_rule_asks_of_another_rule_and_of_the_size(own):
    rules = {rule.name: rule for rule in own[0].program.rules}
    for name in ("large", "after_another", "no_string"):
        for seed in range(5):
            assert name in yara_says(own[1], sample(rules[name], seed, 5, rules))


def test_a_regex_keeps_its_start_and_its_end():
    (pattern,) = regex_patterns("^ab$")
    assert (pattern.low, pattern.high, pattern.at_end) == (0, 0, True)


def test_no_rules_make_a_program_without_strings():
    assert Program(read("rule r { condition: filesize == 2 }")[0]).bits == []
    assert run(compile("rule r { condition: filesize == 2 }")[0], [b"a", b"b"]) == {"r"}
