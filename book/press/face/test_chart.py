"""The front page's chart: what lies where, what a mark says, and that all of it is a link and a row of a table."""

import re

import pytest

from press.face import chart
from press.ledger import gather
from press.predict import pages
from press.print.conftest import executed


def drawn(small, value=2100.0, **changes):
    """The chart of the small book whose only claim is changed, and its run measured this."""
    small.write_card(claims=[{**small.card["claims"][0], **changes}])
    executed(small, value=value)
    return chart.chart(gather(small.repository))


def test_a_size_lies_at_its_share_of_what_was_claimed(small):
    page = drawn(small, value=20.0)
    (x,) = re.findall(r'<circle cx="([\d.]+)"', page)
    assert abs(float(x) - chart.across(0.01)) <= chart.STEP / 2 + 0.1
    assert "measured 0.01 of what is claimed; does not hold here" in page
    assert page.count('href="../notebooks/signals/moving_mean/moving_mean.html"') == 2, "a mark, and a row of the table"
    assert "<td>0.01</td>" in page


@pytest.mark.parametrize(("share", "place"), [(1e-9, 0.0), (1.0, 4 / 7), (1e9, 1.0), (10.0, 5 / 7)])
def test_the_axis_is_a_logarithm_with_ends(share, place):
    assert chart.across(share) == pytest.approx(place * chart.WIDTH)


def test_marks_that_would_meet_are_stacked(small):
    executed(small)
    (finding,) = gather(small.repository).findings
    marks = chart.stacked([chart.Mark(finding, 1.0, None)] * 2 + [chart.Mark(finding, 100.0, None)])
    assert [(mark.x == marks[0].x, mark.y - marks[0].y) for mark in marks] == [
        (True, 0),
        (True, chart.STEP),
        (False, 0),
    ]


def test_a_direction_is_a_sign_and_a_row(small):
    page = drawn(small, kind="direction", null=0, value=0)
    assert page == "", "no size, no chart"
    small.write_card(
        claims=[*small.card["claims"], {**small.card["claims"][0], "id": "size", "kind": "size", "value": 1}]
    )
    claims = small.card["claims"]
    claims[1].pop("null")
    small.write_card(claims=claims)
    executed(small)
    page = chart.chart(gather(small.repository))
    assert (
        ">✓</a>" in page and "which way" in page and "which way it goes: 1, of which 1 held here and 0 did not" in page
    )


def test_another_case_is_hollow_and_named(small):
    page = drawn(small, differs=["hardware"])
    assert 'class="holds-here hollow"' in page and "holds here, other hardware" in page


def test_a_run_that_may_not_decide_is_hollow_and_says_why(small):
    page = drawn(small, runs_on="gpu")
    assert 'class="not-testable-here hollow"' in page
    assert "not testable here (only a run on a GPU may decide)" in page


def test_a_prediction_is_a_line_to_its_share(small, monkeypatch):
    monkeypatch.setattr(chart, "of_the_named_card", lambda _: 20_000.0)
    page = drawn(small)
    assert f'class="bound" d="M{264 - 264 % chart.STEP:.1f}' in page and f"H{chart.across(10.0):.1f}m0-4v8" in page
    assert "predicted 10 of it" in page and "<td>10</td>" in page


@pytest.mark.parametrize(
    ("hardware", "one"),
    [
        ("one A100 of a DGX A100, float64, 20,140,000 points", True),
        ("A100 with 80 GB", False),
        ("one A100-80GB, Tiny with its 55 tables", False),
        ("DGX-1 and 8 A100 against CPUs", False),
        ("not named in the article; an A100 elsewhere", False),
        ("two CPUs", False),
    ],
)
def test_only_the_one_card_that_a_claim_names_bounds_it(hardware, one):
    assert pages.names(hardware, "A100 SXM 40 GB") == one


@pytest.mark.parametrize(("value", "sign"), [(2100.0, "✓"), (-5.0, "✗")])
def test_a_sign_says_how_a_direction_came_out(small, value, sign):
    claim = small.card["claims"][0]
    way = claim | {"id": "way", "kind": "direction", "null": 0, "value": 0}
    small.write_card(claims=[claim | {"value": 1}, way])
    executed(small, value=value)
    ledger = gather(small.repository)
    page = chart.chart(ledger) or chart.block(
        "face/chart.html",
        "chart",
        [],
        ledger.findings[1:],
        [0, 0],
        [],
        9,
        css=chart.css,
        told=chart.told,
        short=chart.short,
        SIGNS=chart.SIGNS,
        WIDTH=9,
        TOP=1,
    )
    assert f">{sign}</a>" in page
