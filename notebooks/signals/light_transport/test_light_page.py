"""The room in a browser: the lamp by keys and pointer, bounces, balance, what goes wrong."""

import light_basis
import light_page
import pytest
import torch

CHANCE = torch.Generator().manual_seed(0)


def smooth(tiles, size):
    """A basis (tiles, 5, size, size, 3) as smooth as light is."""
    coarse = 0.2 + torch.rand(tiles * 5, 3, 3, 3, generator=CHANCE)
    fine = torch.nn.functional.interpolate(coarse, (size, size), mode="bilinear")
    return fine.permute(0, 2, 3, 1).reshape(tiles, 5, size, size, 3)


BASIS = smooth(9, 16)


def visit(browser, text, wide=1000, before=""):
    page = browser.new_page(viewport={"width": wide, "height": 1000})
    if before:
        page.add_init_script(before)
        page.goto("about:blank")
    page.set_content(text)
    page.wait_for_selector(".light-room[data-state=ready], .light-room[data-state=failed]")
    return page


def energy(page):
    return float(page.locator(".light-room").get_attribute("data-energy"))


def lamp(page):
    return [
        float(one) for one in page.locator(".light-room").get_attribute("data-lamp").split()
    ]


def test_switching_bounces_off_takes_their_light(browser):
    page = visit(browser, light_page.viewer(BASIS, "words"))
    share = light_basis.covered((0.5, 0.5), light_page.LAMP, 3)
    orders = [
        float(light_basis.picture(BASIS, share, light_page.RADIANCE, one).sum())
        for one in ([1], [2], [3, 4])
    ]
    assert energy(page) == pytest.approx(1)
    page.get_by_label("later bounces").uncheck()
    assert energy(page) == pytest.approx(sum(orders[:2]) / sum(orders), rel=0.01)
    page.get_by_label("first bounce").uncheck()
    assert energy(page) == pytest.approx(orders[0] / sum(orders), rel=0.01)
    amiss = round(100 * (1 - orders[0] / sum(orders)))
    assert f"Amiss is {amiss} %" in page.get_by_role("status").inner_text()
    page.close()


def test_the_balance_has_the_energy_that_python_says(browser):
    page = visit(browser, light_page.viewer(BASIS, "words"))
    share = light_basis.covered((0.5, 0.5), light_page.LAMP, 3)
    direct, indirect = (
        light_basis.picture(BASIS, share, light_page.RADIANCE, one) for one in ([1], [2, 3, 4])
    )
    page.get_by_label("Balance").press("Home")
    _, wanted = light_basis.balance_error(direct, [indirect], 0.0)
    assert energy(page) == pytest.approx(wanted, rel=0.01)
    page.get_by_label("Balance").press("End")
    _, wanted = light_basis.balance_error(direct, [indirect], 1.0)
    assert energy(page) == pytest.approx(wanted, rel=0.01)
    whole = direct + indirect
    amiss = float((2 * indirect - whole).abs().sum() / whole.sum())
    found = float(page.locator(".light-room").get_attribute("data-amiss"))
    assert found == pytest.approx(amiss, rel=0.02)
    page.close()


def test_keys_sliders_and_a_drag_move_the_lamp(browser):
    page = visit(browser, light_page.viewer(BASIS, "words"), wide=320)
    ink = page.locator("canvas").evaluate("one => one.toDataURL()")
    page.locator("canvas").press("ArrowLeft")
    page.locator("canvas").press("ArrowUp")
    assert lamp(page) == [0.47, 0.53]
    assert page.locator("canvas").evaluate("one => one.toDataURL()") != ink
    page.get_by_label("Lamp, left to right").press("Home")
    assert lamp(page)[0] == pytest.approx(0.23, abs=0.01)
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.1)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.1)
    page.mouse.up()
    x, z = lamp(page)
    # the ray under the pointer meets the ceiling at 0.498 / (0.8 tan 19.65°) from the eye
    away = 0.498 / (0.8 * 0.3571)
    assert x == pytest.approx(0.5 + 0.2 * 0.3571 * away, abs=0.03)
    assert z == pytest.approx(2.4 - away, abs=0.03)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.close()


