"""The ledger: which run decides a claim, how it comes out, and what its pages say of it."""

import json
import re

import pytest

from helpers import cards
from press import PressError
from press.ledger import gather
from press.ledger.pages import claims, written
from press.ledger.tables import measured
from press.print import generated
from press.print.conftest import exact, executed, receipt


@pytest.mark.parametrize(
    ("value", "tier", "found"),
    [
        (2100.0, "cpu", "holds here"),
        (1910.0, "cpu", "holds here"),
        (900.0, "cpu", "does not hold here"),
        (2100.0, "gpu", "not measured"),
    ],
)
def test_the_ledger_says_what_was_found_of_each_claim(small, value, tier, found):
    repository = executed(small, value=value, tier=tier)
    ledger = gather(repository)
    assert [finding.found for finding in ledger.findings] == [found]
    (entry,) = ledger.entries
    assert entry.totals[found] == 1 and sum(entry.totals.values()) == 1
    page = claims(ledger.entries)
    assert page.count("finding undecided") == 1, "every finding has its column in the totals, also at zero"
    assert "points/s" in page and "one abacus" in page and "more than 2 thousand points per second" in page


def claimed(small, value=2100.0, run="", **changes):
    """The ledger's only finding where the card's claim is changed, then the notebook run; `run`: what decides."""
    changes |= {"run": run} if run else {}
    small.write_card(claims=[{**small.card["claims"][0], **changes}])
    executed(small, value=value)
    return gather(small.repository).findings[0]


def test_one_run_is_undecided_and_the_card_says_why(small):
    executed(small, metrics={"mean_rate": {"value": 2100.0, "unit": "points/s"}})
    (entry,) = gather(small.repository).entries
    assert entry.findings[0].found == "undecided" and "<dt>why not</dt><dd>one run</dd>" in claims([entry])


def test_a_claim_whose_recording_is_waited_for_says_so(small):
    claimed(small, run="race", awaits="a recording on a GPU")
    assert "<dt>waits for</dt><dd>a recording on a GPU</dd>" in claims(gather(small.repository).entries)


def test_a_goal_has_marks_of_its_own_and_says_at_least(small):
    finding = claimed(small, 900.0, kind="goal")
    assert finding.found == "goal missed"
    assert "our goal: at least 2,000 points/s" in claims(gather(small.repository).entries)


def test_a_direction_says_which_way_and_a_number_only_where_the_article_prints_one(small):
    for value, null, better, told in [(0, 0, "higher", "above 0"), (5, 1, "lower", "5 points/s, below 1")]:
        changes = {"kind": "direction", "null": null, "value": value, "better": better}
        small.write_card(claims=[small.card["claims"][0] | changes])
        executed(small)
        assert f'<span class="claimed">claimed: {told} points/s</span>' in claims(gather(small.repository).entries)


def test_a_figure_stands_beside_and_is_not_counted(small):
    finding = claimed(small, 900.0, kind="figure")
    (entry,) = gather(small.repository).entries
    assert finding.found is None and sum(entry.totals.values()) == 0
    assert '<td data-label="claims">0</td>' in claims([entry]) and "0 claims in 1 chapter" in claims([entry])
    assert "found; 1 more stands beside and decides nothing" in claims([entry])
    assert "stands beside" in claims([entry]) and "900 points/s" in claims([entry])


def test_another_case_is_named_its_mark_is_hollow_and_it_says_nothing_of_a_size(small):
    plain = small.card["claims"]
    finding = claimed(small, differs=["size", "product"])
    page = claims(gather(small.repository).entries)
    assert (finding.like, finding.says[0]) == ("another product", "silent")
    assert 'class="finding holds-here hollow"' in page and "another product" in page
    assert "This says nothing about the claim: An abacus counts as any." in page
    small.write_card(claims=plain)
    executed(small)
    assert gather(small.repository).findings[0].says == ("supports", "An abacus counts as any.")
    assert "This supports the claim: An abacus" in claims(gather(small.repository).entries)


def test_the_run_that_the_card_names_decides_and_no_other(small):
    finding = claimed(small, run="race")
    assert (
        finding.found == "not measured"
        and finding.barred == "only the recorded run “race” may decide"
        and finding.run.origin == "fresh"
    )
    small.write(
        "data/receipts/moving_mean/cpu-test-cpu-race.json",
        json.dumps(receipt(small, 900.0, date="2026-02-01T00:00:00Z")),
    )
    finding = gather(small.repository).findings[0]
    assert (finding.found, finding.barred, finding.run.name) == ("does not hold here", "", "race")


