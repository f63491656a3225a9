"""What a GPU is predicted to take: sizes from the notebook, counts as they are kept, what pages say of them."""

import json
import re

import pytest

from press import PressError, Repository
from press.ledger import gather
from press.ledger.pages import claims
from press.predict import counting, kept, pages
from press.repository import HOME

BOOK = [chapter for chapter in Repository(HOME).chapters if counting.source_of(chapter)]
SUMS = ("operations", "bytes_moved", "flops", "bytes_up", "bytes_down", "copies", "syncs", "peak_bytes")
ENTRY = {
    "by": "shapes",
    "operations": 2,
    "bytes_moved": 320 * 10**9,
    "flops": 0,
    "bytes_up": 16 * 10**6,
    "bytes_down": 0,
}
ENTRY |= {"syncs": 3, "peak_bytes": 10**9, "copies": 1, "waits": {"a.py:3: a value is read": 3}, "findings": []}
ENTRY |= {"links": [["up", 16 * 10**6, True, 1]], "work": [["float32", 160 * 10**9, 0, 2]]}


@pytest.fixture
def predicted(small):
    """The small book with counts of its chapter: a second and a little more on a T4, for 2,000 points."""
    chapter = small.repository.chapters[0]
    source = small.write(f"notebooks/{chapter.part}/{chapter.folder}/rehearsed_{chapter.stem}.py", '"""Parts."""\n')
    tiers = {"check": ENTRY, "gpu": ENTRY, "big": ENTRY | {"peak_bytes": 50 * 10**9}}
    code = "def broken(sizes, device):\n\n    return None\n"
    parts = {name: {"what": f"{name} <it>", "code": code, "tiers": tiers} for name in ("ours", "broken")}
    metrics = {"mean_rate": {"part": "ours", "per": dict.fromkeys(tiers, 2000)}}
    content = {"schema": 1, "notebook": chapter.stem, "sizes": {}, "parts": parts, "metrics": metrics}
    content |= {"ahead": {}, "left_out": {}, "too_much": {}}
    content["source"] = source.relative_to(small.root).as_posix()
    content["code"] = counting.code_of(source, chapter.home)
    small.write(f"data/predictions/{chapter.stem}.json", counting.written(content))
    return small


def entry_of(small):
    return gather(small.repository).entries[0]


def change(small, how):
    """The counts of the small book's chapter, changed."""
    path = counting.path_of(small.repository.chapters[0])
    content = json.loads(path.read_text())
    how(content)
    path.write_text(json.dumps(content))


def slower(part, times):
    """A part that moves so many times the bytes."""
    moved = {"work": [["float32", int(160 * 10**9 * times), 0, 2]]}
    return part | {"tiers": {tier: entry | moved for tier, entry in part["tiers"].items()}}


def test_sizes_are_read_from_the_notebook_by_their_names(small):
    chapter = small.repository.chapters[0]
    sources = (
        "points = tier.pick(cpu=6_500_000, gpu=7, big=2 * 4)\npoints = tier.pick(cpu=1, gpu=1, big=1)",
        "options = {'batch': tier.pick(cpu=1, gpu=32, big=64)}\nf(rows=tier.pick(cpu=(2,) * 3, gpu=[1], big=few))",
        "%magic tier.pick(cpu=1)",
    )
    chapter.__dict__["content"] = type(
        "", (), {"cells": [type("", (), {"cell_type": "code", "source": s}) for s in sources]}
    )
    found = counting.sizes_of(chapter)
    assert found["gpu"] == {"points": 7, "batch": 32, "rows": [1]}
    assert found["big"] == {"points": 8, "batch": 64, "rows": None}, "a name of the notebook's is no size"
    assert found["check"] == {"points": counting.LARGEST, "batch": 1, "rows": (2, 2, 2)}


def test_what_is_written_is_read_again(predicted):
    found = kept.read(predicted.repository.chapters[0])
    assert found.parts["ours"].tiers["gpu"] == ENTRY and not found.stale
    one = found.parts["ours"].predictions("gpu")[0]
    assert one.seconds == pytest.approx(1.0 + 3 * 10e-6 + 10e-6 + 1e-3)