def test_a_pixel_is_the_tone_of_the_sum(browser):
    flat = torch.full((9, 4, 2, 2, 3), 0.02)
    flat[:, 0] = 0
    page = visit(browser, light_page.viewer(flat, "words"))
    shown = page.locator("canvas").evaluate(
        "one => [...one.getContext('2d').getImageData(200, 300, 1, 1).data].slice(0, 3)"
    )
    share = light_basis.covered((0.5, 0.5), light_page.LAMP, 3)
    wanted = light_basis.tone(
        light_basis.picture(flat, share, light_page.RADIANCE, [1, 2, 3]),
        light_page.EXPOSURE,
    )
    assert shown == pytest.approx((255 * wanted[0, 0]).tolist(), abs=2)
    page.close()


def test_what_goes_wrong_is_told(browser):
    text = light_page.viewer(BASIS, "words").replace("data-values='", "data-values='' data-x='")
    page = visit(browser, text)
    assert "cannot be shown here: the pictures did not come" in page.inner_text("body")
    page.close()


@pytest.mark.parametrize(
    ("slider", "centre"),
    [("Lamp, left to right", (0.77, 0.5)), ("Lamp, back to front", (0.5, 0.77))],
)
def test_the_lamp_is_where_its_tiles_are(browser, slider, centre):
    """Tiles send more the further they lie to the right, and ten times that to the front."""
    middles, _ = light_basis.tiles(3)
    sent = (0.001 * (middles[:, 0] + 10 * middles[:, 1])).float()
    flat = sent[:, None, None, None, None].expand(9, 4, 2, 2, 3).clone()
    page = visit(browser, light_page.viewer(flat, "words"))
    page.get_by_label(slider).press("End")
    assert lamp(page) == pytest.approx(centre, abs=0.011)
    share = light_basis.covered(lamp(page), light_page.LAMP, 3)
    wanted = light_basis.tone(
        light_basis.picture(flat, share, light_page.RADIANCE, [1, 2, 3]),
        light_page.EXPOSURE,
    )
    shown = page.locator("canvas").evaluate(
        "one => [...one.getContext('2d').getImageData(200, 300, 1, 1).data].slice(0, 3)"
    )
    assert shown == pytest.approx((255 * wanted[0, 0]).tolist(), abs=2)
    page.close()


def test_a_browser_that_hides_pictures_from_scripts_is_told_of(browser):
    lie = "CanvasRenderingContext2D.prototype.getImageData = (x, y, w, h) => "
    lie += "new ImageData(new Uint8ClampedArray(4 * w * h).fill(255), w, h)"
    page = visit(browser, light_page.viewer(BASIS, "words"), before=lie)
    assert "this browser keeps the pictures from scripts" in page.inner_text("body")
    page.close()


def test_what_is_packed_is_the_basis_but_for_a_few_percent():
    content, largest = light_page.packed(BASIS)
    had = light_page.unpacked(content, largest, 9)
    wanted = torch.stack([BASIS[:, 1], BASIS[:, 2], BASIS[:, 3:].sum(1)]).double()
    assert had.shape == wanted.shape
    assert float((had - wanted).abs().sum() / wanted.sum()) < 0.03
    for kind in range(3):
        for tile in range(9):
            assert float(had[kind, tile].sum() / wanted[kind, tile].sum()) == pytest.approx(
                1, abs=0.01
            )


def test_the_room_with_its_pictures_weighs_little():
    """As many tiles and pixels as the page has, with noise, which packs badly."""
    noisy = smooth(25, 40)
    noisy = noisy * (1 + 0.1 * torch.randn(noisy.shape, generator=CHANCE)).clamp_min(0)
    assert len(light_page.viewer(noisy, "words")) < 120_000


@pytest.mark.parametrize(
    ("basis", "message"),
    [
        (BASIS[:, :2], "direct light and a bounce"),
        (-BASIS, "negative or not finite"),
        (BASIS * float("nan"), "negative or not finite"),
    ],
)
def test_a_basis_that_cannot_be_shown_is_refused(basis, message):
    with pytest.raises(ValueError, match=message):
        light_page.packed(basis)