def test_a_spread_names_its_unit_once_and_says_what_its_ends_are(small):
    metric = {"value": 2100.0, "low": 2000.0, "high": 2200.0, "unit": "points/s"}
    assert measured(metric | {"interval": "95 %"}) == "2,100 points/s (2,000 to 2,200 points/s, 95 % interval)"
    told = "2,100 points/s (2,000 to 2,200 points/s, 95 % interval, n = 20)"
    assert measured(metric | {"interval": "95 %", "repeats": 20}) == told
    assert measured(metric | {"interval": "range"}) == "2,100 points/s (2,000 to 2,200 points/s, range)"
    assert measured(metric) == "2,100 points/s (2,000 to 2,200 points/s, ends not named)", "as in old receipts"
    assert measured(None) == "–" and measured({"value": 1.0, "unit": "s"}) == "1 s"


def test_a_claim_without_its_metric_is_not_measured(small):
    executed(small, metrics={})
    assert gather(small.repository).findings[0].found == "not measured"
    small.write_card(claims=[{**small.card["claims"][0], "tiers": ["big"]}])
    assert gather(small.repository).findings[0].found == "not testable here"


def test_the_newest_run_that_may_decide_does_however_it_came_out(small):
    claimed(small, run="race")
    for name, value, more in [
        ("cpu-test-cpu-race", 900.0, {"date": "2026-05-01T00:00:00Z"}),
        ("cpu-a-race", 4000.0, {"date": "2026-04-01T00:00:00Z"}),
        ("cpu-b-race", 4000.0, {"date": "2026-06-01T00:00:00Z", "code": "0" * 64}),
        ("cpu-c-race", 4000.0, {"date": "2026-06-02T00:00:00Z", "dirty": True}),
        ("big-test-cpu-race", 9000.0, {"date": "2026-07-01T00:00:00Z", "tier": "big"}),
    ]:
        machine = {"cpu": "Test CPU", "gpu": None, "slug": name.split("-race")[0].partition("-")[2]}
        content = receipt(small, value, machine=machine, **more)
        small.write(f"data/receipts/moving_mean/{name}.json", json.dumps(content))
    (finding,) = gather(small.repository).findings
    assert finding.found == "does not hold here" and finding.run.date == "2026-05-01"
    assert len(finding.others) == 5
    page = claims(gather(small.repository).entries)
    assert page.count("rebuilt-stale") == 2 and page.count("(recorded: ") == 5
    assert written("status", gather(small.repository).entries).count("changed since") == 1


def test_a_race_is_stale_when_its_bench_changed_and_not_when_the_page_did(small):
    executed(small, value=2100.0)
    home = small.write("notebooks/signals/moving_mean/bench_moving_mean.py", "print(1)\n").parent
    code = cards.code_hash(home / "moving_mean.ipynb", "bench_moving_mean.py")
    race = receipt(small, 2000.0, code=code, script="bench_moving_mean.py", date="2026-06-01T00:00:00Z")
    small.write("data/receipts/moving_mean/cpu-race.json", json.dumps(race))

    def stale() -> bool:
        (run,) = [run for run in gather(small.repository).entries[0].runs if run.origin == "recorded"]
        return run.stale

    assert not stale()
    small.write_card(summary="Another summary of the same page.")
    assert not stale()
    small.write("notebooks/signals/moving_mean/bench_moving_mean.py", "print(2)\n")
    assert stale()


def test_a_benchmark_s_receipt_does_not_hide_the_page_s(small):
    executed(small, value=2100.0)
    by_hand = receipt(small, 3000.0, date="2026-01-03T00:00:00Z", seconds=1.0)
    small.write("_build/receipts/moving_mean.cpu.json", json.dumps(by_hand))
    ledger = gather(small.repository)
    (entry,) = ledger.entries
    assert [run.origin for run in entry.runs] == ["fresh", "by hand"]
    assert "12.3&nbsp;s" in generated.verified(entry)


def test_a_metric_in_another_unit_is_refused(small):
    repository = executed(small, metrics={"mean_rate": exact(1.0, "kg")})
    with pytest.raises(PressError, match="moving_mean.yml.*kg"):
        gather(repository)


def test_a_broken_receipt_is_named(small):
    executed(small)
    small.write("data/receipts/moving_mean/cpu-broken.json", "{")
    with pytest.raises(PressError, match="cpu-broken.json"):
        gather(small.repository)


