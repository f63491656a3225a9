"""Two processes fine-tune as one does, where batch normalisation holds its statistics."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile
import torch
import torch.distributed as dist
from quartznet import QuartzNet, load_model, save_model

from . import sharded
from .manifest import read_sounds, write_manifest
from .training import Recipe, share, train


@pytest.mark.parametrize("count, processes", [(7, 2), (3, 4), (8, 3)])
def test_each_row_goes_to_one_process(count, processes):
    shares = [share(list(range(count)), rank, processes) for rank in range(processes)]
    assert sorted(sum(shares, [])) == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def spoken(folder, count=11):
    generator, entries = torch.Generator().manual_seed(0), []
    for number in range(count):
        signal = 0.1 * torch.randn(3200 + 800 * (number % 3), generator=generator)
        path = folder / f"{number}.wav"
        soundfile.write(path, signal.numpy(), 16_000, subtype="FLOAT")
        entry = {"audio_filepath": str(path), "text": "ab"[: 1 + number % 2]}
        entries.append(entry | {"duration": len(signal) / 16_000})
    return entries


def as_torchrun_does(rank, port):
    told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    told |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
    return {key: str(value) for key, value in told.items()}


def test_a_loss_that_is_not_finite_in_one_process_stops_all(monkeypatch):
    signals = [torch.randn(3200), torch.randn(3200)]
    message = torch.tensor([torch.nan])  # what the other process adds to the sum
    monkeypatch.setattr(dist, "all_reduce", lambda x: x.add_(message))
    with pytest.raises(RuntimeError, match="lower the rate"):
        train(QuartzNet.build("5x1", width=0.06), signals, ["a", "b"], rank=0, processes=2)


def test_two_processes_equal_one(tmp_path, monkeypatch):
    entries = spoken(tmp_path)  # 11 rows: the last batch has shares of unlike size
    torch.manual_seed(0)
    base = QuartzNet.build("5x1", width=0.06, field=0.12)
    plain = {"mode": "decoder", "rate": 0.01, "epochs": 2, "warmup": 2, "cutouts": 0}
    plain["dither"] = 0
    options = [f"--recipe={json.dumps(plain)}", f"--out={tmp_path / 'two'}"]
    options += [f"--manifest={write_manifest(entries, tmp_path / 'a.json')}"]
    options += [f"--base={save_model(base, tmp_path / 'base')}"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    home = Path(__file__).parents[1]
    other = subprocess.Popen(
        [sys.executable, "-m", "fine_tuning.sharded", *options],
        cwd=home,
        env=os.environ | as_torchrun_does(1, port),
    )
    losses = train(base, *read_sounds(entries), Recipe(**plain))  # while the other starts
    for name, value in as_torchrun_does(0, port).items():
        monkeypatch.setenv(name, value)
    sharded.main(options)  # this process is the first
    assert other.wait(120) == 0
    two = load_model(tmp_path / "two")
    assert two.notes["processes"] == 2 and two.notes["losses"] == pytest.approx(
        losses, rel=1e-5
    )
    for a, b in zip(two.state_dict().values(), base.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)  # sums of another order
