"""Batches on disk: what goes in comes out, whole or not at all, and a killed run goes on."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from click_features import CATEGORIES, MULTI_HOT, NUMBERS

from .batches import Batches, write_batches
from .loader import Loader

SLICE = Path(__file__).parents[1]
DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
    ),
]


def features(rows=103, seed=0):
    rng = np.random.default_rng(seed)
    table = {"display_id": np.arange(rows) // 4 + 1, "ad_id": rng.integers(1, 99, rows)}
    table["clicked"] = rng.integers(0, 2, rows).astype(np.int8)
    for name in (*CATEGORIES, *MULTI_HOT):
        table[name] = rng.integers(0, 300_000, rows).astype(np.int32)
    for name in NUMBERS:
        table[name] = rng.standard_normal(rows).astype(np.float32)
    return pa.table(table)


def changed(table, name, values):
    return table.set_column(table.column_names.index(name), name, values)


@pytest.fixture
def folder(tmp_path):
    write_batches(features(), tmp_path / "out", rows=10, per_file=3)
    return tmp_path / "out"


def gathered(loader):
    batches = list(loader)
    return {name: torch.cat([b[name] for b in batches]).cpu() for name in batches[0]}


def same_bytes(first, second):
    names = sorted(path.name for path in Path(first).iterdir())
    assert names == sorted(path.name for path in Path(second).iterdir())
    return all((first / n).read_bytes() == (second / n).read_bytes() for n in names)


@pytest.mark.parametrize("rows", [1, 2, 29, 30, 31, 103])
def test_rows_come_back_as_they_were(tmp_path, rows):
    table = features(rows)
    report = write_batches(table, tmp_path, rows=10, per_file=3)
    files = Batches(tmp_path)
    assert len(files) == report["batches"] == -(-rows // 10) and files.rows == rows
    got = gathered(Loader(files))
    for at, name in enumerate(CATEGORIES):
        assert got["categories"][:, at].tolist() == table[name].to_pylist()
    for at, name in enumerate(MULTI_HOT):
        assert got["multi_hot"][:, at // 3, at % 3].tolist() == table[name].to_pylist()
    for at, name in enumerate(NUMBERS):
        assert got["numbers"][:, at].tolist() == table[name].to_pylist()
    for name in ("display_id", "ad_id", "clicked"):
        assert got[name].tolist() == table[name].to_pylist()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("prefetch", [0, 1, 5])
def test_batches_have_the_models_shapes_and_dtypes(folder, device, prefetch):
    batch = next(iter(Loader(Batches(folder), device, prefetch)))
    told = {name: (tuple(t.shape), t.dtype, t.device.type) for name, t in batch.items()}
    long, single = torch.int64, torch.float32
    assert told == {
        "categories": ((10, 13), long, device),
        "multi_hot": ((10, 3, 3), long, device),
        "numbers": ((10, 13), single, device),
        "clicked": ((10,), single, device),
        "display_id": ((10,), long, device),
        "ad_id": ((10,), long, device),
    }


def test_parquet_files_give_what_their_table_gives(folder, tmp_path):
    table = features()
    for number, part in enumerate((table[:50], table[50:])):
        pq.write_table(part, tmp_path / f"{number}.parquet")
    paths = [tmp_path / f"{number}.parquet" for number in range(2)]
    write_batches(paths, tmp_path / "other", rows=10, per_file=3)
    assert same_bytes(folder, tmp_path / "other")


def test_a_seed_shuffles_all_rows_and_loses_none(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_batches(features(), tmp_path / name, rows=10, seed=seed)
    assert same_bytes(tmp_path / "a", tmp_path / "b")
    plain = list(
        zip(*features().select(["display_id", "sim_topic"]).to_pydict().values(), strict=True)
    )
    orders = []
    for name in "ac":
        got = gathered(Loader(Batches(tmp_path / name)))
        orders.append(
            list(zip(got["display_id"].tolist(), got["numbers"][:, 0].tolist(), strict=True))
        )
        assert orders[-1] != plain and sorted(orders[-1]) == sorted(plain)
    assert orders[0] != orders[1]


def test_a_loaders_seed_orders_batches_anew_each_epoch(folder):
    def firsts(loader):
        return [int(batch["display_id"][0]) for batch in loader]

    files = Batches(folder)
    loader, again = Loader(files, seed=4), Loader(files, seed=4)
    first, second = firsts(loader), firsts(loader)
    assert first != second and sorted(first) == sorted(second) == firsts(Loader(files))
    assert first == firsts(again)


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_share_every_batch(folder, ranks):
    files = Batches(folder)
    parts = [list(Loader(files, seed=1, rank=rank, ranks=ranks)) for rank in range(ranks)]
    for whole, *own in zip(Loader(files, seed=1), *parts, strict=True):
        for name, tensor in whole.items():
            assert torch.equal(torch.cat([part[name] for part in own]), tensor)


def test_an_unfinished_folder_cannot_be_opened(tmp_path):
    with pytest.raises(FileNotFoundError, match="was not finished; call `write_batches` again"):
        Batches(tmp_path)


def test_a_killed_run_is_gone_on_with(folder, tmp_path):
    code = f"""
import os, signal
from click_model import batches, test_batches as t
real, turns = batches._write_file, []
def write_file(path, *rest):
    if len(turns) == 2:
        path.write_bytes(b"ARROW1, and no more")
        os.kill(os.getpid(), signal.SIGKILL)
    turns.append(real(path, *rest))
