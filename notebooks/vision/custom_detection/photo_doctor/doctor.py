"""The doctor: what is wrong with a set of own photos, beside the photos that worked before.

`examine` compares files and boxes with a reference set; given an opinion, what a network that
learned from the reference finds in the photos, it compares labels, too. `heal` mends what is
found and looks again, since one fault can hide another.

Each limit is the geometric middle between what clean sets of six photos show at most and what
the planted fault shows at least, both on 96 photos of `bccd`'s training and validation splits;
none was chosen by its test. `SHARE` and `AGREE` are by convention.
"""

from collections import namedtuple
from fractions import Fraction

import numpy as np
from annotations.records import FLAWS

from . import looks, opinion

# fault: its name in `faults`; share: of the photos or of what was before; words: what was seen;
# mend: what to do; value: by how much
Finding = namedtuple("Finding", "fault share words mend value", defaults=(None,))

SAYS = {
    "rotated": "{share:.0%} of the photos bear an EXIF tag that turns them",
    "profiled": "{share:.0%} more than before have a colour profile other than sRGB's",
    "squeezed": "JPEG quality {share:.0%} of before",
    "blurred": "neighbouring pixels differ {share:.0%} as much as before",
    "larger": "{share:.1f} times the pixels of before: read and thrown away",
    "duplicated": "{share:.0%} of the photos look like one on the other side of the split",
    "rescaled": "boxes reach {share:.0%} as far across the photos as before",
    "small": "once resized, objects measure {share:.0%} of what the network knows",
    "shifted": "{agree:.0%} of the labels are off by ({value[0]:+.0f}, {value[1]:+.0f}) pixels",
    "relabelled": "{names}",
}
MENDS = {
    "rotated": "turn the pixels as the tag says, when loading",
    "profiled": "convert the colours, when loading",
    "squeezed": "export anew; or learn from compressed copies, too",
    "blurred": "take them anew; or learn from blurred copies, too",
    "larger": "save smaller copies, boxes with them",
    "duplicated": "take them out of one side",
    "rescaled": "scale the boxes to the photos' pixels",
    "small": "cut the photos into tiles at the known size",
    "shifted": "move the boxes back",
    "relabelled": "correct the list of names",
}
SHARE = 0.1  # of the photos, from which on a fault is told
ALIKE = (
    0.94  # of thumbnails: 0.60 of other scenes, 0.992 of copies; the middle of what lacks to 1
)
QUALITY = 0.4  # of the reference's JPEG quality: 1.0, and 0.16 squeezed
SHARP = 0.59  # of the reference's sharpness: 0.91, and 0.38 blurred
MORE = 2.0  # times the reference's pixels: 1, and 4
REACH = (0.87, 1.18)  # of the reference's: 1.00, and 3/4 and 4/3 rescaled; 1.05 shifted
SIZES = (0.56, 1.8)  # of the reference's objects, as the network sees them: 0.93, and 0.34


def finding(fault: str, share, value=None, **more) -> Finding:
    """A `Finding` with its words."""
    words = SAYS[fault].format(share=share, value=value, **more)
    return Finding(fault, float(share), words, MENDS[fault], value)


def examine(photos, reference, told=None, against=(), mended=()) -> list[Finding]:
    """The `Finding`s of annotated photos beside a reference set, the surest first; an empty
    list where all is well.

    told: the opinion, one answer for each photo (`cell_detector.answers`), or None. against:
    photos that this set will be judged on, or whose judge it is: the other side of the split.
    mended: faults that the loading takes care of by now.
    """
    if not photos or not reference:
        raise ValueError(
            f"{len(photos)} photos and {len(reference)} to compare: at least one each is needed"
        )
    try:
        seen, known = ([looks.look(one.file) for one in side] for side in (photos, reference))
    except FLAWS as error:
        raise ValueError(f"{error}: ask `annotations.problems` before the doctor") from None
    found = [*_files(seen, known), *_boxes(photos, seen, reference)]
    if twice := sorted({at for at, *_ in looks.twins(photos, list(against), ALIKE)}):
        found.append(finding("duplicated", len(twice) / len(photos), tuple(twice)))
    found = [one for one in found if one.fault not in mended]
    if told is not None and not {one.fault for one in found} & {"rotated", "rescaled", "small"}:
        found += opinion.compare(photos, told, finding)  # in another frame all labels disagree
    return found


def _files(seen, known):
    """What the files alone tell."""

    def change(name, of=np.median):
        own, before = (of([getattr(one, name) for one in side]) for side in (seen, known))
        return own - before if of is np.mean else own / before

    if (share := np.mean([one.tag not in (0, 1) for one in seen])) >= SHARE:
        yield finding("rotated", share)
    if (share := change("wide", np.mean)) >= SHARE:
        yield finding("profiled", share)
    if (share := change("quality")) < QUALITY:
        yield finding("squeezed", share)
    if (share := change("sharpness")) < SHARP:
        yield finding("blurred", share)
    if (share := change("pixels")) > MORE:
        yield finding("larger", share)


def _boxes(photos, seen, reference):
    """What boxes tell beside the photos' sizes and the reference's boxes."""
    own = opinion.reach(photos, any(one.tag not in (0, 1) for one in seen))
    before = opinion.reach(reference, False)
    if own and before and not REACH[0] < (ratio := own / before) < REACH[1]:
        yield finding("rescaled", ratio, simple(1 / ratio))
    elif ratios := opinion.sizes(photos, reference):
        ratio = float(np.exp(np.mean(np.log(ratios))))
        if not SIZES[0] < ratio < SIZES[1]:
            yield finding("small", ratio, 1 / ratio)


def simple(factor: float) -> float:
    """A factor, or the fraction of small numbers within 3 % of it: copies are made half or a
    third as large.
    """
    near = float(Fraction(factor).limit_denominator(4))
    return near if abs(near / factor - 1) < 0.03 else float(factor)


def heal(photos, loading, reference, ask=None, against=(), rounds: int = 3):
    """(photos, loading, findings, what a training should add): everything found is mended, then
    looked at again.

    loading: a `cell_detector.Loading`. ask: from photos and a loading to an opinion, or None.
    What no change of labels or of loading mends (blur, compression) comes as a set of names for
    `cell_detector.Settings`.
    """
    done, extra = [], set()
    for _ in range(rounds):
        told = ask(photos, loading) if ask else None
        fresh = examine(photos, reference, told, against, {one.fault for one in done})
        fresh = [one for one in fresh if one.fault not in {before.fault for before in done}]
        if not fresh:
            break
        for one in fresh:
            photos, loading = mend(photos, loading, one)
        extra |= {one.fault for one in fresh} & {"blurred", "squeezed"}
        done += fresh
        if not photos:  # all were twins of the other side
            break
    return photos, loading, done, extra


def mend(photos, loading, finding: Finding):
    """(photos, loading) with one finding mended, where labels or loading can mend it."""
    fault, value = finding.fault, finding.value
    if fault == "rotated":
        loading = loading.but(upright=True)
    elif fault == "profiled":
        loading = loading.but(srgb=True)
    elif fault == "small":
        loading = loading.but(enlarge=loading.enlarge * value)
    elif fault == "rescaled":
        photos = [one.moved(value) for one in photos]
    elif fault == "shifted":
        photos = [one.moved(by=-np.array(value)) for one in photos]
    elif fault == "relabelled":
        photos = [
            one.but(labels=[value.get(label, label) for label in one.labels]) for one in photos
        ]
    elif fault == "duplicated":
        photos = [one for at, one in enumerate(photos) if at not in set(value)]
    return photos, loading
