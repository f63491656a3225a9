"""What pages weigh, cut after Sphinx has written them: `styles` makes one sheet of the rules that pages use,
`scripts` one script, `icons` a font of the few icons, `images` files of pictures and sounds, `maths` finished formulas.

`slim` does all of it in a folder of built pages. What stays beside them is asked for by a page or by the slides.
"""

from .slim import slim

__all__ = ["slim"]
