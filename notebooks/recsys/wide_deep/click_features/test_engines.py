"""Features: equal to the plain reference, the same from every engine, whole or not at all."""

import dataclasses
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import outbrain
import polars as pl
import pytest
import torch
from outbrain import catalogue

from . import (
    folder,
    polars_tables,
    race,
    spark_log,
    with_polars,
    with_spark,
    with_torch,
)
from . import spec as fs
from . import test_reference as reference

DISPLAYS = 301
EFFECTS = [field.name for field in dataclasses.fields(catalogue.Effects)]
HASHED = {0: 0, 1: 774006306, 2**31: 2671511798, 2**32 + 5: 2277334536}
HASHED[2**60 + 12345] = 4201390352


@pytest.fixture(scope="session")
def raw(tmp_path_factory):
    """A small log with what is awkward: unknown, odd and unseen values, in no order."""
    folder = tmp_path_factory.mktemp("features") / "raw"
    outbrain.generate(folder, DISPLAYS, seed=3)
    edit(folder, "clicks_train", lambda lines: lines[1::2] + lines[::2])
    edit(folder, "promoted_content", lambda lines: [*lines, "900001,900002,77,"[:-1] + ",99"])
    edit(folder, "documents_topics", lambda lines: [*lines, lines[0][:-3], lines[0]])
    edit(folder, "events", _odd_events)
    edit(
        folder,
        "documents_entities",
        lambda lines: [*lines, "5,zzz,0.5", "5,0123456789abcdeX,0.7"],
    )
    edit(folder, "documents_meta", lambda lines: lines[::2])
    return folder


@functools.cache
def features_reference(raw, folds=0):
    """The reference's features of a log that no test has changed, made once."""
    return reference.features_reference(raw, folds)


def edit(folder, name, change):
    path = Path(folder, f"{name}.csv")
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([head, *change(lines)]) + "\n", encoding="utf-8")


def _odd_events(lines):
    """Places that are none, short, long and not ASCII; an unknown platform."""
    places = ["", "U", "GB", "FR>Île-de-France>très long", "US>CA>80712345678", "日本>東京"]
    cells = [line.split(",") for line in lines]
    for at, place in enumerate(places):
        cells[at][5] = place
        cells[at][4] = "\\N"
    return [",".join(row) for row in cells]


def read(folder, name):
    """A set as NumPy arrays by column, in the order of the parts."""
    parts = sorted(Path(folder, name).glob("*.parquet"))
    return {c: values.to_numpy() for c, values in pl.read_parquet(parts).to_dict().items()}


def check_equal(found, wanted):
    """Stops unless two sets are equal: integers and bits of their types, floats as allowed."""
    assert list(found) == list(fs.COLUMNS)
    for column, values in found.items():
        kind = {"clicked": np.int8} | dict.fromkeys(fs.KEYS, np.int64)
        dtype = np.float32 if column in fs.NUMBERS else kind.get(column, np.int32)
        assert values.dtype == dtype, column
        if column in fs.NUMBERS:
            single = np.asarray(wanted[column], np.float64).astype(np.float32)
            np.testing.assert_allclose(values, single, fs.RELATIVE, fs.ABSOLUTE, err_msg=column)
        else:
            np.testing.assert_array_equal(values, wanted[column], err_msg=column)


@pytest.fixture(scope="session")
def spark():
    """One local session for all tests, of a light compiler: it takes seconds to start."""
    if why := race.missing("spark"):
        pytest.skip(why)
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    os.environ |= race.local_spark(2)
    found = spark_log.session()
    yield found
    found.stop()


@pytest.fixture(params=["polars", "torch", "spark"])
def build(request):
    """Each engine's `build`, in small batches."""
    if request.param == "spark":
        request.getfixturevalue("spark")
        return partial(with_spark.build, parts=3)
    module = {"polars": with_polars, "torch": with_torch}[request.param]
    return partial(module.build, batch_rows=307)


@pytest.mark.parametrize("folds", [0, 3])
def test_engines_equal_the_reference(build, folds, raw, tmp_path):
    report = build(raw, tmp_path / "out", folds)
    wanted, fit = features_reference(raw, folds)
    for name in fs.SETS:
        found = read(tmp_path / "out", name)
        check_equal(found, wanted[name])
        assert report["rows"][name] == len(found["clicked"]) > 100
    kept = json.loads((tmp_path / "out" / "statistics.json").read_text())
    assert kept == pytest.approx(fit, rel=1e-12)


