"""Checkpoints: a model survives its file, the shipped one is as it says, others are refused."""

import pytest
import torch

from .checkpoint import DIGITS_BASE, load_model, save_model
from .network import QuartzNet


def test_a_model_survives_its_file(tmp_path):
    model = QuartzNet.build("5x1", width=0.06, field=0.12).eval()
    found = load_model(save_model(model, tmp_path / "a.safetensors", {"seed": 3}))
    assert found.notes == {"seed": 3} and found.specs == model.specs
    features = torch.randn(1, 64, 30)
    assert torch.equal(found(features)[0], model(features)[0])


@pytest.mark.parametrize("content", [b"", b"\x10\x00\x00\x00\x00\x00\x00\x00no header at all"])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, content):
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match="no checkpoint"):
        load_model(tmp_path / "a.safetensors")


def test_the_shipped_model_is_small_and_says_what_it_is():
    model = load_model()
    assert DIGITS_BASE.stat().st_size < 1_000_000
    assert sum(p.numel() for p in model.parameters()) == 236_773
    assert model.receptive_field_frames == 133 and model.frames_per_step == 2
    assert model.notes["speakers"] == ["jackson", "theo"]
    assert not model.training and all(x.isfinite().all() for x in model.state_dict().values())