def test_rows_carry_the_facts_of_their_receipts(small):
    executed(small)
    old = receipt(small, tier="big", date="2026-06-01T00:00:00Z", code="0" * 64)
    old["machine"] = {"cpu": "Test CPU", "gpu": 'GPU "X"'}
    small.write("data/receipts/moving_mean/big-old.json", json.dumps(old))
    page = claims(gather(small.repository).entries)
    fresh, stale = re.findall(r"<li (data-part[^>]*)>", page)
    assert 'data-part="Signals" data-finding="holds here" data-hardware="Test CPU" data-tier="cpu"' in fresh
    assert 'data-date="2026-01-02" data-code="the same"' in fresh
    assert "GPU &#34;X&#34;" in stale and 'data-date="2026-06-01" data-code="changed"' in stale
    assert re.findall(r'data-count="([^"]+)" data-label="[a-z ]+">1<', page) == ["|holds here", "Signals|holds here"], (
        "the contents' words"
    )


def test_a_unit_that_is_a_noun_stands_before_its_number_which_has_its_power_of_ten(small):
    small.write_card(claims=[{**small.card["claims"][0], "unit": "largest difference", "value": 1e-6}])
    page = claims(gather(executed(small, metrics={"mean_rate": exact(2.14e-13, "largest difference")})).entries)
    assert "claimed: largest difference 1 × 10⁻⁶</span>" in page
    assert "measured: <strong>largest difference 2.14 × 10⁻¹³</strong>" in page


def test_a_recorded_race_is_named_with_its_machine_and_date_and_tells_how_it_was_made(small):
    executed(small)
    race = receipt(small, 4000.0, date="2026-05-01T00:00:00Z")
    race |= {"sizes": {"points": 6_500_000, "query": 421}, "command": "python -m bench_mean --rounds 20"}
    race |= {
        "peers": {"stumpy": "1.14.1"},
        "study": {"seeds": [0, 1], "added": "the second after a look"},
        "threads": 2,
        "load": {"before": 0.1, "after": 2.0},
        "busy_cores": {"before": 0.0, "after": None},
        "curves": {"c": {"x": [1]}},
    }
    small.write("data/receipts/moving_mean/cpu-test-cpu-lengths.json", json.dumps(race))
    (entry,) = gather(small.repository).entries
    page = written("status", [entry])
    shown = re.search(r"<tr [^>]*data-date=\"2026-05-01\".*?</tr>", page, re.DOTALL).group()
    assert "Test CPU" in shown and "recorded: lengths<details>" in shown
    assert "<dt>sizes</dt><dd>points 6,500,000, query 421</dd>" in shown
    assert "<dt>seeds added after a look</dt><dd>the second after a look</dd>" in shown
    assert "<dd>python -m bench_mean --rounds 20</dd>" in shown and "stumpy 1.14.1" in shown
    assert "<dt>threads</dt><dd>2</dd>" in shown and "before 0.1, after 2.0" in shown and "<dt>curves" not in shown
    assert "<dt>busy cores</dt><dd>before 0.0, after not known</dd>" in shown
    assert "<dt>steal</dt><dd>not known</dd>" in shown, "not known is not quiet"
    assert page.count("<details>") == 1, "the run behind the page tells no more than before"
    assert "2026-05-01" in claims([entry]) and "(recorded: lengths)" in claims([entry])


def test_a_page_from_the_cache_names_machine_and_date_of_its_run_and_says_that_it_was_kept(small):
    repository = executed(small)
    (chapter,) = repository.chapters
    record = json.loads(chapter.run_record.read_text()) | {"cached": True, "date": "2026-11-11T00:00:00Z"}
    chapter.run_record.write_text(json.dumps(record))
    said = generated.verified(gather(small.repository).entries[0])
    assert '<time datetime="2026-01-02"' in said and "This run: Test CPU" in said and "The run was kept" in said
    assert "2026-11-11" not in said, "the day on which the copy was fetched is not the day of the run"


def calibrated(seconds):
    """What the press keeps of the calibrations around a run."""
    return {"before_s": seconds, "after_s": seconds, "unit_s": 0.2}


def test_a_timing_in_a_slow_phase_of_its_machine_is_marked_like_one_beside_other_work(small):
    executed(small, value=2100.0)
    (chapter,) = small.repository.chapters
    record = json.loads(chapter.run_record.read_text())
    record["receipts"]["moving_mean.cpu.json"]["calibration"] = calibrated(0.6)
    chapter.run_record.write_text(json.dumps(record))
    assert gather(small.repository).findings[0].found == "holds here", "a slow machine is no slow phase"
    fast = receipt(small, 2100.0, date="2025-05-01T00:00:00Z", code="0" * 64, calibration=calibrated(0.4))
    small.write("data/receipts/moving_mean/cpu-fast.json", json.dumps(fast))
    (entry,) = gather(small.repository).entries
    assert entry.findings[0].found == "not measured" and "1.5 times slower" in entry.behind.disturbed
    for page in (claims([entry]), written("status", [entry]), generated.verified(entry)):
        assert "the machine ran 1.5 times slower than usual" in page


