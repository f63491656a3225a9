"""Two real processes train to what one does; what fails or hangs ends, and nothing stays."""

import subprocess
import time

import pyarrow as pa
import pytest
import torch

from . import ddp
from .batches import Batches, Layout, write_batches
from .loader import Loader
from .network import WideDeep
from .test_training import SIZES, TRAIN, VALID
from .training import Options, fit

LAYOUT = Layout(("a", "b"), ("t0", "t1", "t2"), ("x", "y", "z"))
OPTIONS = Options(epochs=2, warmup_epochs=0.5, deep_lr=0.01)


def as_table(data):
    columns = {name: data[name].numpy() for name in ("display_id", "ad_id")}
    columns["clicked"] = data["clicked"].to(torch.int8).numpy()
    for names, values in (
        (LAYOUT.categories, data["categories"].int()),
        (LAYOUT.multi_hot, data["multi_hot"].flatten(1).int()),
        (LAYOUT.numbers, data["numbers"]),
    ):
        columns |= {n: v.numpy() for n, v in zip(names, values.T, strict=True)}
    return pa.table(columns)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """(train, valid): the last of the training batches is one row, so a process has none."""
    place = tmp_path_factory.mktemp("files")
    write_batches(as_table(TRAIN), place / "train", LAYOUT, rows=2999, seed=0)
    write_batches(as_table(VALID), place / "valid", LAYOUT, rows=333)
    return place / "train", place / "valid"


def run_of(place, folders, **given):
    return ddp.write_run(
        place / "run.json", *folders, place / "model.pt", SIZES, OPTIONS, **given
    )


def alone(train):
    """(weights, curve) of one process, in float64."""
    torch.manual_seed(OPTIONS.seed)
    model = WideDeep(SIZES, dropout=0).double()
    curve = fit(model, Loader(Batches(train), "cpu", 0, OPTIONS.seed), VALID, OPTIONS)
    return model.state_dict(), curve


def test_two_processes_equal_one(tmp_path, folders):
    run = run_of(tmp_path, folders, folder=tmp_path / "kept", dropout=0, dtype="float64")
    found = ddp.launch(run, ranks=2, timeout_s=120)
    weights, curve = alone(folders[0])
    assert found["ranks"] == 2
    # only the order of additions differs; rmsprop divides by √v, so tiny gradients show it
    torch.testing.assert_close(found["weights"], dict(weights), rtol=1e-7, atol=1e-9)
    last = found["curve"][-1]
    assert last["number"] == 2 and last["rows"] == curve[-1].rows == 3000
    assert last["map_at_12"] == pytest.approx(curve[-1].map_at_12, abs=1e-12)
    assert last["loss"] == pytest.approx(curve[-1].loss, rel=1e-9)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "model.pt", "run.json"]
    assert len(torch.load(tmp_path / "kept/state.pt")["chance"]) == 2


@pytest.mark.parametrize(
    ("ranks", "gpus", "wanted"),
    [
        (2, 2, [("nccl", "cuda:0"), ("nccl", "cuda:1")]),
        (2, 1, [("gloo", "cuda:0"), ("gloo", "cuda:0")]),
        (3, 2, [("gloo", "cuda:0"), ("gloo", "cuda:1"), ("gloo", "cuda:0")]),
        (2, 0, [("gloo", "cpu"), ("gloo", "cpu")]),
    ],
)
def test_nccl_never_has_two_processes_on_a_gpu(ranks, gpus, wanted):
    assert [ddp.placed(rank, ranks, gpus) for rank in range(ranks)] == wanted


def script(tmp_path, line):
    """A script in which rank 1 runs `line`, and rank 0 waits for what never comes."""
    path = tmp_path / "broken.py"
    path.write_text(
        f"import os, time\nif os.environ['RANK'] == '1':\n    {line}\ntime.sleep(600)\n"
    )
    return path


def left_running(folder):
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in found.stdout.splitlines() if str(folder) in line]


def test_a_process_that_fails_ends_all_is_quoted_and_leaves_no_older_result(tmp_path, folders):
    broken = script(tmp_path, "raise OSError('the disk is gone')")
    run = run_of(tmp_path, folders)
    (tmp_path / "model.pt").write_bytes(b"old")
    with pytest.raises(RuntimeError, match="the disk is gone"):
        ddp.launch(run, ranks=2, timeout_s=120, script=broken)
    assert not left_running(tmp_path) and not (tmp_path / "model.pt").exists()


def test_a_process_that_hangs_is_ended_in_time(tmp_path, folders):
    run, start = run_of(tmp_path, folders), time.monotonic()
    with pytest.raises(TimeoutError, match="2 processes took more than 5 s"):
        ddp.launch(run, ranks=2, timeout_s=5, script=script(tmp_path, "time.sleep(600)"))
    assert time.monotonic() - start < 5 + ddp.STOP_S
    assert not left_running(tmp_path)


def test_sparse_gradients_are_refused_at_once(tmp_path, folders):
    with pytest.raises(ValueError, match="sparse=True"):
        run_of(tmp_path, folders, sparse=True)
