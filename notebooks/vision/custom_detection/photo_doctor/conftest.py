"""As in `cell_detector`: one thread a test process; and a few drawn photos."""

import numpy as np
import pytest
from annotations import Photo
from cell_detector.conftest import one_thread
from PIL import Image, ImageDraw

__all__ = ["one_thread"]


def scene(folder, name, seed, count=9):
    """An annotated photo of discs on noise."""
    draw = np.random.default_rng(seed)
    noise = np.clip(draw.normal(200, 18, (240, 320, 3)), 0, 255).astype(np.uint8)
    picture, boxes, labels = Image.fromarray(noise), [], []
    pen = ImageDraw.Draw(picture)
    for at in range(count):
        radius, label = ((18, "RBC"), (30, "WBC"))[at % 2]
        x, y = (
            (at % 3 + 0.5) * 106 + draw.uniform(-15, 15),
            (at // 3 + 0.5) * 80 + draw.uniform(-8, 8),
        )
        box = [x - radius, y - radius, x + radius, y + radius]
        pen.ellipse(box, fill=(150, 60, 90), outline="black")
        boxes.append(np.clip(box, 0, [320, 240, 320, 240]))
        labels.append(label)
    file = folder / f"{name}{seed}.png"
    picture.save(file)
    return Photo(file, (320, 240), boxes, labels)


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """Twelve photos, and twelve others for reference."""
    folder = tmp_path_factory.mktemp("photos")
    return tuple(
        [scene(folder, name, 100 * at + one) for one in range(12)]
        for at, name in enumerate("ab")
    )
