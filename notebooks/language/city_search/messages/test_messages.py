"""Texts cut into segments."""

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

import messages

from . import text_segments

FAMILY = "👨\u200d👩\u200d👧\u200d👦"  # 11 units of UTF-16, one picture
LETTERS = st.text(st.sampled_from("aé€{ \n😀" + "ж"), max_size=400)


@pytest.mark.parametrize(
    "text, sizes",
    [
        ("", []),
        ("a", [1]),
        ("a" * 160, [160]),
        ("a" * 161, [153, 8]),
        ("a" * 306, [153, 153]),
        ("a" * 307, [153, 153, 1]),
        ("€" * 80, [80]),  # two places each
        ("€" * 81, [76, 5]),  # 153 is odd: the escape is not left alone at the end
        ("a" + "€" * 80, [77, 4]),
        ("ж" * 70, [70]),
        ("ж" * 71, [67, 4]),
        ("a" * 70 + "ж", [67, 4]),  # one foreign letter costs all their places
        ("😀" * 35, [35]),
        ("😀" * 36, [33, 3]),  # 67 is odd: no half of a pair
        ("a" * 1600, [153] * 10 + [70]),
        ("{" + "2" * 158, [159]),  # this one and the next four: of Twilio's own calculator
        ("{" + "2" * 159, [152, 8]),
        ("😜" + "2" * 68, [69]),
        ("😜" + "2" * 69, [66, 4]),
        ("😜" + "2" * 133, [66, 67, 1]),
    ],
)
def test_segments_have_the_sizes_of_the_standard(text, sizes):
    assert [len(one) for one in messages.segments(text)] == sizes


def test_a_picture_of_several_code_points_stays_whole():
    text = "ж" * 60 + FAMILY + "ж" * 20
    first, second = messages.segments(text)
    assert first == "ж" * 60 and second.startswith(FAMILY)
    flags = "🇩🇪" * 30
    assert all(len(one) % 2 == 0 for one in messages.segments(flags))


def test_marks_without_end_are_cut_all_the_same():
    found = messages.segments("a" + "\u0301" * 200)
    assert "".join(found) == "a" + "\u0301" * 200 and max(map(len, found)) <= 67


@given(LETTERS)
def test_joined_segments_are_the_text_and_each_fits(text):
    found = messages.segments(text)
    assert "".join(found) == text
    plain = messages.basic(text)
    room = {True: (160, 153), False: (70, 67)}[plain][len(found) > 1]
    assert all(0 < text_segments._size(one, plain) <= room for one in found)
    assert sum(len(regex.findall(r"\X", one)) for one in found) == len(
        regex.findall(r"\X", text)
    )


def test_the_alphabet_has_the_127_characters_of_the_table_and_its_ten_of_the_extension():
    assert (
        len(text_segments.BASIC) == 127 and len(text_segments.EXTENSION) == 10
    )  # without the escape itself
    assert (
        not text_segments.BASIC & text_segments.EXTENSION
        and "`" not in text_segments.BASIC | text_segments.EXTENSION
    )


def test_a_text_that_no_gateway_takes_is_refused_with_its_length():
    with pytest.raises(ValueError, match=r"1,601 characters; a gateway takes 1,600"):
        messages.segments("a" * 1601)
