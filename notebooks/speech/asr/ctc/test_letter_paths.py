"""The word to touch, in a browser: what it adds up, keys and taps, a phone's width."""

import json

import pytest
import torch
from quartznet import BLANK, VOCABULARY

from .best_path import collapse
from .letter_paths import LetterPaths

STEPS = 12


def grid():
    return torch.randn(
        STEPS, BLANK + 1, generator=torch.Generator().manual_seed(3)
    ).log_softmax(1)


def test_shows_the_letters_said_the_most_probable_and_the_blank():
    log_probs = torch.full((3, BLANK + 1), -9.0)
    log_probs[1, VOCABULARY.index("z")] = -0.1
    shown = LetterPaths(log_probs, "no on").grid
    assert shown["letters"][:4] == ["n", "o", "␣", "z"] and len(shown["probs"]) == 7
    assert len(shown["letters"]) == 6 and len(shown["probs"][0]) == 3


def test_a_word_of_too_many_letters_is_refused():
    with pytest.raises(ValueError, match="6 at most"):
        LetterPaths(grid(), "abcdefg")


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page(viewport={"width": 360, "height": 700}, has_touch=True)
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    head = '<meta name="viewport" content="width=device-width">'
    page.set_content(head + LetterPaths(grid(), "nine")._repr_html_())
    yield page
    page.close()
    assert not wrong


def told(page):
    """(path's ids, text, its probability, that of all its paths), as the page has them."""
    pressed = (
        "[...document.querySelectorAll('.grid > button')].map(b => b.ariaPressed == 'true')"
    )
    flags = torch.tensor(page.evaluate(pressed)).view(-1, STEPS)
    ids = [*(VOCABULARY.index(x) for x in LetterPaths(grid(), "nine").grid["letters"]), BLANK]
    data = page.evaluate("({...document.querySelector('.ctc-paths').dataset})")
    path = [ids[row] for row in flags.int().argmax(0).tolist()]
    return path, data["text"], float(data["one"]), float(data["many"])


def agrees(page):
    """Asserts that text and both probabilities are those of PyTorch."""
    path, text, one, many = told(page)
    letters = collapse(path, BLANK)
    assert text == "".join(VOCABULARY[i] for i in letters)
    assert one == pytest.approx(grid().double()[range(STEPS), path].sum().exp().item())
    sizes = torch.tensor([STEPS]), torch.tensor([len(letters)])
    options = {"blank": BLANK, "reduction": "sum"}
    loss = torch.nn.functional.ctc_loss(
        grid().double()[:, None],
        torch.tensor([letters or [0]])[:, : len(letters)],
        *sizes,
        **options,
    )
    assert many == pytest.approx((-loss).exp().item(), rel=1e-6)


def test_the_sum_over_all_paths_is_the_loss_of_pytorch(page):
    agrees(page)
    for row, step in ((0, 0), (0, 1), (6, 2), (0, 3), (1, 4), (1, 5)):
        page.locator(".grid > button").nth(row * STEPS + step).tap()
        agrees(page)
    assert told(page)[1].startswith("nni")


def test_keys_move_and_choose(page):
    page.get_by_role("button", name="All blank").tap()
    assert told(page)[1] == "" and "“”" in page.locator(".text").inner_text()
    page.locator(".grid > button").first.focus()
    for key in ("ArrowRight", "ArrowDown", "Space"):
        page.keyboard.press(key)
    assert told(page)[1] == "i" and told(page)[0][1] == VOCABULARY.index("i")
    agrees(page)


def test_a_phone_shows_it_whole_and_a_finger_hits_it(page):
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    box = page.locator(".grid > button").first.bounding_box()
    assert box["width"] >= 24 and box["height"] >= 24


def test_it_asks_no_server_and_is_small():
    html = LetterPaths(grid(), "nine")._repr_html_()
    assert "//" + "cdn" not in html and "fetch(" not in html and len(html) < 20_000
    assert json.loads(html.split('data-grid="')[1].split('"')[0].replace("&quot;", '"'))
