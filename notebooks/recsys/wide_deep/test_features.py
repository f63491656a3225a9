"""Features: equal to the plain reference, the same from every engine, whole or not at all."""

import json
import shutil
from functools import partial
from pathlib import Path

import feature_spec as fs
import features_polars
import features_reference
import features_torch
import numpy as np
import outbrain
import polars as pl
import pytest

HERE = Path(__file__).parent
SPEC = fs.Spec(buckets=0.05)
DISPLAYS = 301


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
            wanted_values = np.asarray(wanted[column], np.float64).astype(np.float32)
            assert fs.largest_difference(values, wanted_values) <= 1, column
        else:
            np.testing.assert_array_equal(values, wanted[column], err_msg=column)


@pytest.fixture(scope="session")
def spark():
    """One local session for all tests: it takes seconds to start."""
    features_spark = pytest.importorskip("features_spark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    found = features_spark.session(cores=2, memory="1g")
    yield found
    found.stop()


@pytest.fixture(params=["polars", "torch", "spark"])
def build(request):
    """Each engine's `build`, in small batches."""
    if request.param == "spark":
        import features_spark

        session = request.getfixturevalue("spark")
        return partial(features_spark.build, spark=session, parts=3)
    module = {"polars": features_polars, "torch": features_torch}[request.param]
    return partial(module.build, batch_rows=307)


@pytest.mark.parametrize("folds", [0, 3])
def test_engines_equal_the_reference(build, folds, raw, tmp_path):
    spec = fs.Spec(0.05, folds)
    report = build(raw, tmp_path / "out", spec)
    wanted, fit = features_reference.features_reference(raw, spec)
    for name in fs.SETS:
        found = read(tmp_path / "out", name)
        check_equal(found, wanted[name])
        assert report["rows"][name] == len(found["clicked"]) > 100
    kept = json.loads((tmp_path / "out" / "statistics.json").read_text())
    assert kept == pytest.approx(fit, rel=1e-12)
