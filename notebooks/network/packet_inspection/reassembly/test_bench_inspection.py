"""What is raced says the same first, and which way the ratios point."""

import contextlib
import importlib.machinery
import json
import re
import sys
import types

import pytest
from helpers import check, data
from helpers.bench import Measurement, Race, ratio
from stream_rules.samples import sample

from . import bench_inspection as race_of


@pytest.fixture(scope="module")
def published():
    try:
        return race_of.published()
    except data.DataError as error:
        pytest.skip(str(error))


def installed(published):
    """The contestants that this environment has, but YARA-X, which is raced once."""
    return {n: m for n, m in race_of.makers(published[0]).items() if n != "yara_x"}


def test_packets_are_the_file_and_no_longer_than_a_frame_takes():
    file = bytes(range(256)) * 20
    packets = race_of.in_packets(file)
    assert b"".join(packets) == file and {len(p) for p in packets[:-1]} == {1460}


def test_all_published_rules_are_raced(published):
    assert len(published[1]) == race_of.COUNTS[-1] == 42


def test_contestants_scan_the_same_file(published):
    texts, rules = published
    file = b"MZ" + bytes(3000)
    made = race_of.contestants(installed(published), rules[:3], file)
    assert {"ours", "yara"} <= set(made) and not any(scan() for scan in made.values())


NAMES = ("ours", "hyperscan", "yara", "yara_x")


def test_each_name_scans_with_its_own_maker_all_of_the_file_and_compiles_once(published):
    rules, file, made = published[1][:2], b"MZ" + bytes(range(256)) * 12, []
    known = {sample(rule, seed): {rule.name} for seed, rule in enumerate(rules)}
    handed = {name: [] for name in NAMES}

    def maker(name):
        def make(rules):
            made.append(name)

            def scan(given):
                handed[name].append(given)
                whole = given if isinstance(given, bytes) else b"".join(given)
                return known.get(whole, set())

            return scan

        return make

    chosen = race_of.contestants({name: maker(name) for name in NAMES}, rules, file)
    for name in NAMES:
        before = len(handed[name])
        assert chosen[name]() == set() and len(handed[name]) == before + 1
    assert sorted(made) == sorted(NAMES), "a compiler ran within the clock"
    packets = race_of.in_packets(file)
    assert handed["ours"][-1] == handed["hyperscan"][-1] == packets and len(packets) == 3
    assert handed["yara"][-1] == handed["yara_x"][-1] == file


def test_each_maker_asks_the_library_of_its_name(monkeypatch, published):
    """With stand-ins for the peers that may be absent here."""
    texts, rules = published
    asked = []

    class Database:
        def __init__(self, mode):
            asked.append(mode)

        def compile(self, expressions, ids, elements, flags):
            asked.append(flags)
            self.rows = [re.compile(one, re.S) for one in expressions]
            assert list(ids) == list(range(len(self.rows))) and elements == len(self.rows)

        @contextlib.contextmanager
        def stream(self, match_event_handler):
            come = bytearray()

            def scan(packet):
                asked.append(len(packet))
                come.extend(packet)
                for number, row in enumerate(self.rows):
                    if row.search(come):
                        match_event_handler(number, 0, len(come), 0, None)

            yield types.SimpleNamespace(scan=scan)

    for name, words in {
        "hyperscan": {"Database": Database, "HS_MODE_STREAM": "stream",
                      "HS_FLAG_DOTALL": 1, "HS_FLAG_SINGLEMATCH": 2},
        "yara_x": {"compile": lambda source: asked.append("yara_x")},
    }.items():  # fmt: skip
        module = types.ModuleType(name)
        module.__dict__.update(words, __spec__=importlib.machinery.ModuleSpec(name, None))
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys.modules["yara_x"], "Scanner", lambda rules: asked, raising=False)
    makers = race_of.makers(texts)
    assert set(makers) == set(NAMES) and makers["ours"] is race_of.ours_of
    scan = makers["hyperscan"](rules[:2])
    assert asked == ["stream", 3], "not in streaming mode, or each match is told again"
    file = sample(rules[1], 1)
    assert scan([file[:90], file[90:]]) == {rules[1].name}
    assert asked[2:] == [90, len(file) - 90]
    makers["yara_x"](rules[:2])
    assert asked[-1] == "yara_x"
    monkeypatch.setattr(race_of.yara, "compile", lambda source: asked.append(source))
    makers["yara"](rules[:2])
    assert asked[-1] == "\n".join(texts[rule.name] for rule in rules[:2])


