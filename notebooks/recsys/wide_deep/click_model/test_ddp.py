"""Two real processes train to what one does; what fails or hangs ends, and nothing stays."""

import subprocess
import time

import pyarrow as pa
import pytest
import torch
from click_features import CATEGORIES, MULTI_HOT, NUMBERS

from . import ddp
from .batches import Batches, write_batches
from .bench_training import draw
from .loader import Loader
from .network import Sizes, WideDeep
from .training import Options, fit

SIZES = Sizes.published().scaled(1e-3, 1e-2, (16,))
OPTIONS = Options(epochs=2, warmup_epochs=0.5, deep_lr=0.01)


def drawn(rows, seed):
    """(a data set of drawn clicks, the same as a table of features)."""
    data = draw(SIZES, rows, seed)
    data |= {"display_id": torch.arange(rows) // 5, "ad_id": data["categories"][:, 0]}
    data["clicked"][::5] = 1
    columns = {name: data[name].numpy() for name in ("display_id", "ad_id")}
    columns["clicked"] = data["clicked"].to(torch.int8).numpy()
    for names, values in (
        (CATEGORIES, data["categories"].int()),
        (MULTI_HOT, data["multi_hot"].flatten(1).int()),
        (NUMBERS, data["numbers"]),
    ):
        columns |= {n: v.numpy() for n, v in zip(names, values.T, strict=True)}
    return data, pa.table(columns)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """(train, valid): the last of the training batches is one row, so a process has none."""
    place = tmp_path_factory.mktemp("files")
    write_batches(drawn(3000, 0)[1], place / "train", rows=2999, seed=0)
    write_batches(drawn(1000, 1)[1], place / "valid", rows=333)
    return place / "train", place / "valid"


def run_of(place, folders, **given):
    return ddp.write_run(place / "run.json", *folders, place / "kept", SIZES, OPTIONS, **given)


def alone(train):
    """(weights, curve) of one process, in float64."""
    torch.manual_seed(OPTIONS.seed)
    model = WideDeep(SIZES, dropout=0).double()
    curve = fit(
        model, Loader(Batches(train), "cpu", 0, OPTIONS.seed), drawn(1000, 1)[0], OPTIONS
    )
    return model.state_dict(), curve


def test_two_processes_equal_one(tmp_path, folders):
    run = run_of(tmp_path, folders, dropout=0, dtype="float64")
    found = ddp.launch(run, ranks=2, timeout_s=120)
    weights, curve = alone(folders[0])
    assert found["ranks"] == 2
    # only the order of additions differs; rmsprop divides by √v, so tiny gradients show it
    torch.testing.assert_close(found["weights"], dict(weights), rtol=1e-7, atol=1e-9)
    last = found["curve"][-1]
    assert last["number"] == 2 and last["rows"] == curve[-1].rows == 3000
    assert last["map_at_12"] == pytest.approx(curve[-1].map_at_12, abs=1e-12)
    assert last["loss"] == pytest.approx(curve[-1].loss, rel=1e-9)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "run.json"]


KILLED = """
import os, signal
from click_model import ddp, training
evaluate, calls = training.evaluate, []

def killed(*args):
    calls.append(args)
    if len(calls) == 2 and os.environ["RANK"] == "1":  # both are past the first epoch
        os.kill(os.getpid(), signal.SIGKILL)
    return evaluate(*args)

training.evaluate = killed
ddp.main()
"""


@pytest.mark.slow  # three times two processes: as long as all other tests of the module
def test_two_processes_of_which_one_is_killed_go_on_with_the_steps_they_would_have_taken(
    tmp_path, folders
):
    """With dropout, whose draws are each process's own, and must go on too."""
    (tmp_path / "killed.py").write_text(KILLED)
    run = run_of(tmp_path, folders)
    with pytest.raises(RuntimeError, match="training on 2 processes failed"):
        ddp.launch(run, ranks=2, timeout_s=120, script=tmp_path / "killed.py")
    kept = torch.load(tmp_path / "kept/state.pt")
    assert len(kept["curve"]) == 1 and len(kept["chance"]) == 2
    found = ddp.launch(run, ranks=2, timeout_s=120)
    (tmp_path / "whole").mkdir()
    whole = ddp.launch(run_of(tmp_path / "whole", folders), ranks=2, timeout_s=120)
    scores = [[(one["loss"], one["map_at_12"]) for one in x["curve"]] for x in (found, whole)]
    assert scores[0] == scores[1] and len(scores[0]) == 2
    torch.testing.assert_close(found["weights"], whole["weights"], rtol=0, atol=0)


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


def test_a_process_that_fails_ends_all_and_is_quoted(tmp_path, folders):
    broken = script(tmp_path, "raise OSError('the disk is gone')")
    with pytest.raises(RuntimeError, match="the disk is gone"):
        ddp.launch(run_of(tmp_path, folders), ranks=2, timeout_s=120, script=broken)
    assert not left_running(tmp_path)


def test_a_process_that_hangs_is_ended_in_time(tmp_path, folders):
    run, start = run_of(tmp_path, folders), time.monotonic()
    with pytest.raises(TimeoutError, match="2 processes took more than 5 s"):
        ddp.launch(run, ranks=2, timeout_s=5, script=script(tmp_path, "time.sleep(600)"))
    assert time.monotonic() - start < 5 + ddp.STOP_S
    assert not left_running(tmp_path)


def test_sparse_gradients_are_refused_at_once(tmp_path, folders):
    with pytest.raises(ValueError, match="sparse=True"):
        run_of(tmp_path, folders, sparse=True)
