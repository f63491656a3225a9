"""Every bench of the book: it takes rounds and threads, has twenty rounds unless a reason stands here, tells threads.

That the rounds reach the race is held when one runs: `press race` records no receipt whose repeats are others.
"""

import json
import os
import subprocess
import sys

import pytest

from press.race import ROUNDS
from press.race.benches import scripts
from press.repository import HOME, Repository
from press.run.suite import by_folder

OTHERWISE = {
    "click_features.bench_scaling": 6,  # Spark's minutes on each of three logs
    "dlrm_serving.bench_serving": 200,  # requests, of which the 99th percentile is told
}
REFUSED = {"bench_hybrid": 1}  # threads: it races processes
ELSEWHERE = {"click_features.bench_scaling", "bench_knee", *REFUSED}  # whose threads are those of other processes
ONE_THEN_ALL = {"bench_cold_start", "quartznet.bench_quartznet", "embedding_hierarchy.bench_lookup"}  # two races each
LEFT_OUT = {"dlrm_serving.bench_serving"}  # without Triton it starts no receipt
ASK = """\
import argparse, importlib, json, os, sys
import torch
from helpers import receipts


class Parsed(BaseException):
    pass


class Started(BaseException):
    pass


def start(stem, tier, threads=None):
    raise Started(stem, threads, torch.get_num_threads())


def parsed(parser, *given):
    raise Parsed(vars(real(parser, [])), vars(real(parser, ["--rounds", "7"])))


def of(main, arguments):
    try:
        main(arguments)
    except (Parsed, Started) as found:
        return found.args
    except SystemExit:
        return "refused"


receipts.start, real, told = start, argparse.ArgumentParser.parse_args, {}
for home, name in json.load(sys.stdin):
    sys.path.insert(0, home)
    os.chdir(home)
    main = importlib.import_module(name).main
    argparse.ArgumentParser.parse_args = parsed
    told[name] = {"parsed": of(main, [])}
    argparse.ArgumentParser.parse_args = real
    told[name] |= {count: of(main, ["--threads", count]) for count in "12"}
    sys.path.remove(home)
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told():
    """What each bench of the repository makes of its command, up to the start of its receipt; no work is done."""
    asked = [(str(home), name) for home in by_folder(Repository(HOME)) for name in scripts(home, "bench_")]
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        input=json.dumps(asked),
        env=os.environ | {"PYTHONPATH": str(HOME)},
        capture_output=True,
        text=True,
        timeout=120,  # a bench that works before its receipt starts would race here
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == len(asked) > 20
    return found


def test_rounds_are_twenty_unless_somebody_says_otherwise_and_can_be_chosen(told):
    defaults = {name: one["parsed"][0]["rounds"] for name, one in told.items()}
    assert {name: rounds for name, rounds in defaults.items() if rounds != ROUNDS} == OTHERWISE
    assert {one["parsed"][1]["rounds"] for one in told.values()} == {7}


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_are_told_to_torch_and_to_the_receipt_or_refused(told, threads):
    got = {name: one[str(threads)] for name, one in told.items()}
    assert {name for name, found in got.items() if found == "refused"} == {
        name for name, refused in REFUSED.items() if refused == threads
    }
    assert {name for name, found in got.items() if found is None} == LEFT_OUT
    started = {name: found[1:] for name, found in got.items() if found and found != "refused"}
    assert {name: said for name, (said, _) in started.items() if said != threads} == {}
    torchs = {name: count for name, (_, count) in started.items() if count != threads}
    assert torchs.keys() <= ELSEWHERE | ONE_THEN_ALL