def test_a_race_has_twenty_rounds_and_all_counts_of_rules():
    options = race_of._options([])
    assert (options.rounds >= 20, options.threads, options.kilobytes) == (True, 1, 1000)
    assert race_of.COUNTS == (1, 4, 16, 42)


def test_who_says_nothing_or_too_much_is_refused(published):
    _, rules = published
    quiet = {"ours": race_of.ours_of, "hyperscan": lambda rules: lambda packets: set()}
    with pytest.raises(check.Failed, match="hyperscan does not say"):
        race_of.contestants(quiet, rules[:1], b"MZ")
    more = {"ours": lambda rules: lambda packets: {rule.name for rule in rules} | {"more"}}
    with pytest.raises(check.Failed, match="and that alone"):
        race_of.contestants(more, rules[:1], b"MZ")
    loud = {"yara": lambda rules: lambda file: {rule.name for rule in rules}}
    with pytest.raises(check.Failed, match="finds a rule in random bytes"):
        race_of.contestants(loud, rules[:1], b"MZ")


@pytest.mark.parametrize("name", ["hyperscan", "yara_x"])
def test_a_peer_says_of_all_samples_what_ours_says(published, name):
    pytest.importorskip(name)
    texts, rules = published
    made = {n: m for n, m in race_of.makers(texts).items() if n in ("ours", name)}
    assert set(race_of.contestants(made, rules, b"MZ" + bytes(100))) == {"ours", name}


def test_the_firewall_leaves_half_of_the_files(published):
    files = [b"MZ" + bytes(4000)] * 4
    made = race_of.inspectors(published[1][:1], race_of.capture(files, 1460))
    alone, both = made["storage"]().counts, made["both"]().counts
    assert (alone["files"], both["files"]) == (4, 2)
    assert alone["bytes of files"] == 2 * both["bytes of files"] == sum(map(len, files))
    assert alone["frames"] == both["frames"]


def test_half_the_time_is_told_as_twice_as_fast(monkeypatch, tmp_path, published):
    texts, rules = published

    rounds, scanned = [], []

    def raced(contestants, repeats, reference, device):
        rounds.append((repeats, reference))
        took = {"both": 0.001}
        results = {
            name: Measurement(t, t, t, (t,) * repeats, None, "cpu")
            for name, t in ((n, took.get(n, 0.002)) for n in contestants)
        }
        ratios = {n: ratio(results[reference], one) for n, one in results.items()}
        return Race(results, ratios, reference)

    def handed(made, rules, file):
        scanned.append((len(rules), file))
        return truly(made, rules, file)

    truly = race_of.contestants
    monkeypatch.setattr(race_of, "contestants", handed)
    some = {name: installed(published)[name] for name in ("ours", "yara")}
    monkeypatch.setattr(race_of, "makers", lambda texts: some)
    monkeypatch.setattr(race_of, "published", lambda: (texts, rules[:2]))
    monkeypatch.setattr(race_of, "COUNTS", (1, 2))
    monkeypatch.setattr(race_of.bench, "race", raced)
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    race_of.main(["--rounds", "6", "--kilobytes", "1", "--threads", "1"])
    (path,) = tmp_path.glob("*.json")
    found = json.loads(path.read_text())["metrics"]
    assert found["both_over_storage"]["value"] == 2
    assert found["inspector_both"]["value"] == 2 * found["inspector_storage"]["value"]
    for key in ("ours_1_rules", "yara_1_rules", "ours_2_rules", "yara_2_rules"):
        assert found[key]["value"] == 1002 / 0.002
    assert found["inspector_storage"]["value"] == 4 * 252 / 0.002
    assert rounds == [(6, "ours"), (6, "ours"), (6, "storage")]
    assert [count for count, _ in scanned] == [1, 2]
    for _, file in scanned:  # without MZ most rules would end with the first packet
        assert file[:2] == b"MZ" and len(set(file)) > 200