KILLED = """
import os, signal, sys
from click_features import with_polars
raw, out = sys.argv[1:]
write, parts = with_polars.write_part, []

def killed(features, path):
    if len(parts) == 3:
        path.write_bytes(b"PAR1, and no more")
        os.kill(os.getpid(), signal.SIGKILL)
    parts.append(write(features, path))

with_polars.write_part = killed
with_polars.build(raw, out, batch_rows=307)
"""


def check_goes_on(build, out, tmp_path):
    """What an interrupted run left in `out` is not finished; the same call finishes it."""
    kept = {path: path.stat().st_mtime_ns for path in out.glob("*/part-*.parquet")}
    assert len(kept) == 3 and not (out / "report.json").exists()
    assert list(out.glob("*/.*.partial"))
    with pytest.raises(FileNotFoundError, match=r"no report\.json"):
        folder.paths(out, "train")
    assert build(out) == build(out)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert not list(out.glob("*/.*.partial"))
    whole = tmp_path / "whole"
    build(whole)
    for name in fs.SETS:
        one, other = read(out, name), read(whole, name)
        for column in fs.COLUMNS:
            np.testing.assert_array_equal(one[column], other[column])


def test_a_killed_run_leaves_whole_parts_and_goes_on(raw, tmp_path):
    out, build = tmp_path / "out", partial(with_polars.build, raw, batch_rows=307)
    done = subprocess.run([sys.executable, "-c", KILLED, raw, out], cwd=race.SLICE)
    assert done.returncode == -signal.SIGKILL
    check_goes_on(build, out, tmp_path)


def test_an_interrupted_run_of_torch_goes_on(raw, tmp_path, monkeypatch):
    out, build = tmp_path / "out", partial(with_torch.build, raw, batch_rows=307)
    write, parts = with_polars.write_part, []

    def interrupted(features, path):
        if len(parts) == 3:
            path.write_bytes(b"PAR1, and no more")
            raise KeyboardInterrupt
        parts.append(write(features, path))

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(with_polars, "write_part", interrupted)
        build(out)
    check_goes_on(build, out, tmp_path)


KILLED_SPARK = """
import os, signal, sys
from click_features import spark_log, with_spark
publish = spark_log.HadoopStore.publish

def killed(store, hidden, name):
    publish(store, hidden, name)
    if name == "train":
        os.killpg(0, signal.SIGKILL)

spark_log.HadoopStore.publish = killed
with_spark.build(*sys.argv[1:], check=False, parts=3)
"""


def test_a_killed_run_of_spark_is_begun_again(raw, spark, tmp_path):
    out, code = tmp_path / "out", [sys.executable, "-c", KILLED_SPARK, raw, tmp_path / "out"]
    env = os.environ | race.local_spark(2)
    done = subprocess.run(code, cwd=race.SLICE, env=env, start_new_session=True)
    assert done.returncode == -signal.SIGKILL
    assert list(out.glob("train/*.parquet")) and not list(out.glob("valid/*.parquet"))
    with pytest.raises(FileNotFoundError, match=r"no report\.json"):
        folder.paths(out, "train")
    report = with_spark.build(raw, out, check=False, parts=3)
    assert with_spark.build(raw, out, check=False, parts=3) == report
    assert not list(out.glob(".*.partial"))
    for name, wanted in features_reference(raw)[0].items():
        check_equal(read(out, name), wanted)


def submitted(raw, out, master, *settings, timeout=300):
    """What the documented command did with addresses, a master, and settings of Spark."""
    command = [Path(sys.executable).with_name("spark-submit"), "--master", master]
    command += [part for setting in settings for part in ("--conf", setting)]
    command += [race.SLICE / "click_features/submit.py", raw, out]
    env = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)


def test_the_documented_command_uses_the_cluster(raw, spark, tmp_path):
    """Two workers, a Java of its own each, files at addresses of `viewfs`, a table of links,
    a file system of Hadoop's that is neither this machine's own nor a service.
    """
    links = "spark.hadoop.fs.viewfs.mounttable.logs.link"
    settings = f"{links}./raw={raw.as_uri()}", f"{links}./made={tmp_path.as_uri()}"
    addresses = "viewfs://logs/raw", "viewfs://logs/made/out"
    done = submitted(*addresses, "local-cluster[2,1,1024]", *settings)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["master"] == "local-cluster[2,1,1024]"
    for name, wanted in features_reference(raw)[0].items():
        check_equal(read(tmp_path / "out", name), wanted)