batches._write_file = write_file
batches.write_batches(t.features(), {str(tmp_path / "other")!r}, rows=10, per_file=3)
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=SLICE, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    other = tmp_path / "other"
    with pytest.raises(FileNotFoundError, match="was not finished"):
        Batches(other)
    before = {path.name: path.stat().st_mtime_ns for path in other.glob("batches-*")}
    assert len(before) == 2 and list(other.glob(".batches-*.partial"))
    write_batches(features(), other, rows=10, per_file=3)
    after = {path.name: path.stat().st_mtime_ns for path in other.glob("batches-*")}
    kept = [name for name in before if before[name] == after[name]]
    assert kept == list(before) and same_bytes(folder, other)


def test_a_finished_folder_is_left_as_it_is(folder):
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    write_batches(features(), folder, rows=10, per_file=3)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


@pytest.mark.parametrize("change", [{"rows": 11}, {"seed": 1}, {"source": features(seed=1)}])
def test_other_data_or_options_need_another_folder(folder, change):
    call = {"source": features(), "folder": folder, "rows": 10, "per_file": 3}
    with pytest.raises(ValueError, match="was begun with another (batch_rows|seed|source)"):
        write_batches(**call | change)


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(ValueError, match=r"holds .*thesis\.txt"):
        write_batches(features(), tmp_path)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda path: path.unlink(), "is missing"),
        (
            lambda path: path.write_bytes(path.read_bytes()[:-1]),
            "differs from what was",
        ),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"), "differs from what was"),
    ],
)
def test_damage_is_found_when_a_folder_is_opened(folder, harm, words):
    harm(folder / "batches-00001.arrow")
    with pytest.raises(ValueError, match=rf"batches-00001\.arrow.*({words})"):
        Batches(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop_columns("topic_1"), r"columns \['topic_1'\] are missing"),
        (lambda t: t[:0], "no rows"),
        (lambda t: changed(t, "ad_id_hash", pa.array([None] + [1] * 102)), "1 nulls"),
        (
            lambda t: changed(t, "ad_id_hash", pa.array([1.0] * 103)),
            "column ad_id_hash has type double",
        ),
        (
            lambda t: changed(t, "ad_id_hash", pa.array([-1] * 103)),
            "column ad_id_hash has -1; buckets",
        ),
        (
            lambda t: changed(t, "sim_topic", pa.array([1] * 103)),
            "column sim_topic has type int64",
        ),
        (lambda t: changed(t, "sim_topic", pa.array([float("nan")] * 103)), "not finite"),
    ],
)
def test_tables_that_no_model_can_take_are_refused(tmp_path, change, words):
    with pytest.raises(ValueError, match=words):
        write_batches(change(features()), tmp_path)


def test_batches_are_views_of_the_file(folder):
    batch = Batches(folder)[4]
    assert not batch["numbers"].flags.writeable and not batch["numbers"].flags.owndata
    with pytest.raises(IndexError, match="batch 11; there are 11"):
        Batches(folder)[11]


class Slow:
    """Files that take a while, to be counted and timed."""

    def __init__(self, folder, seconds):
        self.files, self.seconds, self.read = Batches(folder), seconds, []

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        time.sleep(self.seconds)
        self.read.append(index)
        if index == 7:
            raise OSError("the disk is gone")
        return self.files[index]


def test_the_next_batch_is_read_while_this_one_is_used(folder):
    slow = Slow(folder, 0)
    batches = iter(Loader(slow, prefetch=1))
    next(batches)
    deadline = time.monotonic() + 10
    while len(slow.read) < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert slow.read[:2] == [0, 1]
    batches.close()


def test_without_prefetch_nothing_is_read_ahead(folder):
    slow = Slow(folder, 0)
    batches = iter(Loader(slow, prefetch=0))
    next(batches)
    assert slow.read == [0]


def test_waiting_for_a_slow_disk_is_reported(folder):
    loader = Loader(Slow(folder, 0.005), prefetch=0)
    for _, _ in zip(loader, range(6), strict=False):
        pass
    assert loader.report.waited_s >= 6 * 0.005  # sleep never ends early


def test_a_loader_reads_no_further_ahead_than_it_is_told(folder):
    slow = Slow(folder, 0)
    batches = iter(Loader(slow, prefetch=2))
    next(batches)
    time.sleep(0.3)
    assert len(slow.read) <= 4  # one taken, two waiting, one in hand
    batches.close()


@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_error_while_reading_reaches_the_consumer(folder, prefetch):
    got = []
    with pytest.raises(OSError, match="the disk is gone"):
        got.extend(Loader(Slow(folder, 0), prefetch=prefetch))
    assert len(got) in (0, 7)  # extend keeps what came before


def test_leaving_early_ends_the_thread(folder):
    loader = Loader(Batches(folder), prefetch=2)
    batches = iter(loader)
    next(batches)
    assert any("batches" in thread.name for thread in threading.enumerate())
    batches.close()
    assert not any("batches" in thread.name for thread in threading.enumerate())
    assert loader.report.batches == 1


def test_the_report_counts_batches_and_rows(folder):
    loader = Loader(Batches(folder))
    list(loader)
    report = loader.report
    assert (report.batches, report.rows) == (11, 103)
    assert 0 <= report.waited_s <= report.seconds and 0 <= report.utilisation <= 1


@pytest.mark.parametrize("wrong", [{"prefetch": -1}, {"rank": 2, "ranks": 2}, {"ranks": 0}])
def test_options_are_checked(folder, wrong):
    with pytest.raises(ValueError, match="a prefetch of 0 or more"):
        Loader(Batches(folder), **wrong)
