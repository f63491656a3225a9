"""The study of Darcy flow as it is declared: who learns what, who is asked about what."""

import builtins

import pytest
import torch
from helpers import data, receipts
from helpers.study import Job, StudyError
from press.study import hold, record, run

from . import darcy
from . import study_darcy as study
from .networks import FNO, UNet, parameters

STARTS = {"fno": "FNO", "cnn": "U-Net", "neuraloperator": "peer's"}
WHOLE = study.declared(peer=True)


def flow(samples, points=16, seed=0):
    """Random rock, and as answers its share of the second kind at every place."""
    drawn = torch.Generator().manual_seed(seed)
    a = (torch.rand(samples, 16, 16, generator=drawn) > 0.5).float()
    a = a.repeat_interleave(points // 16, 1).repeat_interleave(points // 16, 2)
    return darcy.Flow(a, a.mean((1, 2), keepdim=True).expand(a.shape) + 1)


@pytest.fixture
def flows(monkeypatch):
    """The three parts of a small data set in place of the shipped one."""
    found = {"train_16": flow(40), "test_16": flow(6, seed=1), "test_32": flow(6, 32, 1)}
    monkeypatch.setattr(data, "fetch", lambda name: name)
    monkeypatch.setattr(darcy, "load", lambda folder: found if folder == "darcy" else None)
    return found


def test_each_arm_is_given_what_it_is_named_for(flows):
    seen = hold(WHOLE)
    assert set(seen) == {(name, seed) for name in STARTS for seed in (0, 1)}
    for (name, seed), (job, made, tests) in seen.items():
        assert job.start == STARTS[name] and made == ("made", name, seed)
        assert torch.equal(job.train.a_NZR, flows["train_16"].a_NZR[:32])
        assert torch.equal(job.train.u_NZR, flows["train_16"].u_NZR[:32])
        assert (*job.arm.loss,) == (32, 4e-3) and job.choice is None and not job.arm.setting
        assert set(tests) == {"test_16", "test_32"}
        for part, asked in tests.items():
            assert torch.equal(asked.a_NZR, flows[part].a_NZR[:4])


def test_what_is_recorded_has_three_seeds_of_the_whole_data_set():
    assert list(WHOLE.seeds) == [0, 1, 2] and (WHOLE.threads, WHOLE.processes) == (1, 2)
    assert WHOLE.sizes == {"epochs": 20, "training_fields": 1000, "test_fields": 50}


def test_without_the_peer_its_arm_alone_is_left_out():
    bare = study.declared(peer=False)
    assert set(WHOLE.arms) - set(bare.arms) == {"neuraloperator"}
    assert all(bare.arms[name] == WHOLE.arms[name] for name in bare.arms)
    bare.check()


@pytest.mark.parametrize("part", ["test_16", "test_32"])
def test_rock_that_was_learned_is_seen_in_a_test_on_either_grid(flows, part):
    with_learned = flow(40, flows[part].a_NZR.shape[-1])
    flows[part] = darcy.Flow(*(field[20:] for field in with_learned))
    with pytest.raises(StudyError, match=f"'train_16' and '{part}' share 4 units"):
        hold(WHOLE)


def test_the_shipped_fields_are_apart_and_the_fine_ones_are_those_of_the_coarse_test():
    try:
        parts = WHOLE.parts(0, WHOLE.sizes)
    except data.DataError as error:
        pytest.skip(f"the data set cannot be had: {error}")
    WHOLE.apart(parts)
    units = {name: set(part.units) for name, part in parts.items()}
    assert {name: len(of) for name, of in units.items()} == {
        "train_16": 1000, "test_16": 50, "test_32": 50,
    }  # fmt: skip
    assert units["test_16"] == units["test_32"]


def job(name, **more):
    return Job(name, WHOLE.arms[name], 1, {"epochs": 2}, **more)


def test_an_arm_begins_with_a_new_network_of_its_kind_and_seed():
    for name, kind in (("fno", FNO), ("cnn", UNet)):
        made = study.begin(STARTS[name], job(name))
        wanted = darcy.contestants(1)[STARTS[name]]
        assert type(made) is kind
        assert all(map(torch.equal, made.parameters(), wanted.parameters()))
        other = study.begin(STARTS[name], job(name)._replace(seed=2))
        assert not all(map(torch.equal, made.parameters(), other.parameters()))


def test_the_peer_is_asked_for_planes_and_answers_as_our_networks_do():
    x = torch.randn(2, 3, 16, 16, 1)
    answers = study.Flat(lambda planes: planes[:, :1] + planes[:, 1:2])(x)
    assert torch.equal(answers, (x[:, 0] + x[:, 1]))


def test_the_peer_is_of_our_fnos_size():
    pytest.importorskip("neuralop", reason="no neuraloperator here")
    peer = study.begin("peer's", job("neuraloperator"))
    assert peer(torch.randn(2, 3, 16, 16, 1)).shape == (2, 16, 16, 1)
    ours = parameters(darcy.contestants()["FNO"])[1]
    assert parameters(peer)[1] == pytest.approx(ours, rel=0.05)


def test_another_network_never_stands_in_for_the_peer(monkeypatch):
    found = builtins.__import__

    def without(name, *rest):
        if name.startswith("neuralop"):
            raise ImportError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError):
        study.begin("peer's", job("neuraloperator"))


