"""The live model in a real browser: PyTorch's sound, the two WebGL fixes, bad input, and
nothing that leaves the page.
"""

import io
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from instrument_sounds import rendering as ins
from sound_features import analysis as sf
from voice_transfer import transfer as vt

from tone_browser import export as bm
from tone_browser import live_site

torch.set_num_threads(1)  # two processes of tests share two cores
HERE = Path(__file__).parent
HOME = HERE.parents[3]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytest.importorskip("playwright")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium")


@pytest.fixture(scope="module")
def voice():
    return ins.tensor(ins.kept("oboe")[ins.HELD_OUT])[:40_000]


@pytest.fixture(scope="module")
def browser(voice, tmp_path_factory):
    """A Chromium whose pretended microphone hears the voice."""
    from playwright.sync_api import sync_playwright

    heard = tmp_path_factory.mktemp("microphone") / "voice.wav"
    heard.write_bytes(wav(voice.numpy()))
    told = [*live_site.OPTIONS, f"--use-file-for-fake-audio-capture={heard}"]
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=told)
        yield made
        made.close()


@pytest.fixture(scope="module")
def bare(browser):
    """A page with the two scripts that need no runtime."""
    made = browser.new_page()
    made.set_content(
        "<script>"
        + "".join((HERE / name).read_text() for name in ("tone_dsp.js", "tone_gl.js"))
        + "</script>"
    )
    return made


@pytest.fixture(scope="module")
def live(browser, voice, tmp_path_factory):
    """(page, every address asked) with the live model running."""
    if not live_site.runtime(HOME).is_file():
        pytest.skip("onnxruntime-web is not at hand: press build fetches it")
    folder = tmp_path_factory.mktemp("live")
    files = bm.live_files({"shehnai": vt.load("shehnai")}, voice, "shehnai")
    live_site.write(folder, files, HOME)
    with live_site.served(folder) as address:
        page, asked = browser.new_page(), []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{address}index.html")
        page.locator(".rebuilt-touch").click()
        page.wait_for_selector('[data-state="running"], [data-state="failed"]', timeout=60_000)
        assert page.locator("[data-state]").get_attribute("data-state") == "running", (
            page.inner_text("body")
        )
        yield page, asked
        page.close()


def wav(sound, rate=16_000, subtype="PCM_16", kind="WAV"):
    file = io.BytesIO()
    soundfile.write(file, sound, rate, format=kind, subtype=subtype)
    return file.getvalue()


def answered(live, content, name="a.wav"):
    """What the page says to a file."""
    page, _ = live
    page.evaluate("document.querySelector('[data-live]').dataset.rests = 'no'")
    page.set_input_files(
        "#tone-file", {"name": name, "mimeType": "audio/wav", "buffer": content}
    )
    page.wait_for_selector('[data-rests="yes"]', timeout=60_000)
    return page.inner_text(".tone-told")


def test_features_in_the_browser_are_pythons(bare, voice):
    wanted = sf.features(voice[:16_000])
    got = bare.evaluate(
        "x => { const f = toneDsp().features(Float32Array.from(x)); return [f.f0, "
        "f.confidence, f.loudness].map((v) => [...v]); }",
        voice[:16_000].tolist(),
    )
    assert wanted.voiced.sum() > 100  # silent frames hold rounding errors, and no pitch
    for values, tensor in zip(got, wanted[:3], strict=True):
        np.testing.assert_allclose(
            np.array(values)[wanted.voiced], tensor[wanted.voiced], rtol=1e-6, atol=1e-6
        )