def test_counts_of_other_code_say_so_and_a_broken_file_is_refused(predicted):
    chapter = predicted.repository.chapters[0]
    path = counting.source_of(chapter)
    path.write_text(path.read_text() + "x = 1\n")
    assert kept.read(chapter).stale and "has changed" in pages.block(entry_of(predicted))[0]
    predicted.write(f"data/predictions/{chapter.stem}.json", "{}")
    with pytest.raises(PressError, match="make it anew"):
        kept.read(chapter)


def test_the_block_shows_both_versions_their_waits_and_the_broken_code_without_an_empty_line(predicted):
    (block,) = pages.block(entry_of(predicted))
    assert "predicted, not measured" in block and "ours &lt;it&gt;" in block
    assert block.count("<tr") == 3 and "<code>a.py:3: a value is read</code>: 3×" in block
    assert "\n\n" not in block and "def broken(sizes, device):&#10;" in block and "make predict CHAPTERS=" in block


def test_the_block_says_why_a_version_is_ahead_and_why_one_is_left_out(predicted):
    change(predicted, lambda c: c["parts"].update(naive=slower(c["parts"]["ours"], 0.5)))
    change(predicted, lambda c: c.update(ahead={"naive": "it <launches> less"}))
    (block,) = pages.block(entry_of(predicted))
    cards = "Tesla T4 and A100 SXM 40 GB and H100 SXM 80 GB"
    assert f"on {cards}: it &lt;launches&gt; less." in block
    change(predicted, lambda c: (c["parts"].pop("broken"), c.update(left_out={"broken": "nothing to wait for"})))
    (block,) = pages.block(entry_of(predicted))
    assert "<strong>broken</strong>: left out: nothing to wait for." in block and "The broken version" not in block


def test_the_block_tells_the_formula_s_error_or_that_nobody_has_tried(predicted):
    assert "has not been measured on a processor" in pages.block(entry_of(predicted))[0]
    stem = predicted.repository.chapters[0].stem
    tried = {"predicted_s": 0.002, "measured_s": 0.004, "ratio": 0.5}
    content = {"date": "2026-05-01", "machine": {"cpu": "a <CPU>"}, "chapters": {stem: tried}}
    predicted.write("data/predictions/against_the_cpu.json", json.dumps(content))
    (block,) = pages.block(entry_of(predicted))
    assert "a &lt;CPU&gt;, 2026-05-01" in block and "predicted over measured is 0.50." in block
    assert "no estimate" not in block
    content["chapters"][stem] = tried | {"ratio": 0.02}
    predicted.write("data/predictions/against_the_cpu.json", json.dumps(content))
    assert (
        "predicted over measured is 0.02. So far below, it is a limit and no estimate."
        in pages.block(entry_of(predicted))[0]
    )
    assert "has not been measured" not in block
    for chapters, words in (
        ({"another": tried}, "processor."),
        ({stem: {"error": "no <torch>"}}, "processor: no &lt;to"),
    ):
        predicted.write("data/predictions/against_the_cpu.json", json.dumps(content | {"chapters": chapters}))
        assert f"has not been measured on a {words}" in pages.block(entry_of(predicted))[0]


def test_at_least_stands_where_the_datasheet_holds_the_time_and_about_where_our_assumptions_do(predicted):
    assert pages.block(entry_of(predicted))[0].count("at least 1") == 2
    change(predicted, lambda c: c.update(too_much={"ours": "all rows of a <table>"}))
    (block,) = pages.block(entry_of(predicted))
    assert block.count("at least 1") == 1 and "than a card does: all rows of a &lt;table&gt;." in block
    change(predicted, lambda c: c.update(too_much={}))
    predicted.write_card(claims=[predicted.card["claims"][0] | {"tiers": ["gpu"]}])
    waits = ENTRY | {"syncs": 20_000}
    change(predicted, lambda c: [part["tiers"].update(gpu=waits) for part in c["parts"].values()])
    assert "at least" not in pages.block(entry_of(predicted))[0]
    assert pages.block(entry_of(predicted))[0].count("about 1.2") == 2
    assert "about 1.2" in pages.fit_rows(entry_of(predicted))[0]
    told = re.search(r'<li class="predicted">.*?</li>', claims([entry_of(predicted)]))[0]
    assert "about" in told and "at most" not in told


