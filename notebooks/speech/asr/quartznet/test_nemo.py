"""A .nemo file loads as NeMo itself computes, and a wrong or hostile one is refused with its
reason.

The fixture was written by NeMo 3.0.0: see `test_nemo_itself`.
"""

import copy
import io
import os
import pickle
import tarfile
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from . import checkpoint as nemo
from .features import log_mel
from .network import VOCABULARY, BlockSpec, QuartzNet

FIXTURE = Path(__file__).parent / "nemo_fixture"


@pytest.fixture(scope="module")
def members():
    with tarfile.open(FIXTURE / "tiny_quartznet.nemo") as archive:
        found = {
            m.name.removeprefix("./"): archive.extractfile(m).read()
            for m in archive
            if m.isreg()
        }
    config = yaml.safe_load(found["model_config.yaml"])
    return config, torch.load(io.BytesIO(found["model_weights.ckpt"]), weights_only=True)


def written(path, config, state, mode="w", names=("model_config.yaml", "model_weights.ckpt")):
    buffer = io.BytesIO()
    torch.save(state, buffer) if not isinstance(state, bytes) else buffer.write(state)
    text = config if isinstance(config, str) else yaml.safe_dump(config)
    with tarfile.open(path, mode) as archive:
        for name, content in zip(names, (text.encode(), buffer.getvalue()), strict=True):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_features_equal_nemos():
    expected = load_file(FIXTURE / "expected.safetensors")
    features, frames = log_mel(expected["signal"], expected["lengths"])
    assert frames.tolist() == expected["frames"].tolist()
    longest = features.shape[2]  # NeMo pads to a multiple of 16 frames, with zeros
    torch.testing.assert_close(
        features, expected["features"][:, :, :longest], rtol=0, atol=1e-4
    )
    assert not expected["features"][:, :, longest:].any()


def test_log_probabilities_equal_nemos():
    expected = load_file(FIXTURE / "expected.safetensors")
    model, vocabulary = nemo.load_nemo(FIXTURE / "tiny_quartznet.nemo")
    with torch.inference_mode():
        log_probs, steps = model(*log_mel(expected["signal"], expected["lengths"]))
    assert vocabulary == VOCABULARY and steps.tolist() == expected["steps"].tolist()
    for ours, theirs, length in zip(log_probs, expected["log_probs"], steps, strict=True):
        torch.testing.assert_close(ours[:length], theirs[:length], rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["15x5", "5x5", "5x1"])
def test_every_tensor_has_a_name_of_its_own(name):
    with torch.device("meta"):  # names alone are asked for
        model = QuartzNet.build(name, width=0.1)
    names = nemo.nemo_names(model)
    assert names.keys() == model.state_dict().keys() and len(set(names.values())) == len(names)


def test_a_step_that_is_not_separable_takes_four_places():
    names = nemo.nemo_names(QuartzNet([BlockSpec(8, 3, repeats=2, separable=False)]))
    assert names["blocks.0.steps.1.pointwise.weight"] == "encoder.encoder.0.mconv.4.conv.weight"
    assert names["blocks.0.steps.1.norm.bias"] == "encoder.encoder.0.mconv.5.bias"


def test_gzipped_and_interpolated_checkpoints_load(tmp_path, members):
    config, state = copy.deepcopy(members)
    config["labels"], config["decoder"]["vocabulary"] = (
        config["decoder"]["vocabulary"],
        "${labels}",
    )
    path = written(tmp_path / "a.nemo", config, state, "w:gz")
    assert nemo.load_nemo(path)[1] == VOCABULARY


def test_a_pickle_that_runs_code_is_refused(tmp_path, members):
    class Hostile:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "owned"),)

    path = written(tmp_path / "a.nemo", members[0], pickle.dumps({"x": Hostile()}, protocol=2))
    with pytest.raises(ValueError, match="no plain tensors"):
        nemo.load_nemo(path)
    assert not (tmp_path / "owned").exists()


