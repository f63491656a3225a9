"""What all chapters teach together: hearts under their roofs, lessons that runs and sections bear out, the pages."""

import json
import re

import pytest

from helpers.cards import read as read_card
from press.errors import PressError
from press.files import breaches
from press.gates import load
from press.ledger import gather
from press.predict.test_predict import change, predicted  # noqa: F401  a fixture
from press.print import generated
from press.print.conftest import exact, executed, receipt
from press.repository import HOME, Repository
from press.taught import amiss, hearts, lessons, pages
from rehearsal.predict import CARDS

SLIP = {"printed": "360 samples", "right": "421 samples", "section": "The idea", "shows": "The data, then the mean."}
WON = {
    "what": "the loop is faster",
    "section": "The idea",
    "metric": "mean_rate",
    "unit": "points/s",
    "better": "higher",
}
WON |= {"null": 2000}
BOOK = Repository(HOME)


def said(small, race=None, **fields):
    """What is amiss with the small book's card after some fields changed; `race`: what a recorded race measured."""
    small.write_card(**fields)
    executed(small)
    if race is not None:
        content = receipt(small, race, date="2026-02-01T00:00:00Z")
        small.write("data/receipts/moving_mean/cpu-test-cpu-race.json", json.dumps(content))
    (entry,) = gather(small.repository).entries
    return list(amiss(entry))


def filled(small, name):
    """What stands at a marker of the small book."""
    repository = small.repository
    return str(generated.markers(repository, gather(repository))[name]())


def claims(small, **changes):
    return [{**small.card["claims"][0], **changes}]


def test_a_card_without_lessons_is_as_it_was(small):
    executed(small)
    assert said(small) == []
    assert "None was found" in filled(small, "errata") and "0 of 1 chapters" in filled(small, "gains")


@pytest.mark.parametrize("name", ["gains", "plain", "errata"])
def test_a_section_that_is_missing_is_amiss(small, name):
    one = {"gains": {"kind": "fewer bytes", "what": "less", "section": ""}, "plain": WON, "errata": SLIP}[name]
    assert f"{name}: 'Elsewhere' is no section of the notebook" in said(
        small, **{name: [one | {"section": "Elsewhere"}]}
    )


def test_an_erratum_needs_its_numbers_and_its_words_in_the_section(small):
    small.write_notebook(small.cells())
    text = json.loads(small.notebook_path.read_text())
    for cell in text["cells"]:
        if "".join(cell["source"]).startswith("## The idea"):
            cell["source"] = "## The idea\n\nThe data, then the mean. Of 421 samples, not 360."
    small.notebook_path.write_text(json.dumps(text))
    assert said(small, errata=[SLIP]) == []
    (gone,) = said(small, errata=[SLIP | {"right": "422 samples"}])
    assert gone == "errata: '360 samples': the section 'The idea' does not hold 422"
    (unsaid,) = said(small, errata=[SLIP | {"shows": "It is proved."}])
    assert unsaid.endswith("does not say 'It is proved.'")
    (elsewhere,) = said(small, errata=[SLIP | {"section": "Exercises", "printed": "a", "right": "b"}])
    assert "the section 'Exercises' does not say" in elsewhere, "another section proves nothing"


def test_what_only_a_teacher_reads_proves_nothing(small):
    slip = SLIP | {"printed": "a", "right": "b", "shows": "Ask what a mean hides."}
    assert "does not say" in said(small, errata=[slip])[0], "an instructor's cell stands on no page"


def test_a_reason_for_a_claim_that_holds_is_amiss_and_so_is_a_recorded_failure_without_one(small):
    assert said(small, claims=claims(small, reason="data", value=4000)) == []
    (turned,) = said(small, claims=claims(small, reason="data", value=2000))
    assert turned == "claims.rate: `reason` says why it does not hold, and it holds here"
    bare = [{key: one for key, one in claims(small, run="race")[0].items() if key != "reason"}]
    (failed,) = said(small, 900.0, claims=bare)
    assert failed == "claims.rate: does not hold here, by a recorded run, and no `reason` says why"
    assert said(small, 900.0, claims=[bare[0] | {"reason": "size"}]) == []
    assert said(small, 2100.0, claims=bare) == []


