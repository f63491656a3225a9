"""The drawn world: it follows its own law, its files hold its truth, a seed means one log."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import outbrain

from . import generator
from . import world as latent
from .catalogue import DAYS, Effects, by_share, catalogue, heaps, zipf_draws
from .schemas import DAY_MS


@pytest.fixture(scope="module")
def drawn():
    """A Catalogue, and one chunk of its displays with the display of each row."""
    world = catalogue(20_000, seed=1)
    chunk = latent.draw(world, 0)
    return world, chunk, np.repeat(np.arange(len(chunk.size)), chunk.size)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "log"
    world = outbrain.generate(folder, 2_000, seed=5)
    return world, {name: frame.collect() for name, frame in outbrain.load(folder).items()}


def digests(folder):
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_splitmix_gives_its_published_first_number():
    assert latent.splitmix64(np.array([0], np.uint64))[0] == 0xE220A8397B1DCDAF


def test_heaps_law_meets_the_real_log_and_grows_slower_than_displays():
    assert heaps(16_874_593, 478_950) == 478_950
    assert heaps(120_000, 478_950) / heaps(60_000, 478_950) == pytest.approx(2**0.7, rel=1e-3)


def test_zipf_draws_follow_their_power():
    counts = np.bincount(zipf_draws(np.random.default_rng(0), 200_000, 50, 1.0), minlength=50)
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.1)


def test_shares_reach_the_last_kind_and_no_further():
    assert by_share(np.array([0.5, 1.0]), np.array([0.0, 0.49, 0.5, 1.0])).tolist() == [
        0,
        0,
        1,
        1,
    ]


def test_probabilities_of_a_display_add_up_to_one(drawn):
    _, chunk, of = drawn
    np.testing.assert_allclose(np.bincount(of, chunk.probability), 1, atol=1e-5)


def test_each_display_has_one_click(drawn):
    _, chunk, of = drawn
    assert (np.bincount(of, chunk.clicked) == 1).all()


def test_clicks_come_as_often_as_their_probability_says(drawn):
    _, chunk, _ = drawn
    for low in np.arange(0, 0.9, 0.1):
        inside = (chunk.probability >= low) & (chunk.probability < low + 0.1)
        p = chunk.probability[inside].astype(float)
        sigmas = (chunk.clicked[inside].sum() - p.sum()) / np.sqrt((p * (1 - p)).sum())
        assert abs(sigmas) < 4


def test_every_effect_is_found_again_from_clicks(drawn):
    """Newton's method on the conditional logit: each term's coefficient must be one."""
    world, chunk, of = drawn
    x = np.stack([*chunk.terms.values(), -np.log(chunk.position)], axis=1)
    wanted = np.append(np.ones(len(chunk.terms)), world.effects.position)
    beta, starts = np.zeros(x.shape[1]), np.flatnonzero(np.diff(of, prepend=-1))
    for _ in range(8):
        share = np.exp(x @ beta)
        share /= np.add.reduceat(share, starts)[of]
        mean = np.add.reduceat(share[:, None] * x, starts)[of]
        gradient = ((chunk.clicked - share)[:, None] * x).sum(0)
        curvature = ((x - mean) * share[:, None]).T @ (x - mean)
        beta += np.linalg.solve(curvature, gradient)
    errors = np.sqrt(np.diag(np.linalg.inv(curvature)))
    assert (errors < 0.12).all()  # so that finding one says something
    assert (abs(beta - wanted) < 4 * errors).all()


def test_appeal_ranks_best_without_the_position(drawn):
    """Places are independent of appeal: no gain from knowing it is left among equal ones."""
    _, chunk, of = drawn
    centred = chunk.appeal - (np.bincount(of, chunk.appeal) / chunk.size)[of]
    assert abs(np.corrcoef(centred, chunk.position)[0, 1]) < 0.02
    assert np.corrcoef(chunk.probability, chunk.position)[0, 1] < -0.2


def test_displays_have_as_many_ads_as_the_real_log(drawn):
    _, chunk, _ = drawn
    assert chunk.size.min() >= 2 and chunk.size.max() <= 12
    assert chunk.size.mean() == pytest.approx(87_141_731 / 16_874_593, abs=0.06)


def test_positions_of_a_display_count_from_one(drawn):
    _, chunk, of = drawn
    want = np.bincount(of, np.arange(1, len(of) + 1) - np.searchsorted(of, of))
    assert (np.bincount(of, chunk.position) == want).all()


def test_no_ad_is_shown_before_it_began(drawn):
    world, chunk, of = drawn
    assert (world.ads.first_ms[chunk.ad] <= chunk.timestamp_ms[of]).all()
    assert (world.ads.first_ms > 0).mean() == pytest.approx(0.15, abs=0.03)


def test_timestamps_are_sorted_within_thirteen_days_and_quiet_at_night(drawn):
    _, chunk, _ = drawn
    when = chunk.timestamp_ms
    assert (np.diff(when) >= 0).all() and when[0] >= 0 and when[-1] < DAYS * DAY_MS
    hours = np.bincount(when // 3_600_000 % 24, minlength=24)
    assert hours[3] < hours[21] / 3


def test_chunks_follow_each_other_in_time(monkeypatch):
    monkeypatch.setattr(latent, "CHUNK", 100)
    chunks = list(latent.chunks(catalogue(250, seed=2)))
    assert [len(chunk.size) for chunk in chunks] == [100, 100, 50]
    when = np.concatenate([chunk.timestamp_ms for chunk in chunks])
    assert (np.diff(when) >= 0).all()
    ids = np.concatenate([chunk.display_id for chunk in chunks])
    assert ids.tolist() == list(range(1, 251))


@pytest.mark.parametrize("displays", [1, 2, 7])
def test_tiny_worlds_stand(displays):
    chunk = latent.draw(catalogue(displays), 0)
    assert len(chunk.size) == displays and chunk.size.min() >= 2


def test_effects_of_zero_leave_a_coin_to_decide():
    chunk = latent.draw(catalogue(50, effects=Effects(*[0.0] * 11)), 0)
    np.testing.assert_allclose(chunk.probability, 1 / np.repeat(chunk.size, chunk.size))


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_effects_that_make_no_sense_are_refused(value):
    with pytest.raises(ValueError, match="effect match is"):
        Effects(match=value)


def test_a_log_without_displays_is_refused():
    with pytest.raises(ValueError, match="0 displays; at least 1"):
        catalogue(0)


def test_files_hold_what_was_drawn(made):
    world, frames = made
    chunk = latent.draw(world.catalogue(), 0)
    clicks, events = frames["clicks_train"], frames["events"]
    assert clicks["clicked"].to_list() == chunk.clicked.tolist()
    assert clicks["ad_id"].to_list() == world.ad_id.tolist()
    assert events["timestamp"].to_list() == chunk.timestamp_ms.tolist()
    np.testing.assert_array_equal(world.appeal, chunk.appeal)
    np.testing.assert_array_equal(world.probability, chunk.probability)


def test_clicks_are_sorted_by_display_and_ad(made):
    clicks = made[1]["clicks_train"]
    assert clicks.equals(clicks.sort("display_id", "ad_id"))


def test_every_row_is_found_by_display_and_ad(made):
    world, frames = made
    clicks = frames["clicks_train"].sample(fraction=1, shuffle=True, seed=0)
    rows = world.rows(clicks["display_id"].to_numpy(), clicks["ad_id"].to_numpy())
    assert (frames["clicks_train"][rows] == clicks).to_numpy().all()


def test_an_ad_that_was_not_shown_has_no_row(made):
    with pytest.raises(ValueError, match="display 1 does not show ad 999999"):
        made[0].rows([1], [999_999])


def test_files_have_the_real_files_gaps(made):
    frames = made[1]
    meta, events = frames["documents_meta"], frames["events"]
    assert 0.1 < meta["publish_time"].null_count() / meta.height < 0.2
    assert meta["publisher_id"].null_count() > meta["source_id"].null_count() > 0
    assert events["geo_location"].str.count_matches(">").unique().null_count() == 1
    documents = frames["documents_topics"]["document_id"].n_unique()
    assert documents / made[0].catalogue().documents.ids.size == pytest.approx(0.83, abs=0.03)


def test_a_document_has_a_topic_once(made):
    for name in ("topics", "entities", "categories"):
        frame = made[1][f"documents_{name}"]
        assert not frame.select(frame.columns[:2]).is_duplicated().any()


def test_the_same_seed_writes_the_same_bytes(tmp_path):
    first, second, other = (tmp_path / name for name in ("a", "b", "c"))
    outbrain.generate(first, 300, seed=1)
    outbrain.generate(second, 300, seed=1)
    outbrain.generate(other, 300, seed=2)
    assert digests(first) == digests(second)
    assert digests(first)["clicks_train.csv"] != digests(other)["clicks_train.csv"]


def test_a_finished_log_is_kept(tmp_path):
    outbrain.generate(tmp_path / "log", 50)
    before = (tmp_path / "log" / "events.csv").stat().st_mtime_ns
    outbrain.generate(tmp_path / "log", 50)
    assert (tmp_path / "log" / "events.csv").stat().st_mtime_ns == before


def test_a_folder_with_something_else_is_refused(tmp_path):
    outbrain.generate(tmp_path / "log", 50)
    with pytest.raises(ValueError, match="holds something else"):
        outbrain.generate(tmp_path / "log", 60)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(ValueError, match="no generated log"):
        outbrain.generate(tmp_path / "mine", 50)


def test_an_error_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(generator, "chunks", fail)
    with pytest.raises(OSError, match="disk full"):
        outbrain.generate(tmp_path / "log", 50)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_run_leaves_no_log_and_the_next_one_writes_it(tmp_path):
    code = "import outbrain; from outbrain import world; world.CHUNK = 500; "
    code += f"outbrain.generate({str(tmp_path / 'log')!r}, 50_000)"
    running = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[1])
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".log.*/clicks_train.csv")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGKILL)
    running.wait(30)
    assert not (tmp_path / "log").exists()
    outbrain.generate(tmp_path / "log", 50)
    assert outbrain.load(tmp_path / "log")["events"].collect().height == 50


def test_what_is_seen_and_what_is_hidden_make_the_appeal(tmp_path):
    world = outbrain.generate(tmp_path / "log", 60)
    hidden = world.seen(("hour", "segment"))
    np.testing.assert_allclose(world.seen() + hidden, world.appeal, rtol=1e-5, atol=1e-5)
    assert np.abs(hidden).max() > 0
