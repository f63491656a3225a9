"""The study: intervals and pairs with known answers, and a small run to its receipt."""

import json

import numpy as np
import pytest
import study_cold_start as study


def test_an_interval_is_students():
    mean, low, high = study.interval([1.0, 2.0, 3.0])
    assert mean == 2 and abs(high - (2 + 4.302652729911275 / 3**0.5)) < 1e-9
    assert abs(low + high - 4) < 1e-9


def test_a_ratio_pairs_worlds():
    worlds = [{"a": {"rate": 2 * x}, "b": {"rate": x}} for x in (0.1, 5.0, 40.0)]
    found = study.ratio(worlds, "rate", "a", "b")
    np.testing.assert_allclose(found, 2.0, rtol=1e-6)


def test_all_that_the_receipt_compares_is_measured():
    names = {*study.POLICIES, *study.ABLATED}
    for family in study.FAMILIES:
        run = names if family == "films" else set(study.NEWS)
        for _, _, one, other in study.comparisons(family).values():
            assert {one, other} <= run


def test_worlds_are_kept_and_a_broken_study_goes_on(tmp_path, monkeypatch, capsys):
    asked = []

    def world(seed, family):
        asked.append(seed)
        luck, found = np.random.default_rng(seed), {}
        for name in (*study.POLICIES, *study.ABLATED):
            values = {
                m: 0.1 + luck.random() for m in ("rate", "regret", "cold", "found", "gini")
            }
            values |= {
                "discovery": 1.0,
                "ndcg": 0.1,
                "coverage": 0.2,
                "days": [0.1, 0.2],
                "ever": [0.1, 0.2],
            }
            found[name] = values
        metrics = ("mrr_at_25", "precision_at_10", "coverage")
        found["offline"] = {
            w: dict.fromkeys(metrics, 0.1 + luck.random()) for w in ("0.0", "0.3", "1.0")
        }
        return found

    monkeypatch.setattr(study, "one_world", world)
    written = []
    monkeypatch.setattr(
        study.receipts.Receipt, "write", lambda self, name: written.append(self)
    )
    for _ in range(2):
        study.main(["--worlds", "3", "--folder", str(tmp_path / "w")])
    assert asked == [0, 1, 2]
    assert len(written) == 2 and written[0].metrics["ctr_gain"]["repeats"] == 3
    path = tmp_path / "w" / "films-0.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"code": "older"}))
    study.main(["--worlds", "3", "--folder", str(tmp_path / "w")])
    assert asked == [0, 1, 2, 0]  # worlds of other code are made again
    capsys.readouterr()


def test_one_world_is_refused():
    with pytest.raises(SystemExit):
        study.main(["--worlds", "1"])