@pytest.mark.parametrize("note", [49, 51, 62, 73.5, 75, 87])
def test_a_voice_keeps_its_octave_in_the_browser_where_it_does_in_python(bare, note):
    f0 = torch.full((50,), 440 * 2 ** ((note - 69) / 12), dtype=torch.float64)
    loud = torch.linspace(0.4, 0.6, 50, dtype=torch.float64)
    wide = vt.Instrument(None, 62.0, 50.0, 74.0, 0.6, 0.1)
    wanted = vt.shift_of(sf.Features(f0, torch.ones(50), loud, loud), wide)
    place = dict(zip(vt.Instrument._fields[1:], wide[1:], strict=True))
    got = bare.evaluate(
        """([f0, loudness, place]) =>
        toneDsp().shiftOf({ f0, loudness, voiced: f0.map(() => true) }, place)""",
        [f0.tolist(), loud.tolist(), place],
    )
    assert got == pytest.approx(wanted._asdict())


def test_the_noise_is_the_same_32_bits(bare):
    from harmonic_synth import oscillators as hs

    got = bare.evaluate(
        "() => { const t = toneDsp(); return Array.from({ length: 99 }, (_, n) => "
        "t.noiseAt(n + 1e6, 5)); }"
    )
    assert got == hs.white_noise(1_000_000, 99, seed=5).tolist()


def test_the_sound_in_the_browser_is_pytorchs(live):
    assert float(live[0].locator("[data-live]").get_attribute("data-worst")) < 1e-5


def test_webgl_on_the_sounds_path_is_near_pytorchs(live):
    page, told = live[0], live[0].locator("[data-live]")
    for engine in ("webgl", ""):
        told.evaluate("e => { e.dataset.rests = 'no'; delete e.dataset.worst; }")
        page.select_option("#tone-engine", engine)
        page.wait_for_selector('[data-rests="yes"]', timeout=60_000)
        if "no WebGL 2" in page.inner_text(".tone-told"):
            pytest.skip("no WebGL 2 here")
        worst = float(told.get_attribute("data-worst"))
        assert 1e-5 < worst < 1e-2 if engine else worst < 1e-5


def test_nothing_leaves_the_page_which_needs_no_network(live, voice):
    page, asked = live
    before = len(asked)
    page.context.set_offline(True)
    try:
        assert "became a shehnai" in answered(live, wav(voice.numpy()))
        page.click("text=Play the built-in voice")
        page.wait_for_selector('[data-rests="yes"]')
    finally:
        page.context.set_offline(False)
    assert [one for one in asked[before:] if not one.startswith(("blob:", "data:"))] == []
    sent = page.evaluate("fetch('index.html').then(() => 'sent', () => 'refused')")
    assert sent == "refused"  # by the policy that the page itself brings
    for name in ("tone_live.js", "tone_dsp.js", "tone_gl.js"):
        text = (HERE / name).read_text(encoding="utf-8")
        senders = (
            r"\bfetch\(|XMLHttpRequest|Socket|EventSource|sendBeacon|RTCPeer|https?:|<img"
            r"|new Image|WebTransport|import\(|importScripts|localStorage|indexedDB"
        )
        assert not re.search(senders, text), name


def test_a_recording_of_the_microphone_is_played(live, voice):
    page, asked = live
    before = len(asked)
    page.evaluate("document.querySelector('[data-live]').dataset.rests = 'no'")
    page.click("text=Sing: record")
    page.wait_for_selector("text=Stop")
    page.wait_for_timeout(2_000)
    page.click("text=Stop")
    page.wait_for_selector('[data-rests="yes"]', timeout=30_000)
    told = page.inner_text(".tone-told")
    assert "became a shehnai" in told and "PyTorch" not in told  # as of the built-in voice
    assert float(told.split(" s of sound")[0]) > 1  # what was recorded, not the voice of before
    assert float(page.locator("[data-live]").get_attribute("data-made")) > 0.01
    recorded = page.evaluate(
        """async () => { const one = document.querySelector("audio[aria-label='The voice']");
        return [...new Uint8Array(await (await fetch(one.src)).arrayBuffer())]; }"""
    )
    found = sf.features(torch.tensor(soundfile.read(io.BytesIO(bytes(recorded)))[0]))
    wanted = sf.features(voice)
    notes, sung = (sf.midi(one.f0[one.voiced]).round() for one in (found, wanted))
    assert torch.isin(notes, sung).double().mean() > 0.9 and len(notes.unique()) > 1  # no beep
    assert [one for one in asked[before:] if not one.startswith(("blob:", "data:"))] == []