def test_a_network_is_trained_on_its_own_fields_and_kept_after_each_epoch(monkeypatch):
    asked = []

    def fitted(net, fields, epochs, batch, rate, seed, tell):
        asked.append((net, fields, epochs, batch, rate, seed))
        for epoch in range(epochs):
            torch.nn.init.constant_(net.weight, epoch + 1.0)
            tell(epoch, 0.0)

    monkeypatch.setattr(darcy, "fit", fitted)
    net = torch.nn.Linear(1, 1)
    after = study.fit(job("cnn", start=net, train="fields"))
    assert asked == [(net, "fields", 2, 32, 4e-3, 1)]
    assert [one.weight.item() for one in after] == [1, 2]


class Away(torch.nn.Module):
    """A network whose answers are so many times too large."""

    unit = (0.0, 1.0)

    def __init__(self, u_NZR, share):
        super().__init__()
        self.u_NZR, self.share = u_NZR, torch.nn.Parameter(torch.tensor(share))

    def forward(self, x):
        return (self.u_NZR * (1 + self.share))[..., None]


@pytest.mark.parametrize("points", [16, 32])
def test_the_last_network_is_judged_on_the_grid_that_is_asked(points):
    fields = flow(6, points)
    after = [Away(fields.u_NZR, share) for share in (0.5, 0.125, 0.25)]
    found = study.judge(after, fields, job("fno"))
    assert found.pop(str(points)) == pytest.approx(0.25)
    assert found == {"curve": pytest.approx([0.5, 0.125, 0.25]), "parameters": [1]}


def test_errors_are_recorded_in_percent_and_differences_are_the_others_less_our_fnos():
    errors = {"fno": (0.1, 0.12), "cnn": (0.09, 1.0), "neuraloperator": (0.12, 0.11)}
    found = {name: {} for name in errors}
    for name, pair in errors.items():
        for seed in range(3):
            found[name][seed] = {
                f"test_{points}": {
                    points: off + 0.01 * seed, "curve": [0.5 + seed, off], "parameters": [7],
                }
                for points, off in zip(("16", "32"), pair, strict=True)
            }  # fmt: skip
    receipt = receipts.start("co2_storage", "cpu")
    record(WHOLE, receipt, found)
    told = receipt.metrics
    assert told["darcy_trained_fno_16"]["value"] == pytest.approx(11)
    half = 4.302653 / 3**0.5  # Student's t for three, of a spread of one
    assert told["darcy_trained_cnn_32"]["low"] == pytest.approx(101 - half)
    assert told["darcy_trained_cnn_32"]["unit"] == "%"
    wanted = {"cnn": (-1, 88), "neuraloperator": (2, -1)}
    for name, gaps in wanted.items():
        for points, gap in zip((16, 32), gaps, strict=True):
            pair = told[f"darcy_{name}_less_fno_{points}"]
            assert pair["value"] == pytest.approx(gap) and pair["unit"] == "percentage points"
    curve = receipt.curves["darcy"]
    assert curve["epoch"] == [1, 2] and len(curve) == 7
    assert curve["cnn_32"] == pytest.approx([150, 100])
    assert curve["fno_16"] == pytest.approx([150, 10])


def test_the_study_runs_and_records_both_our_networks(flows):
    small = study.declared(peer=False).small(1)
    receipt = receipts.start("co2_storage", "cpu")
    record(small, receipt, run(small))
    for name in ("fno", "cnn"):
        assert 1 < receipt.metrics[f"darcy_trained_{name}_16"]["value"] < 500
        assert len(receipt.curves["darcy"][f"{name}_32"]) == 1
