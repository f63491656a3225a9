"""A hash to touch in the page: a text's bucket, and who shares it, by the number of buckets.

`buckets.js` computes `spec.hash32(spec.text_key(text))` in the reader's browser. All that it
needs lies in the cell's output, so it works in the page, from a folder, and in the notebook.
"""

import json
from pathlib import Path

from helpers.show import tag

from . import spec

SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2500)
STYLE = """<style>.bucket-touch{margin:1rem 0;padding:.6rem .9rem;border:1px solid #8888;
border-radius:.6rem}.bucket-touch label{display:block;font-weight:600;font-size:.95rem}
.bucket-touch input{box-sizing:border-box;width:100%;min-height:2.4rem;font:inherit}
.bucket-touch p{margin:.5rem 0;overflow-wrap:anywhere}.bucket-touch canvas{width:100%;
max-width:32rem;display:block}.bucket-touch :focus-visible{outline:3px solid #c60}</style>"""
PARTS = """<div data-part="controls" hidden><label>A place: type any, or choose one
<input data-part="text" list="bucket-texts" autocomplete="off" spellcheck="false"></label>
<label>Buckets: <output data-part="many"></output>
<input data-part="size" type="range" min="0"></label></div>
<p data-part="told" aria-live="polite">With JavaScript you can type a place here, and see who
shares its bucket.</p><p data-part="shared"></p>
<canvas data-part="grid" role="img" width="640" height="200"></canvas>
<p>Grey is an empty bucket, blue has one place, red has several; yours is framed.</p>"""


class Buckets:
    """An output that shows itself: `Buckets({"US>CA>807": 512, "GB": 73}, start="GB")`.

    counts: how often each text occurs. start: the text that stands there first.
    """

    def __init__(self, counts, start):
        self.counts, self.start = counts, start

    def _repr_html_(self):
        facts = {
            "texts": list(self.counts),
            "counts": list(self.counts.values()),
            "sizes": SIZES,
        }
        facts["constants"] = {
            "characters": spec.TEXT_CHARACTERS,
            "base": spec.TEXT_BASE,
            "modulus": spec.TEXT_MODULUS,
            "first": spec.FIRST,
            "second": spec.SECOND,
        }
        parts = PARTS.replace('min="0"', f'min="0" max="{len(SIZES) - 1}" value="5"')
        parts = parts.replace('list="', f'value="{tag("b", self.start)[3:-4]}" list="')
        options = "".join(tag("option", text) for text in self.counts)
        script = Path(__file__).with_name("buckets.js").read_text(encoding="utf-8")
        script = script[script.index("(root, facts) =>") :].replace("\n\n", "\n").strip()
        told = json.dumps(facts, ensure_ascii=False).replace("</", "<\\/")
        return (
            f'{STYLE}<div class="bucket-touch" id="bucket-touch">{parts}'
            f'<datalist id="bucket-texts">{options}</datalist></div>'
            f'<script>({script})(document.getElementById("bucket-touch"), {told});</script>'
        )

    def __repr__(self):
        return f"{len(self.counts)} places and a hash to touch, in the page"