def test_a_microphone_that_hears_nothing_is_called_silent(live):
    page, _ = live
    page.evaluate(
        """() => { const media = navigator.mediaDevices;
        media.real = media.getUserMedia.bind(media);
        media.getUserMedia = async () => {
          globalThis.quiet = new AudioContext();
          await quiet.resume();
          const [tone, mute] = [quiet.createOscillator(), quiet.createGain()];
          const end = quiet.createMediaStreamDestination();
          mute.gain.value = 0;
          tone.connect(mute).connect(end);
          tone.start();
          return end.stream; };
        document.querySelector('[data-live]').dataset.rests = 'no'; }"""
    )
    page.click("text=Sing: record")
    page.wait_for_selector("text=Stop")
    page.wait_for_timeout(1_500)
    page.click("text=Stop")
    page.wait_for_selector('[data-rests="yes"]', timeout=30_000)
    page.evaluate(
        "() => { navigator.mediaDevices.getUserMedia = navigator.mediaDevices.real; }"
    )
    assert "the sound is silent" in page.inner_text(".tone-told")


def chord_of(at, *notes):
    return sum(0.1 * np.sin(2 * np.pi * f * k * at) / k for f in notes for k in range(1, 5))


def bad():
    random = np.random.default_rng(0)
    at = np.arange(32_000) / 16_000
    tone = 0.3 * sum(np.sin(2 * np.pi * 220 * k * at) / k for k in range(1, 9))
    return [
        ("silence", wav(0 * tone), "the sound is silent"),
        ("noise", wav(0.1 * random.standard_normal(32_000)), "the sound is noise"),
        ("polyphony", wav(chord_of(at, 262, 330, 392)), "One voice at a time"),
        ("clipped", wav(np.clip(4 * tone, -0.5, 0.5)), "The sound is clipped"),
        ("8 kHz", wav(tone[::2], 8_000), "Resampled from 8,000 to 16,000 Hz"),
        ("8 kHz FLAC", wav(tone[::2], 8_000, kind="FLAC"), "Resampled from 8,000 to 16,000 Hz"),
        ("a fifth", wav(chord_of(at, 220, 330)), "several notes sound at once"),
        ("NaN", wav(np.where(at == 1, np.nan, tone), subtype="FLOAT"), "holds NaN or infinity"),
        ("stereo", wav(np.stack([tone, tone], 1)), "2 channels were mixed into one"),
        ("antiphase", wav(np.stack([tone, -tone], 1)), "channels cancel each other"),
        ("a whistle", wav(0.3 * np.sin(2 * np.pi * 2_000 * at)), "the sound is too high"),
        ("a rumble", wav(0.3 * np.sin(2 * np.pi * 40 * at)), "the sound is too low"),
        ("no sound", b"\x00\x01 this is no sound" * 99, "this file is no sound"),
        ("short", wav(tone[:1600]), "at least 0.5 s"),
    ]


@pytest.mark.parametrize(("kind", "content", "told"), bad(), ids=[one[0] for one in bad()])
def test_bad_input_gets_a_clear_message_here_and_in_python(live, kind, content, told):
    from sound_features import sound_input

    assert told in answered(live, content)
    try:
        said = " ".join(sound_input.read(content).remarks)
    except ValueError as error:
        said = str(error)
    assert told in said


