"""What the page gets: ONNX models equal to PyTorch, a whole pack, an ensemble's spread."""

import base64
import hashlib
import json

import numpy as np
import pytest
import storage_sites
import torch
import two_phase
from fourier_operator import SpectralConv, as_matrices
from plume_surrogate import load_shipped, to_onnx
from torch import nn
from two_phase import Grid

from .scene import Scene, knobs, rocks
from .web import MIME, NAMES, LivePage, WebMember, ensemble, export, web_members

GRID = Grid.reduced(rows=8, rings=12, reports=6)
START = torch.tensor([knob.value for knob in knobs(GRID)], dtype=torch.float32)


class Small(nn.Module):
    """A small network with an operator's parts: padding, spectral layers, a U-Net, norms."""

    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(4, 6)
        self.spectral = SpectralConv(6, 6, (3, 4, 2))
        self.norm, self.down = nn.BatchNorm3d(8), nn.Conv3d(6, 8, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose3d(8, 6, 4, stride=2, padding=1)
        self.last = nn.Linear(6, 2)

    def forward(self, case):
        rows, rings, times = *GRID.shape, len(GRID.times_days)
        fields = [case[name] for name in ("permeability", "porosity", "mask")]
        fields[0] = (fields[0] + 1).log()
        fields += [(case["depth"] * case["rate"])[:, None, None].expand_as(fields[0]) / 1000]
        x = torch.stack([field.float() for field in fields], -1)
        x = self.lift(x).permute(0, 3, 1, 2)[..., None].expand(-1, -1, -1, -1, times)
        x = nn.functional.pad(x, (0, 2, 0, 4, 0, 0), mode="replicate")
        around = self.up(nn.functional.leaky_relu(self.norm(self.down(x))))
        x = torch.relu(self.spectral(x) + around)[:, :, :rows, :rings, :times]
        y = self.last(x.permute(0, 4, 2, 3, 1))
        return torch.sigmoid(y[..., 0]), 20 * y[..., 1]


def member(seed, bits=8):
    """A `WebMember` with random weights."""
    torch.manual_seed(seed)
    net = Small()
    net.norm.running_mean.normal_()
    scene = Scene(GRID)
    case = scene(rocks(GRID)["even"], START)
    return WebMember(scene, as_matrices(net, (case,), bits=bits)).eval()


def session(model):
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def shipped():
    """(grid, the first shipped network as the page has it, its ONNX session, all knobs)."""
    grid = Grid.reduced()
    (one,) = web_members(load_shipped(grid)[:1], grid)
    start = torch.tensor([knob.value for knob in knobs(grid)], dtype=torch.float32)
    return grid, one, session(to_onnx(one, (rocks(grid)["even"], start), *NAMES)), start


def test_the_chapter_s_operator_can_be_exported(shipped):
    grid, one, run, start = shipped
    pattern = rocks(grid)["smooth"]
    found = run.run(None, {"pattern": pattern.numpy(), "knobs": start.numpy()})
    for ours, theirs in zip(found, one(pattern, start), strict=True):
        theirs = theirs.detach().numpy()
        scale = max(1e-3, np.abs(theirs).max())
        assert np.abs(ours - theirs).max() < 1e-5 * scale


@pytest.fixture(scope="module")
def exported():
    """(member, its ONNX file) by the bits of its weights."""
    members = {bits: member(3, bits) for bits in (8, 32)}
    return {
        bits: (one, to_onnx(one, (rocks(GRID)["even"], START), *NAMES))
        for bits, one in members.items()
    }


@pytest.mark.parametrize("bits", [8, 32])
@pytest.mark.parametrize("rock", ["layered", "rough"])
def test_onnx_runtime_gives_pytorch_s_numbers(exported, bits, rock):
    (one, graph), pattern = exported[bits], rocks(GRID)[rock]
    run = session(graph)
    for moved in range(len(START)):
        values = START.clone()
        knob = knobs(GRID)[moved]
        values[moved] = knob.min + 0.3 * (knob.max - knob.min)
        expected = one(pattern, values)
        found = run.run(None, {"pattern": pattern.numpy(), "knobs": values.numpy()})
        for name, ours, theirs in zip(
            ("saturation", "pressure", "share"), found, expected, strict=True
        ):
            scale = max(1.0, theirs.abs().max().item())
            apart = np.abs(ours - theirs.detach().numpy()).max() / scale
            assert apart < 1e-5, f"{name}, {knob.name}: a tenth of what the page allows"


def test_the_file_holds_weights_as_small_as_they_are_stored(exported):
    wide, narrow = (len(exported[bits][1]) for bits in (32, 8))
    numbers = sum(w.numel() * (2 if w.is_complex() else 1) for w in Small().parameters())
    assert wide - narrow > 2 * numbers, "8 or 16 bits a number in place of 32"


def test_what_the_page_draws_holds_the_injected_gas(shipped):
    grid, one, run, start = shipped
    for rock, rate in (("layered", 0.4), ("sand and shale", 1.5)):
        pattern, values = rocks(grid)[rock], start.clone()
        values[3] = rate
        fed = {"pattern": pattern.numpy(), "knobs": values.numpy()}
        saturation, pressure, _ = run.run(None, fed)
        drawn = {key: value.numpy() for key, value in one.scene(pattern, values).items()}
        top = np.flatnonzero(drawn["perforation_mask"][0]) * grid.row_m
        opened = np.array([[top[0], top[-1] + grid.row_m]])
        case = storage_sites.to_case(drawn | {"perforation": opened}, 0)
        held = two_phase.co2_in_place_mt(case, grid, saturation, pressure)
        np.testing.assert_allclose(held * 365 / rate / grid.times_days, 1, atol=0.003)
        below = ~drawn["mask"][0]
        assert not saturation[:, below].any() and not pressure[:, below].any()
        assert saturation.min() >= 0 and saturation.max() <= 0.8 + 1e-6  # of brine 0.2 stay


@pytest.fixture(scope="module")
def page():
    return export([member(seed) for seed in (1, 2)], GRID, "No script runs here.")


def test_the_pack_lists_what_it_holds(page):
    meta = json.loads(page.files["meta.json"])
    assert meta["members"] == ["member0.onnx", "member1.onnx"]
    assert set(page.files) == {*meta["members"], "meta.json", "patterns.f32", "check.f32"}
    assert [knob["name"] for knob in meta["knobs"]] == [knob.name for knob in knobs(GRID)]
    assert meta["grid"]["times_days"] == list(GRID.times_days)
    assert {len(colours) for colours in meta["colours"].values()} == {64}


def test_the_checks_in_the_pack_are_pytorch_s_numbers_for_the_first_case(page):
    meta, found = (
        json.loads(page.files["meta.json"]),
        np.frombuffer(page.files["check.f32"], "<f4"),
    )
    patterns = np.frombuffer(page.files["patterns.f32"], "<f4").reshape(-1, 2, *GRID.shape)
    assert len(patterns) == len(meta["rocks"])
    start = np.array([knob["value"] for knob in meta["knobs"]], dtype=np.float32)
    each = []
    for name in meta["members"]:
        answers = session(page.files[name]).run(None, {"pattern": patterns[0], "knobs": start})
        each += [answer.ravel()[:: meta["check_every"]] for answer in answers[:2]]
    np.testing.assert_allclose(found, np.concatenate(each), rtol=1e-4, atol=1e-4)


def test_displayed_it_shows_its_words_and_hands_its_files_to_the_press(page):
    bundle = page._repr_mimebundle_()
    assert "No script runs here." in bundle["text/html"] and bundle["text/plain"]
    pack = bundle[MIME]
    assert pack["name"] == "storage" and set(pack["files"]) == set(page.files)
    for name, one in pack["files"].items():
        content = base64.b64decode(one["base64"])
        assert content == page.files[name]
        assert one["sha256"] == hashlib.sha256(content).hexdigest()


def test_a_page_without_a_member_is_refused():
    with pytest.raises(ValueError, match="0 members"):
        export([], GRID, "Words.")


def test_the_ensemble_s_mean_and_spread_are_those_of_its_members():
    answers = [([0.1, 0.5], [3.0, 4.0], 0), ([0.3, 0.5], [5.0, 8.0], 0)]
    (mean, spread), (pressure, apart) = ensemble(answers)
    np.testing.assert_allclose([mean, spread], [[0.2, 0.5], [0.2 / 2**0.5, 0]], atol=1e-15)
    np.testing.assert_allclose([pressure, apart], [[4, 6], [2**0.5, 8**0.5]])


def test_one_member_has_no_spread():
    ((_, spread), _) = ensemble([([0.1], [1.0])])
    assert spread == 0


def test_a_page_of_other_files_is_whole_too():
    bundle = LivePage("other", {"a.bin": b""}, "Words.")._repr_mimebundle_()
    assert bundle[MIME]["files"]["a.bin"]["base64"] == ""