def test_what_nobody_could_look_at_breaks_no_page(small):
    executed(small)
    (chapter,) = small.repository.chapters
    record = json.loads(chapter.run_record.read_text())
    own = {"busy_cores": {"before": None, "after": None, "during": 0.7}, "calibration": {"before_s": None}}
    record["receipts"]["moving_mean.cpu.json"] |= own
    chapter.run_record.write_text(json.dumps(record))
    (entry,) = gather(small.repository).entries
    assert "timed while other work took 0.7 of" in generated.verified(entry)


def test_a_timing_beside_other_work_is_marked_and_decides_nothing(small):
    executed(small, value=2100.0, busy_cores={"during": 1.2})
    (entry,) = gather(small.repository).entries
    assert entry.findings[0].found == "not measured", "points/s is a timing"
    for page in (claims([entry]), written("status", [entry]), generated.verified(entry)):
        assert "timed while other work took 1.2 of" in page
    counted = exact(2100.0) | {"timing": False}
    executed(small, busy_cores={"during": 1.2}, metrics={"mean_rate": counted})
    assert gather(small.repository).findings[0].found == "holds here", "a count is one on any machine"


UNSEEN = {
    "no load": {"busy_cores": None},
    "no load seen": {"busy_cores": {"before": None, "after": None}},
    "no calibration": {"calibration": None},
    "no number of it": {"calibration": {"before_s": None, "after_s": None, "unit_s": 0.2}},
}


@pytest.mark.parametrize("kind", UNSEEN)
def test_what_nobody_knows_of_the_page_s_own_run_is_not_quiet_either(small, kind):
    executed(small, value=2100.0, **UNSEEN[kind])
    (entry,) = gather(small.repository).entries
    assert entry.findings[0].found == "not measured" and "recorded beside it" in generated.verified(entry)


@pytest.mark.parametrize("kind", UNSEEN)
def test_what_nobody_knows_of_a_recorded_run_is_not_quiet(small, kind):
    claimed(small, run="race")
    race = receipt(small, 2100.0, date="2026-02-01T00:00:00Z", **UNSEEN[kind])
    small.write("data/receipts/moving_mean/cpu-test-cpu-race.json", json.dumps(race))
    (entry,) = gather(small.repository).entries
    assert entry.findings[0].found == "not measured" and entry.findings[0].run.origin == "recorded"
    assert f"{' '.join(kind.split()[:2])} recorded beside it".replace("no number", "no calibration") in claims([entry])
    quiet = receipt(small, 900.0, date="2025-01-01T00:00:00Z", machine={"cpu": "Test CPU", "slug": "quiet"})
    small.write("data/receipts/moving_mean/cpu-quiet-race.json", json.dumps(quiet))
    found = gather(small.repository).findings[0].found
    assert found == "does not hold here", "an older one of a quiet machine decides"


@pytest.mark.parametrize("changed", [{"code": "0" * 64}, {"dirty": True}, {"dirty": None}])
def test_a_gpu_s_recorded_run_of_other_or_uncommitted_code_decides_nothing_and_is_marked(small, changed):
    small.write_card(claims=[{**small.card["claims"][0], "unit": "points", "tiers": ["gpu"], "runs_on": "gpu"}])
    executed(small, metrics={})
    metrics = {"mean_rate": exact(2100.0, "points") | {"device": "cuda:0"}}
    sent = receipt(small, tier="gpu", metrics=metrics)
    small.write("data/receipts/moving_mean/gpu-test-cpu.json", json.dumps(sent))
    assert gather(small.repository).findings[0].found == "holds here"
    small.write("data/receipts/moving_mean/gpu-test-cpu.json", json.dumps(sent | changed))
    (entry,) = gather(small.repository).entries
    (finding,) = entry.findings
    assert finding.found == "not testable here" and finding.barred and not finding.others
    page = claims([entry])
    assert "decides nothing" in page and "2,100 points" in page and "no run has measured it" not in page
    assert "holds here" not in re.sub("(?s)<table.*?</table>", "", page)


def test_a_recorded_run_of_uncommitted_code_is_marked_and_the_page_s_own_is_not(small):
    executed(small, dirty=True)
    (entry,) = gather(small.repository).entries
    assert "not committed" not in claims([entry])
    small.write(
        "data/receipts/moving_mean/cpu-x.json", json.dumps(receipt(small, dirty=True, date="2026-02-01T00:00:00Z"))
    )
    (entry,) = gather(small.repository).entries
    assert claims([entry]).count("its code was not committed") == 1