def test_an_unknown_reason_or_gain_breaks_the_schema(small):
    schema = HOME / "book/press/gates/card.schema.json"
    assert not breaches(schema, small.card | {"claims": claims(small, reason="size")}, "the card")
    assert "weather" in breaches(schema, small.card | {"claims": claims(small, reason="weather")}, "the card")[0]
    gain = {"kind": "more luck", "what": "luck", "section": "The idea"}
    assert "more luck" in breaches(schema, small.card | {"gains": [gain]}, "the card")[0]
    bare = {key: value for key, value in SLIP.items() if key != "shows"}
    assert "shows" in breaches(schema, small.card | {"errata": [bare]}, "the card")[0], "no erratum without a proof"
    assert {*lessons.REASONS} == {"hardware", "size", "data", "tuning", "arithmetic"} and len(lessons.GAINS) == 5


def test_a_plain_way_that_no_longer_wins_is_amiss(small):
    assert said(small, plain=[WON]) == []
    (lost,) = said(small, plain=[WON | {"null": 3000}])
    assert lost == "plain: mean_rate: that the plain way won does not hold here"
    assert said(small, plain=[WON | {"run": "race"}]) == [], "what nobody measured decides nothing"
    executed(small)
    assert "mean_rate" not in filled(small, "plain") and "1 more waits for a run" in filled(small, "plain")
    with pytest.raises(PressError, match="kg"):
        said(small, plain=[WON | {"unit": "kg"}])


def test_the_gate_reads_the_cards(small):
    executed(small)
    small.write_card(errata=[SLIP | {"section": "Elsewhere"}])
    (problem,) = load()["taught"].problems(small.repository)
    assert problem.where.endswith("moving_mean.yml") and "no section of the notebook" in problem.what


def test_claims_stand_by_kind_and_reason_with_their_chapters(small):
    small.write_card(claims=[*claims(small, reason="data", value=4000), {**small.card["claims"][0], "id": "other"}])
    executed(small)
    kinds, why = filled(small, "kinds"), filled(small, "reasons")
    assert "Sizes: a number is reached (2)" in kinds and kinds.count("Moving mean") == 2
    assert "<strong>1</strong> holds here" in kinds and "<strong>1</strong> does not hold here" in kinds
    assert (
        "1 claim does not hold here" in why
        and "<strong>1</strong> data" in why
        and "<strong>0</strong> arithmetic" in why
    )
    small.write_card(claims=[{**small.card["claims"][1], "value": 4000}])
    executed(small)
    assert "<strong>1</strong> no reason given yet" in filled(small, "reasons")


def test_where_the_plain_way_won_is_told_with_what_was_measured(small):
    small.write_card(plain=[WON])
    executed(small)
    told = filled(small, "plain")
    assert "won in 1 case;" in told and "the loop is faster. Measured: 2,100 points/s" in told
    assert 'href="../notebooks/signals/moving_mean/moving_mean.html#the-idea"' in told


def test_gains_and_errata_lead_to_their_sections(small):
    gain = {"kind": "more reuse", "what": "a sum <slides>", "section": "The idea"}
    small.write_card(gains=[gain], errata=[SLIP | {"of": "its paper"}])
    executed(small)
    told = filled(small, "gains")
    assert "1 of 1 chapters" in told and "a sum &lt;slides&gt;" in told and "#the-idea" in told
    told = filled(small, "errata")
    assert "1 slip in what 1 chapter rebuilds" in told and "<dt>its paper</dt><dd>360 samples</dd>" in told
    assert "https://example.org/means" in told and "<q>The data, then the mean.</q>" in told


def timed(small, **more):
    """The small book with its heart timed on a processor."""
    content = {"date": "2026-05-01", "machine": {"cpu": "Test CPU"}, "calibration": {"copy_bytes_per_s": 1e9}}
    content["calibration"] |= {"flops_per_s": {"float32": 1e9, "float64": 5e8}}
    content["chapters"] = {"moving_mean": {"measured_s": 640.0, "predicted_s": 320.0, "ratio": 0.5, "bound": "memory"}}
    small.write("data/predictions/against_the_cpu.json", json.dumps(content | more))


def test_a_heart_s_share_of_the_roof_is_its_least_seconds_over_those_it_takes(predicted):  # noqa: F811
    timed(predicted)
    processor, first, *_ = hearts.panels(gather(predicted.repository).entries)
    assert (processor.key, first.key, processor.measured) == ("cpu", "t4", "2026-05-01")
    (one,) = processor.hearts
    assert (one.seconds, one.share, one.intensity, one.number) == (640.0, 0.5, 0.0, 1), "320 GB at 1 GB/s in 640 s"
    (one,) = first.hearts
    assert one.share == pytest.approx(1 / one.seconds) and one.bound == "memory" and one.least


