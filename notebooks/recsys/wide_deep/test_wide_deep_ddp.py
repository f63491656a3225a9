"""Two real processes train to what one does; what fails or hangs ends, and nothing stays."""

import subprocess
import time
from pathlib import Path

import click_files
import pyarrow as pa
import pytest
import torch
import wide_deep_ddp
from test_wide_deep_training import SIZES, TRAIN, VALID
from wide_deep import WideDeep
from wide_deep_training import Options, Trainer, evaluate

LAYOUT = click_files.Layout(("a", "b"), ("t0", "t1", "t2"), ("x", "y", "z"))
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
    click_files.write(as_table(TRAIN), place / "train", LAYOUT, rows=2999, seed=0)
    click_files.write(as_table(VALID), place / "valid", LAYOUT, rows=333)
    return place / "train", place / "valid"


def run_of(folder, folders, **model):
    return wide_deep_ddp.write_run(
        folder / "run.json", *folders, folder / "model.pt", SIZES, OPTIONS, **model
    )


def alone(train):
    """(weights, MAP@12, last loss) of one process, in float64."""
    torch.manual_seed(OPTIONS.seed)
    model = WideDeep(SIZES, dropout=0).double()
    loader = click_files.Loader(click_files.ClickFiles(train), "cpu", 0, OPTIONS.seed)
    trainer = Trainer(model, OPTIONS, len(loader))
    for _ in range(OPTIONS.epochs):
        total = sum(
            float(trainer.step(wide_deep_ddp._cast(batch, torch.float64)))
            * len(batch["clicked"])
            for batch in loader
        )
    valid = wide_deep_ddp._cast(VALID, torch.float64)
    return model.state_dict(), evaluate(model, valid), total / 3000


def test_two_processes_equal_one(tmp_path, folders):
    run = run_of(tmp_path, folders, dropout=0, dtype="float64")
    found = wide_deep_ddp.launch(run, ranks=2, timeout_s=120)
    weights, score, loss = alone(folders[0])
    assert found["ranks"] == 2 and found["seconds"] > 0
    # only the order of additions differs; rmsprop divides by √v, so tiny gradients show it
    torch.testing.assert_close(found["weights"], dict(weights), rtol=1e-7, atol=1e-9)
    last = found["curve"][-1]
    assert last["epoch"] == 2 and last["map_at_12"] == pytest.approx(score, abs=1e-12)
    assert last["loss"] == pytest.approx(loss, rel=1e-9)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pt", "run.json"]


def script(tmp_path, line):
    """A script that is `wide_deep_ddp` but for rank 1, which runs `line` in its second step."""
    path = tmp_path / "broken.py"
    path.write_text(
        "import os, sys, time\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import wide_deep_ddp\n"
        "step = wide_deep_ddp.Trainer.step\n"
        "def broken(self, *args):\n"
        "    if self.steps and os.environ['RANK'] == '1':\n"
        f"        {line}\n"
        "    return step(self, *args)\n"
        "wide_deep_ddp.Trainer.step = broken\n"
        "wide_deep_ddp.main()\n"
    )
    return path


def left_running(folder):
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in found.stdout.splitlines() if str(folder) in line]


def test_a_process_that_fails_ends_all_and_is_quoted(tmp_path, folders):
    broken = script(tmp_path, "raise OSError('the disk is gone')")
    run = run_of(tmp_path, folders)
    with pytest.raises(RuntimeError, match="the disk is gone"):
        wide_deep_ddp.launch(run, ranks=2, timeout_s=120, script=broken)
    assert not left_running(tmp_path) and not (tmp_path / "model.pt").exists()


def test_a_process_that_hangs_is_ended_in_time(tmp_path, folders):
    run, start = run_of(tmp_path, folders), time.monotonic()
    broken = script(tmp_path, "time.sleep(600)")
    with pytest.raises(TimeoutError, match="2 processes took more than 15 s"):
        wide_deep_ddp.launch(run, ranks=2, timeout_s=15, script=broken)
    assert time.monotonic() - start < 15 + wide_deep_ddp.STOP_S
    assert not left_running(tmp_path) and not (tmp_path / "model.pt").exists()


def test_an_older_result_is_not_taken_for_a_new_one(tmp_path, folders):
    run = run_of(tmp_path, (tmp_path / "none", folders[1]))
    (tmp_path / "model.pt").write_bytes(b"old")
    with pytest.raises(RuntimeError, match="folder was not finished"):
        wide_deep_ddp.launch(run, ranks=1, timeout_s=120)
    assert not (tmp_path / "model.pt").exists()


def test_sparse_gradients_are_refused_at_once(tmp_path, folders):
    with pytest.raises(ValueError, match="sparse=True"):
        run_of(tmp_path, folders, sparse=True)
