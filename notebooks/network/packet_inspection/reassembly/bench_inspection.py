"""The race: signatures in a stream by ours, Hyperscan in streaming mode, YARA and YARA-X, with
ever more rules; and the whole inspector with storage rules alone, and behind a firewall.

Equal verdicts come first: each contestant says of samples what ours says of them. In the
chapter's folder, a receipt or a quick look:

    python -m reassembly.bench_inspection
    python -m reassembly.bench_inspection --rounds 3 --kilobytes 64

Ours and Hyperscan get packets and carry a state; YARA and YARA-X get the whole file, put
together outside of the clock. Compiling is outside of it for all. Hyperscan reports patterns;
conditions are answered by ours.
"""

import argparse
import functools
import importlib.util
import random
import re

import torch
import yara
from helpers import bench, check, data, device, receipts
from stream_rules import Matcher, Program, read
from stream_rules.conditions import Seen, answer
from stream_rules.samples import sample
from stream_rules.study_cuts import beyond
from stream_rules.suricata import expression

from .captures import CLIENT, download, response
from .inspector import FirewallRule, Inspector

PAYLOAD = 1460  # bytes of a segment in an Ethernet frame without options
COUNTS = (1, 4, 16, 42)  # rules; the last are all published ones that a stream can answer


def published():
    """(texts by rule's name, the rules that a stream can answer): a file holds one rule."""
    texts = [path.read_text() for path in sorted(data.fetch("yara_rules").rglob("*.yara"))]
    return {re.search(r"^rule (\w+)", text, re.M)[1]: text for text in texts}, read(texts)[0]


def in_packets(file):
    """The file's bytes as segments carry them."""
    return [file[at : at + PAYLOAD] for at in range(0, len(file), PAYLOAD)]


def hyperscan_of(rules):
    """A function of packets: the names of rules that hold, by Hyperscan's streaming mode."""
    import hyperscan

    program = Program(rules)
    database = hyperscan.Database(mode=hyperscan.HS_MODE_STREAM)
    sources = [expression(b.pattern).removeprefix('pcre:"/')[:-3] for b in program.bits]
    flags = hyperscan.HS_FLAG_DOTALL | hyperscan.HS_FLAG_SINGLEMATCH
    numbers = list(range(len(sources)))
    database.compile([s.encode() for s in sources], numbers, len(sources), flags)

    def scan(packets):
        found = set()
        note = lambda number, *_: found.add(program.owner[number])  # noqa: E731
        with database.stream(match_event_handler=note) as stream:
            for packet in packets:
                stream.scan(packet)
        head, size = packets[0][: program.header], sum(map(len, packets))
        pairs = zip(program.rules, program.uses, strict=True)
        return {
            rule.name
            for rule, uses in pairs
            if answer(
                rule.condition, Seen(lambda n, u=uses: u[n] in found, {}, head, size, True)
            )
        }

    return scan


def ours_of(rules):
    """The same function, by ours."""
    matcher = Matcher(Program(rules))
    return lambda packets: {n for p in packets for n in matcher.feed(p)} | {*matcher.finish()}


def makers(texts):
    """{name: makes a scanner of rules}: of packets, of a whole file for those that carry
    nothing. A peer that is not installed is left out."""
    made = {"ours": ours_of}
    if importlib.util.find_spec("hyperscan"):
        made["hyperscan"] = hyperscan_of
    source = lambda rules: "\n".join(dict.fromkeys(texts[rule.name] for rule in rules))  # noqa: E731

    def yara_of(rules):
        compiled = yara.compile(source=source(rules))
        return lambda file: {match.rule for match in compiled.match(data=file)}

    def yara_x_of(rules):
        import yara_x

        scanner = yara_x.Scanner(yara_x.compile(source(rules)))
        return lambda file: {rule.identifier for rule in scanner.scan(file).matching_rules}

    made["yara"] = yara_of
    if importlib.util.find_spec("yara_x"):
        made["yara_x"] = yara_x_of
    return made


def contestants(made, rules, file):
    """{name: scans the file}, after all have said of samples what ours says."""
    scans, samples = {name: make(rules) for name, make in made.items()}, {}
    for seed, rule in enumerate(rules):
        samples[rule.name] = sample(rule, seed)
    given = {name: in_packets if name in ("ours", "hyperscan") else bytes for name in scans}
    for name, scan in scans.items():
        for rule in rules:
            if name in ("ours", "hyperscan") or not beyond(rule):
                said = scan(given[name](samples[rule.name]))
                told = f"{name} does not say {rule.name} of its sample, and that alone"
                check.that(said == {rule.name}, told)
        check.that(not scan(given[name](file)), f"{name} finds a rule in random bytes")
    return {name: functools.partial(scan, given[name](file)) for name, scan in scans.items()}


def capture(files, most):
    """Frames of a download each, from clients of one network by turns with another's."""
    frames = []
    for number, file in enumerate(files):
        client = (bytes([10, number % 2, 0, 2]), CLIENT[1] + number)
        stream = response(file)
        frames += download(stream, range(0, len(stream), most), client=client)
    return frames


def inspectors(rules, frames):
    """{name: all frames through a new inspector}: storage rules alone, and behind a firewall
    that drops one client's network of two."""
    matcher = Matcher(Program(rules))

    def through(firewall):
        inspector = Inspector(matcher, firewall)
        for frame in frames:
            inspector.frame(frame)
        inspector.finish()
        return inspector

    both = [FirewallRule(target="10.1.0.0/16"), FirewallRule(source="10.1.0.0/16")]
    kept = [through(rules).counts["files"] for rules in ([], both)]
    check.that(kept[1] * 2 == kept[0] > 0, f"files inspected {kept}: half should be left")
    return {"storage": lambda: through([]), "both": lambda: through(both)}


def main(arguments=None):
    """Check, race, print tables and the receipt's path."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    receipt = receipts.start("packets", device.tier("cpu"), threads=options.threads)
    texts, rules = published()
    made = makers(texts)
    for name in {"hyperscan", "yara_x"} - made.keys():
        print(f"left out: {name} is not installed")
    file = b"MZ" + random.Random(0).randbytes(1000 * options.kilobytes)
    receipt.sizes(bytes=len(file), payload=PAYLOAD)
    for count in COUNTS:
        few = {n: m for n, m in made.items() if n != "yara_x" or count == COUNTS[-1]}
        chosen = contestants(few, rules[:count], file)
        race = bench.race(chosen, options.rounds, reference="ours", device="cpu")
        print(race)
        for name, found in race.results.items():
            key = f"{name}_{count}_rules"
            receipt.record(key, found, "B/s", count=len(file))
    rng = random.Random(1)
    files = [b"MZ" + rng.randbytes(250 * options.kilobytes) for _ in range(4)]
    chosen = inspectors(rules, capture(files, PAYLOAD))
    race = bench.race(chosen, options.rounds, reference="storage", device="cpu")
    print(race)
    receipt.record("both_over_storage", race.ratios["both"])
    for name, found in race.results.items():
        receipt.record(f"inspector_{name}", found, "B/s", count=sum(map(len, files)))
    print(receipt.write(name="race"))


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name, default, words in (
        ("rounds", 20, "interleaved rounds"),
        ("threads", 1, "of torch; each contestant has one"),
        ("kilobytes", 1000, "of the file that is scanned"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, help=f"{words} (default: %(default)s)"
        )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