def test_a_master_that_does_not_exist_is_an_error(raw, spark, tmp_path):
    """An address that is none, which is refused at once; a host that does not answer is tried
    for two minutes and a half, and ends in the same way.
    """
    done = submitted(raw.as_uri(), (tmp_path / "out").as_uri(), "spark:/no-such-host")
    assert done.returncode and "no-such-host" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_finished_folder_is_left_as_it_is(raw, tmp_path):
    report = with_polars.build(raw, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert with_polars.build(raw, tmp_path) == report
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_folder_of_something_else_is_refused(raw, tmp_path):
    with_polars.build(raw, tmp_path / "out")
    with pytest.raises(ValueError, match="another folds"):
        with_polars.build(raw, tmp_path / "out", folds=2)
    with pytest.raises(ValueError, match="another engine"):
        with_torch.build(raw, tmp_path / "out")
    changed = shutil.copytree(raw, tmp_path / "raw")
    edit(changed, "events", lambda lines: lines)
    with pytest.raises(ValueError, match="another raw"):
        with_polars.build(changed, tmp_path / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(ValueError, match="thesis.txt"):
        with_polars.build(raw, tmp_path / "mine")
    (changed / "events.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"events\.csv"):
        with_polars.build(changed, tmp_path / "new")


@pytest.fixture
def broken(raw, tmp_path):
    return shutil.copytree(raw, tmp_path / "broken")


@pytest.fixture(params=["polars", "spark"])
def load(request):
    """`load` as Polars has it, which the torch engine takes too, and as Spark has it."""
    if request.param == "polars":
        return outbrain.load
    return partial(spark_log.load, request.getfixturevalue("spark"))


FAULTS = {  # file, change of its lines, what is said
    "values that cannot be": (
        "clicks_train",
        lambda x: [*x, "17,3,2", "18,x,0", "-5,3,1", "19,,0"],
        r"clicks_train\.csv: 4 of",
    ),
    "an event twice": ("events", lambda x: [*x, x[7]], "1 displays that events.csv has twice"),
    "an ad twice": ("promoted_content", lambda x: [*x, x[7]], "1 ads that promoted_content"),
    "a page twice": ("documents_meta", lambda x: [*x, x[7]], "1 documents that documents_meta"),
    "an ad twice in a display": ("clicks_train", lambda x: [*x, x[7]], "1 displays that show"),
    "too many fields": (
        "events",
        lambda x: [*x[:50], x[50] + ",1,2", *x[51:]],
        r"events\.csv: .*",
    ),
    "no click": (
        "clicks_train",
        lambda x: [line[:-1] + "0" if line.startswith("7,") else line for line in x],
        "1 displays without a click",
    ),
    "events that are missing": ("events", lambda x: x[: len(x) // 2], r"events\.csv lacks"),
    "ads that are missing": ("promoted_content", lambda x: x[::2], r"content\.csv lacks"),
    "seconds": (
        "events",
        lambda x: [
            ",".join([*f[:3], f[3][:-3] or "0", *f[4:]]) for f in (y.split(",") for y in x)
        ],
        "seconds",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_refused_by_every_engine(fault, broken, load):
    name, change, told = FAULTS[fault]
    edit(broken, name, change)
    with pytest.raises(ValueError, match=told):
        load(broken)


def test_a_file_cut_inside_its_last_number_is_refused_by_every_engine(broken, load):
    path = broken / "documents_topics.csv"
    path.write_bytes(path.read_bytes()[:-2])  # a shorter number is a number
    with pytest.raises(ValueError, match=r"topics\.csv: does not end with a line end"):
        load(broken)


def test_the_three_of_highest_confidence_count_wherever_they_stand(raw):
    """Of equal ones the lower key; and the log of these tests has pages where it matters."""
    found = {"document_id": [7] * 5, "key": [5, 9, 2, 4, 8]}
    items = pl.DataFrame(found | {"confidence": [0.1, 0.5, 0.5, 0.9, 0.2]})
    wanted = [1 + fs.hash32(key) % (fs.HOT_BUCKETS["topic"] - 1) for key in (4, 2, 9)]
    assert polars_tables._top(items, "topic").row(0) == (7, *wanted)
    pages = pl.read_csv(raw / "documents_topics.csv").group_by("document_id")
    pages = pages.agg(pl.col("confidence_level"))["confidence_level"]
    moved = [sum(sorted(x)[-3:]) > sum(x[:3]) + 1e-9 for x in pages.to_list()]
    assert sum(moved) > 50


def test_an_unseen_ad_has_a_bucket_no_clicks_and_no_views(raw, tmp_path):
    with_polars.build(raw, tmp_path)
    train, valid = read(tmp_path, "train"), read(tmp_path, "valid")
    fit = json.loads((tmp_path / "statistics.json").read_text())
    unseen = ~np.isin(valid["ad_id"], train["ad_id"])
    assert unseen.sum() > 5
    assert (valid["ad_id_ctr"][unseen] == 0).all()
    count = np.float32((0 - fit["ad_id_mean"]) / fit["ad_id_deviation"])
    assert (valid["ad_id_count"][unseen] == count).all()
    assert (valid["ad_id_hash"] < fs.BUCKETS["ad_id"]).all()


def test_the_ctr_of_a_train_row_counts_its_own_click_unless_folded(tmp_path):
    """Clicks at random: what a CTR knows about the click of its own row is a leak."""
    chance = catalogue.Effects(**dict.fromkeys(EFFECTS, 0.0))
    outbrain.generate(tmp_path / "raw", 3000, seed=1, effects=chance)
    gap = {}
    for folds in (0, 4):
        out = tmp_path / str(folds)
        with_polars.build(tmp_path / "raw", out, folds, check=False)
        train = read(out, "train")
        rate, clicked = train["ad_id_ctr"].astype(float), train["clicked"] == 1
        known = rate > 0
        gap[folds] = rate[known & clicked].mean() - rate[known & ~clicked].mean()
    assert gap[0] > 0.03 > 3 * abs(gap[4])


def test_hashes_are_those_of_every_engine_and_process():
    assert fs.hash32(0) == 0 and fs.hash32(1) == HASHED[1]
    keys = np.array([*HASHED], np.int64)
    np.testing.assert_array_equal(fs.hash32(keys), [*HASHED.values()])
    np.testing.assert_array_equal(fs.hash32(torch.tensor(keys)), [*HASHED.values()])
    found = pl.select(fs.hash32(pl.lit(pl.Series(keys)))).to_series()
    np.testing.assert_array_equal(found, [*HASHED.values()])


def test_keys_below_2_to_the_32_do_not_collide():
    keys = np.random.default_rng(0).choice(2**32, 200_000, replace=False)
    assert len(np.unique(fs.hash32(keys))) == len(np.unique(keys))


def test_train_is_four_fifths_of_displays_until_day_ten():
    display = np.arange(100_000)
    assert fs.in_train(display, display * 0).mean() == pytest.approx(0.8, abs=0.01)
    assert fs.in_train(display, display * 0 + 11 * outbrain.DAY_MS - 1).any()
    assert not fs.in_train(display, display * 0 + 11 * outbrain.DAY_MS).any()


def test_look_ups_by_address():
    ids, wanted = torch.tensor([7, 3, 90, 0]), torch.tensor([3, 4, 7, 0, 1000, -1, 90])
    assert with_torch.Lookup(ids)(wanted).tolist() == [1, -1, 0, 3, -1, -1, 2]
    assert with_torch.Lookup(ids[:0])(wanted).tolist() == [-1] * 7


def test_cosines_of_all_pairs_are_products_of_their_lists():
    rng = np.random.default_rng(0)
    weights = np.where(rng.random((11, 60)) < 0.5, rng.random((11, 60)), 0)
    weights[[0, 4, 10]] = 0  # documents without a key, the first and the last among them
    of, key = map(torch.tensor, np.nonzero(weights))
    turned = torch.randperm(len(of), generator=torch.Generator().manual_seed(0))
    of, key = of[turned], key[turned]
    items = with_torch.Items(of, 7 * key, torch.tensor(weights[of, key]), 11)
    page, promo = torch.arange(11).repeat(11), torch.arange(11).repeat_interleave(11)
    found = with_torch.cosines(items, page, promo).view(11, 11)
    np.testing.assert_allclose(found, weights @ weights.T, rtol=1e-12)
    assert with_torch.cosines(items, page[:0], promo[:0]).shape == (0,)


def test_cosines_of_documents_without_any_key_are_zero():
    none = torch.zeros(0, dtype=torch.int64)
    items = with_torch.Items(none, none, torch.zeros(0, dtype=torch.float64), 3)
    assert with_torch.cosines(items, torch.arange(3), torch.arange(3)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("folds", [-1, 1])
def test_folds_that_make_no_sense_are_refused(raw, tmp_path, folds):
    with pytest.raises(ValueError, match=f"{folds} folds; 0 counts"):
        with_polars.build(raw, tmp_path, folds)


def test_nothing_to_fit_on_gives_zeros():
    found = fs.fitted({key: [] for key in fs.COUNTS}, {name: {} for name in fs.AGES})
    assert found["ad_id_mean"] == found["publish_time_median"] == 0
    assert found["ad_id_deviation"] == 1