def test_arithmetic_counts_at_the_rate_of_its_kind_of_number(predicted):  # noqa: F811
    timed(predicted)
    work = [["float64", 8, 10**12, 1]]
    change(predicted, lambda c: c["parts"]["ours"]["tiers"]["check"].update(work=work, flops=10**12, bytes_moved=8))
    (one,) = hearts.panels(gather(predicted.repository).entries)[0].hearts
    assert one.share == pytest.approx(2000 / 640), "10¹² operations at 5·10⁸ in a second"


def test_the_panels_say_what_was_measured_and_what_is_predicted(predicted):  # noqa: F811
    executed(predicted)
    told = filled(predicted, "roofline")
    assert told.count("<figure data-card=") == 3 and "measured 2026" not in told
    timed(predicted)
    told = filled(predicted, "roofline")
    assert told.count("<figure data-card=") == 4 and told.count("predicted, not measured") == 3
    assert "measured 2026-05-01, at small sizes" in told and told.count('role="img" aria-label=') == 4
    row = re.search(r"<li\b[^>]*>", told)[0]
    assert 'data-cpu="0.50000|50 % of its roof; 640 s, memory"' in row and "data-h100=" in row and "\n\n" not in told


def test_a_chapter_without_counts_says_so_and_a_book_without_any_too(small):
    executed(small)
    assert "No heart was counted" in filled(small, "roofline")
    assert "not counted" in filled(small, "board") and "not measured" in filled(small, "board")


def test_a_receipt_of_a_gpu_stands_beside_the_predictions(predicted):  # noqa: F811
    executed(predicted)
    assert "No receipt of a GPU has come" in filled(predicted, "board")
    content = receipt(predicted, tier="big", machine={"cpu": "C", "gpu": "NVIDIA H200", "slug": "nvidia-h200"})
    content["metrics"] = {"mean_rate": exact(1000.0) | {"device": "cuda"}}
    predicted.write("data/receipts/moving_mean/big-nvidia-h200.json", json.dumps(content))
    ((one, date, key),) = hearts.reached(gather(predicted.repository).entries)
    assert (one.card, one.seconds, date) == ("NVIDIA H200", pytest.approx(2.0), "2026-01-02"), "2,000 points at 1,000/s"
    assert (one.share, key) == (0.0, "h100") and "so no ratio" in filled(predicted, "board"), "an H200 is no H100"
    content["machine"] |= {"gpu": "NVIDIA A100-SXM4-40GB"}
    predicted.write("data/receipts/moving_mean/big-nvidia-h200.json", json.dumps(content))
    ((one, date, key),) = hearts.reached(gather(predicted.repository).entries)
    assert key == "a100" and one.share == pytest.approx(320e9 / 1555e9 / 2, rel=0.01)
    assert "Predicted over measured is 0.10." in filled(predicted, "board")
    content["machine"] |= {"gpu": "NVIDIA H200"}
    predicted.write("data/receipts/moving_mean/big-nvidia-h200.json", json.dumps(content))
    told = filled(predicted, "board")
    assert "NVIDIA H200, 2026-01-02: 2 s a call" in told and "No receipt" not in told
    assert 'class="heart reached"' in filled(predicted, "roofline")


def test_the_axis_has_room_for_hearts_that_compute_nothing():
    assert pages.across(0) < pages.across(1e-9) < pages.across(1.0) < pages.across(1e9) == pytest.approx(pages.WIDE)
    assert pages.upwards(1e20, 8, 13) == 0 and pages.upwards(1.0, 8, 13) == pages.HIGH
    panel = hearts.Panel("t4", CARDS["gpu"][0], "", [])
    assert pages.ends(panel) == (11, 12) and pages.roof(panel, 1e11).startswith("M34.0")


def test_every_card_of_the_book_has_its_lessons_in_sections_that_exist():
    """Without a run: gains, plain ways and errata alone, of the committed cards and notebooks."""
    told = {}
    for chapter in BOOK.chapters:
        held = lessons.sections(chapter)
        card = read_card(chapter.card_path)
        told[chapter.stem] = sum(len(card.get(name) or ()) for name in lessons.POINTING)
        for one in [one for name in lessons.POINTING for one in card.get(name) or ()]:
            assert one["section"] in held, f"{chapter}: {one['section']}"
        for one in card.get("errata") or ():
            text = held[one["section"]]
            assert lessons.numbers(f"{one['printed']} {one['right']}") <= lessons.numbers(text), f"{chapter}: {one}"
            assert one["shows"] in text, f"{chapter}: {one['shows']}"
    assert sum(told.values()) > 60
