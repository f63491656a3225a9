"""Two processes fine-tune as one does, where batch normalisation holds its statistics."""

import subprocess
import sys
from pathlib import Path

import pytest
import soundfile
import torch
from quartznet_files import load_model, save_model
from quartznet_sharded import share, train_share
from quartznet_training import Recipe, train
from speech_manifest import write_manifest

from quartznet import QuartzNet

PLAIN = {"cutouts": 0, "dither": 0.0}


def spoken(folder, count=11):
    generator, entries = torch.Generator().manual_seed(0), []
    for number in range(count):
        signal = 0.1 * torch.randn(3200 + 800 * (number % 3), generator=generator)
        soundfile.write(folder / f"{number}.wav", signal.numpy(), 16_000, subtype="FLOAT")
        entry = {
            "audio_filepath": str(folder / f"{number}.wav"),
            "text": "ab"[: 1 + number % 2],
        }
        entries.append(entry | {"duration": len(signal) / 16_000})
    return entries


def tiny():
    torch.manual_seed(0)
    return QuartzNet.build("5x1", width=0.06, field=0.12)


@pytest.mark.parametrize("mode", ["full", "decoder"])
def test_one_process_is_the_ordinary_training(tmp_path, mode):
    entries = spoken(tmp_path)
    signals = [
        torch.from_numpy(soundfile.read(e["audio_filepath"], dtype="float32")[0])
        for e in entries
    ]
    texts, recipe, models = (
        [e["text"] for e in entries],
        Recipe(mode=mode, batch=4, **PLAIN),
        (tiny(), tiny()),
    )
    losses = [
        run(model, signals, texts, recipe)
        for run, model in zip((train, train_share), models, strict=True)
    ]
    assert losses[0] == pytest.approx(losses[1])
    for a, b in zip(*(model.state_dict().values() for model in models), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("count, processes", [(7, 2), (3, 4), (8, 3)])
def test_each_row_goes_to_one_process(count, processes):
    shares = [share(list(range(count)), rank, processes) for rank in range(processes)]
    assert sorted(sum(shares, [])) == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path):
    entries = spoken(tmp_path)
    manifest, base = (
        write_manifest(entries, tmp_path / "a.json"),
        save_model(tiny(), tmp_path / "a.safetensors"),
    )
    found = {}
    for processes in (1, 2):
        out = tmp_path / f"{processes}.safetensors"
        launch = f"{sys.executable} -m torch.distributed.run --nproc-per-node {processes}"
        launch += " --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:0"
        launch += " quartznet_sharded.py --mode decoder --plain"
        launch += f" --rate 0.01 --manifest {manifest} --base {base} --out {out}"
        subprocess.run(
            launch.split(),
            cwd=Path(__file__).parent,
            check=True,
            timeout=120,
            capture_output=True,
        )
        found[processes] = load_model(out)
    assert found[2].notes["processes"] == 2
    assert found[1].notes["losses"] == pytest.approx(found[2].notes["losses"], rel=1e-5)
    for a, b in zip(
        found[1].state_dict().values(), found[2].state_dict().values(), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)  # sums of another order
