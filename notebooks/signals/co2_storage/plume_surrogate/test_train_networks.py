import hashlib
import json
from pathlib import Path

import pytest
import storage_sites
from storage_sites import generate
from two_phase import Grid

from . import shipped
from . import train_networks as script
from .surrogate import pick

GRID = Grid.reduced()


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """A function that asks for a network, and the numbers of cases and epochs of trainings."""
    sites, trainings = storage_sites.load(Path(__file__).parents[1] / "sample_cases"), []

    def train(net, cases, grid, epochs, seed):
        trainings.append((len(cases["mask"]), epochs))
        return [1.0]

    monkeypatch.setattr(script, "train", train)

    def ask(epochs=2, sites=sites, share=0.5, kind="cnn"):
        return script.trained(kind, 1, share, sites, GRID, epochs, tmp_path)

    return ask, trainings, sites


def test_a_finished_network_is_found_again(asked):
    ask, trainings, _ = asked
    assert ask() == ask() and trainings == [(10, 3)]


def test_another_training_is_not_taken_for_the_same(asked, monkeypatch):
    ask, trainings, sites = asked
    ask()
    ask(epochs=4)
    ask(epochs=4, sites=pick(sites, slice(0, 8)))
    monkeypatch.setitem(script.KINDS, "cnn", script.KINDS["fno"])
    ask(epochs=4, sites=pick(sites, slice(0, 8)))
    monkeypatch.setattr(script, "CODE", script.CODE[1:])
    ask(epochs=4, sites=pick(sites, slice(0, 8)))
    entry, path = ask(epochs=4, sites=pick(sites, slice(0, 8)))
    assert trainings == [(10, 3), (10, 6), (4, 6), (4, 6), (4, 6)]
    assert path.exists() and entry["cases"] == 4


def test_the_shipped_networks_are_those_of_the_receipt_and_of_the_defaults():
    told = json.loads(shipped.RECEIPT.read_text())
    digests = {
        (net["kind"], net["seed"]): net["sha256"]
        for net in told["networks"]
        if net["share"] == 1
    }
    for kind, seeds in shipped.SHIPPED.items():
        for seed in seeds:
            content = shipped.shipped_path(kind, seed).read_bytes()
            assert hashlib.sha256(content).hexdigest() == digests[kind, seed]
    assert (told["epochs"], told["training"]) == (script.EPOCHS, script.TRAINING)


def test_the_receipt_names_the_code_that_trains_now():
    told = json.loads(shipped.RECEIPT.read_text())
    moved = {old: new["to"] for old, new in told.get("moved", {}).items()}
    now = {moved.get(net["code"], net["code"]) for net in told["networks"]}
    assert now == {storage_sites.code_hash(script.CODE)}, (
        "the training has changed: train again, or show that the weights do not, and note it"
    )


def test_the_receipt_names_the_simulator_of_today():
    told = json.loads(shipped.RECEIPT.read_text())
    assert told["measured"]["simulator"] == storage_sites.code_hash(generate.CODE), (
        "the simulator has changed: python -m plume_surrogate.train_networks --measure"
    )


def test_the_shipped_answers_hold_the_injected_gas_on_every_unseen_site():
    told = json.loads(shipped.RECEIPT.read_text())
    ratios = [
        ratio
        for net in told["networks"]
        for one in net.get("deployed", {}).values()
        for ratio in one["gas_in_place_ratio"]
    ]
    assert len(ratios) == 5 * 150 and min(ratios) > 0.99 and max(ratios) < 1.01