def test_yaml_that_makes_objects_is_refused(tmp_path, members):
    hostile = f"preprocessor: !!python/object/apply:os.mkdir ['{tmp_path}/owned']"
    with pytest.raises(ValueError, match="no QuartzNet"):
        nemo.load_nemo(written(tmp_path / "a.nemo", hostile, members[1]))
    assert not (tmp_path / "owned").exists()


def test_a_link_is_refused(tmp_path):
    with tarfile.open(tmp_path / "a.nemo", "w") as archive:
        member = tarfile.TarInfo("model_config.yaml")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(ValueError, match="one plain file"):
        nemo.load_nemo(tmp_path / "a.nemo")


def test_a_repeated_member_is_refused(tmp_path, members):
    path = written(tmp_path / "a.nemo", *members, names=["model_weights.ckpt"] * 2)
    with pytest.raises(ValueError, match="one plain file"):
        nemo.load_nemo(path)


def test_a_huge_member_is_refused_before_it_is_read(tmp_path, members, monkeypatch):
    monkeypatch.setitem(nemo.MOST_BYTES, "model_weights.ckpt", 1000)
    with pytest.raises(ValueError, match="refused"):
        nemo.load_nemo(written(tmp_path / "a.nemo", *members))


@pytest.mark.parametrize("content", [b"", b"no archive at all", b"\x1f\x8b broken gzip"])
def test_what_is_no_archive_is_refused(tmp_path, content):
    (tmp_path / "a.nemo").write_bytes(content)
    with pytest.raises(ValueError, match="tar archive|no model_config"):
        nemo.load_nemo(tmp_path / "a.nemo")


def test_a_cut_archive_is_refused(tmp_path, members):
    path = written(tmp_path / "a.nemo", *members)
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(ValueError, match="tar archive|no model_weights"):
        nemo.load_nemo(path)


def test_an_archive_without_weights_is_refused(tmp_path, members):
    path = written(tmp_path / "a.nemo", *members, names=["model_config.yaml", "other.bin"])
    with pytest.raises(ValueError, match="no model_weights.ckpt"):
        nemo.load_nemo(path)


@pytest.mark.parametrize(
    "where, key, value, message",
    [
        ("preprocessor", "window_stride", 0.02, "window_stride"),
        ("preprocessor", "normalize", "all_features", "normalize"),
        ("encoder", "activation", "swish", "ReLU"),
        ("encoder", "conv_mask", False, "conv_mask"),
        ("decoder", "vocabulary", "abc", "vocabulary"),
        ("decoder", "vocabulary", "${nowhere.at.all}", "leads nowhere"),
    ],
)
def test_another_model_is_refused(tmp_path, members, where, key, value, message):
    config, state = copy.deepcopy(members)
    config[where][key] = value
    with pytest.raises(ValueError, match=message):
        nemo.load_nemo(written(tmp_path / "a.nemo", config, state))


@pytest.mark.parametrize("key, value", [("se", True), ("kernel", [32]), ("filters", "many")])
def test_another_kind_of_block_is_refused(tmp_path, members, key, value):
    config, state = copy.deepcopy(members)
    config["encoder"]["jasper"][1][key] = value
    with pytest.raises(ValueError, match="block 1"):
        nemo.load_nemo(written(tmp_path / "a.nemo", config, state))


@pytest.mark.parametrize("damage", ["missing", "left over", "misshapen", "not finite"])
def test_tensors_that_do_not_fit_are_refused(tmp_path, members, damage):
    config, state = copy.deepcopy(members)
    name = "decoder.decoder_layers.0.weight"
    if damage == "missing":
        del state[name]
    elif damage == "left over":
        state["decoder.decoder_layers.1.weight"] = torch.zeros(3)
    else:
        state[name] = torch.zeros(3) if damage == "misshapen" else state[name] * torch.nan
    with pytest.raises(ValueError, match="fits not|must be finite"):
        nemo.load_nemo(written(tmp_path / "a.nemo", config, state))
