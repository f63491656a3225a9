"""Formulas set when the book is built: MathJax runs once, in a Chromium, and pages get what it draws.

What a page then holds needs no script: elements whose letters come from one sheet, `_static/maths.css`, with the few
letters of MathJax's fonts in it, and beside each formula its MathML, for who listens to a page.
"""

import html
import json
import re
from pathlib import Path

from ..chromium import page as page_of
from ..errors import PressError
from ..files import write_text
from .icons import FACE, embedded, letters
from .styles import trimmed, used

FORMULA = re.compile(
    r'(<(span|div) class="math notranslate nohighlight"[^>]*>)\s*(\\[(\[].*?\\[)\]])\s*(</\2>)', re.DOTALL
)
MATHJAX = re.compile(r"\s*<script>window\.MathJax = [^<]*</script>|\s*<script[^>]*tex-mml-chtml\.js[^>]*></script>")
FAMILY = re.compile(r"font-family:\s*[\"']?([\w-]+)")
BENCH = "_maths.html"
SHEET = "_static/maths.css"
SETTINGS = '{"options": {"enableMenu": false}, "loader": {"load": []}, "startup": {"typeset": false}}'
SET = """async () => {
  await document.fonts.load("16px 'Rebuilt Serif'");
  await MathJax.startup.promise;
  await MathJax.typesetPromise();
  const drawn = [];
  for (const one of document.querySelectorAll("[data-formula]")) {
    const made = one.querySelector("mjx-container");
    if (!made || made.querySelector("mjx-merror")) throw new Error(`MathJax refuses ${one.dataset.formula}`);
    made.removeAttribute("tabindex");
    made.removeAttribute("ctxtmenu_counter");
    const heard = made.querySelector("mjx-assistive-mml");
    const block = made.getAttribute("display") === "true";
    if (block) made.setAttribute("tabindex", "0"); // it scrolls where it is too wide, so the keyboard has to reach it
    if (!heard) {
      const mathml = MathJax.startup.document.math.toArray().find((item) => item.typesetRoot === made);
      const text = MathJax.startup.toMML(mathml.root).replace(/\\n\\s*/g, "");
      const about = block ? "block" : "inline";
      made.insertAdjacentHTML("beforeend", `<mjx-assistive-mml display="${about}">${text}</mjx-assistive-mml>`);
      made.querySelector("mjx-math").setAttribute("aria-hidden", "true");
    }
    drawn.push(made.outerHTML);
  }
  const sheets = [...document.querySelectorAll("style")].map((one) => one.textContent);
  return [drawn, sheets.join("\\n")];
}"""
HEARD = """
mjx-container { white-space: nowrap; }
mjx-container[jax="CHTML"][display="true"] { overflow-x: auto; overflow-y: hidden; }
mjx-assistive-mml { position: absolute !important; top: 0; left: 0; clip: rect(1px, 1px, 1px, 1px);
  padding: 1px 0 0 0 !important; border: 0 !important; display: block !important; width: auto !important;
  overflow: hidden !important; user-select: none; }
"""


def formulas(pages: dict[str, str]) -> list[str]:
    """The TeX of every formula, in its delimiters, each once, as the pages hold it (escaped)."""
    return sorted({found[3] for page in pages.values() for found in FORMULA.finditer(page)})


def typeset(pages: dict[str, str], made: Path, address: str, browser: object) -> dict[str, str]:
    """The pages by their names with all formulas drawn, and MathJax taken out; writes the sheet of their letters.

    `browser` reads the folder `made` at `address`, with the book's styles. Raises PressError for TeX that MathJax
    refuses.
    """
    wanted = formulas(pages)
    drawn, sheet = _drawn(wanted, made, address, browser) if wanted else ([], "")
    known = dict(zip(wanted, drawn, strict=True))
    if wanted:
        fonts = made / "_static" / "mathjax" / "output" / "chtml" / "fonts" / "woff-v2"
        own = trimmed(_faces(sheet, "".join(drawn)), used(drawn, []))
        write_text(made / SHEET, embedded(own, fonts, letters(own)) + HEARD)

    def one(page: str) -> str:
        found = FORMULA.sub(lambda match: f"{match[1]}{known[match[3]]}{match[4]}", page)
        return MATHJAX.sub("", found)

    return {name: one(page) for name, page in pages.items()}


def _faces(sheet: str, drawn: str) -> str:
    """The sheet without the fonts that no formula is drawn in; an element's class names its font."""
    wanted = {"MJXZERO", "MJXTEX"} | {f"MJX{name}" for name in re.findall(r"\bTEX-[A-Z0-9]+\b", drawn)}
    return FACE.sub(lambda face: face.group() if FAMILY.search(face.group())[1] in wanted else "", sheet)


def _drawn(wanted: list[str], made: Path, address: str, browser: object) -> tuple[list[str], str]:
    """What MathJax draws for each formula, and its style sheet."""
    rows = "".join(f'<p data-formula="{html.escape(one, quote=True)}">{one}</p>' for one in wanted)
    look = "".join(f'<link rel="stylesheet" href="_static/{one}">' for one in ("fonts/fonts.css", "custom.css"))
    bench = (
        f'<!DOCTYPE html><html data-theme="light"><head><meta charset="utf-8">{look}'
        f"<script>window.MathJax = {json.dumps(json.loads(SETTINGS))}</script>"
        f'<script defer src="_static/mathjax/tex-mml-chtml.js"></script></head>'
        f'<body><article class="bd-article">{rows}</article></body></html>'
    )
    path = write_text(made / BENCH, bench)
    window = browser.new_context(viewport={"width": 1400, "height": 900})
    try:
        tab = page_of(window, address)
        tab.goto(address + BENCH, wait_until="load")
        drawn, sheet = tab.evaluate(SET)
    except Exception as error:  # playwright's own kinds, which the press does not import
        raise PressError(f"the formulas cannot be set: {str(error).splitlines()[0]}") from None
    finally:
        window.close()
        path.unlink()
    return drawn, sheet
