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
    sites = storage_sites.load(Path(__file__).parents[1] / "sample_cases")
    trainings, decays = [], []

    def train(net, cases, grid, epochs, seed, decoupled):
        trainings.append((len(cases["mask"]), epochs))
        decays.append(decoupled)
        return [1.0]

    monkeypatch.setattr(script, "train", train)

    def ask(epochs=2, sites=sites, share=0.5, kind="cnn"):
        return script.trained(kind, 1, share, sites, GRID, epochs, tmp_path)

    return ask, trainings, sites, decays


def test_a_finished_network_is_found_again(asked):
    ask, trainings, *_ = asked
    assert ask() == ask() and trainings == [(10, 3)]


def test_another_training_is_not_taken_for_the_same(asked, monkeypatch):
    ask, trainings, sites, _ = asked
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


def test_one_kind_alone_decays_decoupled_and_is_not_shipped(asked, monkeypatch):
    ask, _, _, decays = asked
    monkeypatch.setattr(script, "shipped_path", None)  # would be called, and raise
    made = [ask(kind="ufno_decoupled", share=1.0)[0], ask(kind="ufno")[0]]
    assert decays == [True, False]
    assert [one["kind"] for one in made] == ["ufno_decoupled", "ufno"]
    assert made[0]["parameters"] == made[1]["parameters"]


def test_the_plan_has_every_kind_with_every_seed_and_shares_of_two():
    plan = script.plan()
    kinds = ("ufno", "cnn", "fno", "ufno_decoupled")
    assert [one for one in plan if one[2] == 1] == [
        (k, s, 1.0) for k in kinds for s in (0, 1, 2)
    ]
    shares = [(kind, 0, share) for share in (0.125, 0.25, 0.5) for kind in ("ufno", "cnn")]
    assert plan[12:] == shares


@pytest.mark.parametrize("noted", [True, False])
def test_what_the_receipt_has_of_this_code_is_not_trained_again(monkeypatch, tmp_path, noted):
    """A receipt of an older code that is noted as equal, or not; one network is missing."""
    now, asked = storage_sites.code_hash(script.CODE), []
    (tmp_path / "index.json").write_text('{"code": "of the sites"}')

    def trained(kind, seed, share, cases, *_):
        assert cases == "sites"
        asked.append((kind, seed, share))
        return {"kind": kind, "seed": seed, "share": share, "code": now}, "path"

    monkeypatch.setattr(script, "CASES", tmp_path)
    monkeypatch.setattr(script, "load", lambda folder, limit: "sites")
    monkeypatch.setattr(script, "trained", trained)
    monkeypatch.setattr(script.Surrogate, "load", lambda *given: None)
    monkeypatch.setattr(script, "measured", lambda *given: {"test_plume": 0.5})
    old = [dict(zip(("kind", "seed", "share"), one, strict=True)) for one in script.plan()[:-1]]
    old = [one | {"code": "old", "test_plume": 0.1} for one in old]
    told = {"networks": old, "date": "then", "simulator": "older"}
    told |= {"moved": {"old": {"to": now if noted else "other"}}}
    found = script.all_trained(tmp_path, GRID, "tests", told)
    assert asked == (script.plan()[-1:] if noted else script.plan())
    of = [(one["kind"], one["seed"], one["share"]) for one in found["networks"]]
    assert of == script.plan()
    assert found["networks"][:-1] == old or not noted
    assert found["networks"][-1]["test_plume"] == 0.5
    assert found["networks"][-1]["simulator"] == "of the sites"
    assert (found["date"], found["simulator"], found["epochs"]) == ("then", "older", 40)


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
