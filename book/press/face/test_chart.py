"""The front page's chart: what lies where, what a mark says, and that all of it is a link and a row of a table."""

import re

import pytest

from press.face import chart
from press.ledger import gather
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
        ">✓</a>" in page
        and "which way" in page
        and "Of 1 claims about which way it goes, 1 hold here and 0 do not" in page
    )


def test_another_case_is_hollow_and_named(small):
    page = drawn(small, differs=["hardware"])
    assert 'class="holds-here hollow"' in page and "holds here, other hardware" in page