def test_a_chapter_without_counts_shows_none(small):
    assert pages.block(entry_of(small)) == pages.fit_rows(entry_of(small)) == []


def test_the_fit_card_predicts_each_card_and_says_where_it_does_not_fit(predicted):
    rows = pages.fit_rows(entry_of(predicted))
    assert ["Tesla T4" in rows[0], "A100" in rows[1], "H100" in rows[2]] == [True] * 3
    assert all("predicted, not measured" in row and "at least" in row for row in rows)
    assert "does not fit" in rows[1] and "does not fit" not in rows[2]


def test_the_ledger_shows_a_prediction_beside_the_claim_and_the_ratio_as_soon_as_a_card_was_measured(predicted):
    claim = predicted.card["claims"][0] | {"tiers": ["gpu"]}
    predicted.write_card(claims=[claim])
    assert "at most 2 kpoints/s" in claims([entry_of(predicted)]).replace("2,000 points/s", "2 kpoints/s")
    receipt = {"schema": 1, "chapter": "signals/moving_mean", "notebook": "moving_mean", "tier": "gpu", "versions": {}}
    receipt |= {"date": "2026-05-01T00:00:00Z", "code": "0" * 64, "machine": {"gpu": "Tesla T4", "slug": "tesla-t4"}}
    receipt["metrics"] = {"mean_rate": {"value": 999.0, "unit": claim["unit"], "device": "cuda"}}
    predicted.write("data/receipts/moving_mean/gpu-tesla-t4.json", json.dumps(receipt))
    page = claims([entry_of(predicted)])
    assert "measured on 2026-05-01: 0.50 times the prediction" in page and page.count("times the prediction") == 1
    receipt["machine"]["gpu"] = "NVIDIA A10"
    predicted.write("data/receipts/moving_mean/gpu-tesla-t4.json", json.dumps(receipt))
    assert "times the prediction" not in claims([entry_of(predicted)]), "another card says nothing of it"


def differences(before: dict, now: dict) -> list[str]:
    """Where the counts at the checked sizes are others than those kept: "ours: operations 141, kept 139"."""
    found = []
    for name in dict.fromkeys([*before["parts"], *now["parts"]]):
        old, new = (content["parts"].get(name, {}).get("tiers", {}).get(counting.CHECKED) for content in (before, now))
        if not old or not new:
            found.append(f"{name}: counted {'before' if old else 'now'} alone")
            continue
        told = [f"{key} {new[key]:,}, kept {old[key]:,}" for key in SUMS if old[key] != new[key]]
        found += [f"{name}: {'; '.join(told)}"] if told else []
    return found


def test_differences_name_the_part_and_the_sum():
    before = {"parts": {"ours": {"tiers": {"check": ENTRY}}, "gone": {"tiers": {"check": ENTRY}}}}
    now = {"parts": {"ours": {"tiers": {"check": ENTRY | {"syncs": 9}}}}}
    assert differences(before, now) == ["ours: syncs 9, kept 3", "gone: counted before alone"]
    assert differences(before, before) == []


def test_every_chapter_s_version_does_today_what_was_kept():
    """Counts are exact: where they differ, `make predict` keeps the new ones, and the change shows in the diff."""
    found, told = counting.counted(Repository(HOME), BOOK, (counting.CHECKED,), ("ours",)), {}
    for chapter in BOOK:
        content = kept.read(chapter).content
        before = {"parts": {"ours": content["parts"]["ours"]}}
        told[chapter.stem] = differences(before, found[chapter.stem])
    assert {stem: lines for stem, lines in told.items() if lines} == {}, "run `make predict`"


@pytest.mark.parametrize("chapter", BOOK, ids=str)
def test_every_chapter_has_its_version_a_naive_and_a_broken_one_that_keep_the_rules(chapter):
    found = kept.read(chapter)
    assert list(kept.problems(found)) == []
    if "broken" not in found.content["left_out"]:
        broken, ours = (found.parts[name].tiers["gpu"] for name in ("broken", "ours"))
        assert broken["syncs"] > ours["syncs"] or broken["bytes_up"] > ours["bytes_up"]