def test_what_is_long_is_cut_and_it_is_said(live):
    element = live[0].locator("[data-live]")
    element.evaluate("e => { e.dataset.longest = 1; }")  # thirty take the test half a minute
    tone = np.tile(0.3 * np.sin(2 * np.pi * 220 * np.arange(8_000) / 4_000), 300)
    told = answered(live, wav(tone.astype(np.float32), 4_000, "PCM_U8"))
    element.evaluate("e => { delete e.dataset.longest; }")
    assert "The sound is 600 s long: its first 1 s are used." in told
    assert "element.dataset.longest || 30" in (HERE / "tone_live.js").read_text(
        encoding="utf-8"
    )


def test_two_clicks_start_one_recorder(live):
    page = live[0]
    started = page.evaluate(
        """async () => { let count = 0; const true_one = navigator.mediaDevices.getUserMedia;
        const none = () => { count += 1; return Promise.reject("none"); };
        navigator.mediaDevices.getUserMedia = none;
        const buttons = [...document.querySelectorAll("button")];
        const button = buttons.find((one) => one.textContent.startsWith("Sing"));
        button.click(); button.click(); await new Promise((done) => setTimeout(done, 50));
        navigator.mediaDevices.getUserMedia = true_one; return count; }"""
    )
    assert started == 1 and "No microphone: none" in page.inner_text(".tone-told")


def rendered(bare, start=0.0, **how):
    told = {"frames": 17, "how": how, "start": start}
    return bare.evaluate(
        """({ frames, how, start }) => { globalThis.gpu ??= toneGl();
        const f0 = Float32Array.from({ length: frames + 1 }, (_, t) => 300 + 0.1 * t);
        const size = { length: (frames + 1) * 60 };
        const partials = Float32Array.from(size, (_, n) => 0.3 / (1 + n % 60));
        const made = gpu.render({ f0, partials, hop: 64, rate: 16000, how, start });
        return { ...made, sound: [...made.sound] }; }""",
        told,
    )


def test_webgl_makes_pytorchs_sound_in_every_way(bare):
    from harmonic_synth import oscillators as hs

    try:
        hows = [("naive", False), ("parallel", False), ("parallel", True)]
        ways = [rendered(bare, scan=scan, free=free) for scan, free in hows]
    except Exception as error:
        if "no WebGL 2" in str(error):
            pytest.skip(str(error).splitlines()[0])
        raise
    ways.append(rendered(bare, scan="parallel", free=True, fused=True))
    f0 = 300 + 0.1 * torch.arange(18.0)[None]
    partials = (0.3 / (1 + torch.arange(60.0))).expand(1, 18, 60)
    wanted = hs.bank(f0, partials, 16_000, 64)[0][0]
    for made, bound in zip(ways, (2e-2, 2e-3, 2e-3, 2e-3), strict=True):  # a plain sum is worse
        assert (torch.tensor(made["sound"]) - wanted).abs().max() < bound
    assert ways[2]["peak"] < 0.6 * ways[1]["peak"]


@pytest.mark.parametrize("fused", [True, False])
def test_webgl_goes_on_from_an_earlier_phase(bare, fused):
    from harmonic_synth import oscillators as hs

    try:
        made = rendered(bare, 0.3, scan="parallel", free=True, fused=fused)["sound"]
    except Exception as error:
        if "no WebGL 2" in str(error):
            pytest.skip(str(error).splitlines()[0])
        raise
    f0 = 300 + 0.1 * torch.arange(18.0)[None]
    partials = (0.3 / (1 + torch.arange(60.0))).expand(1, 18, 60)
    wanted = hs.bank(f0, partials, 16_000, 64, torch.tensor([0.3]).double())[0][0]
    off = (torch.tensor(made) - wanted).abs()
    assert off.max() < 2e-3  # of its first sample, too


def test_a_float16_phase_is_worse_than_a_float32_one(bare):
    wide = rendered(bare, scan="parallel", fused=True)["sound"]
    half = rendered(bare, scan="parallel", fused=True, store="float16")["sound"]
    assert 1e-4 < np.abs(np.subtract(wide, half)).max() < 0.2
