"""What is sent to the page: the same numbers as PyTorch's, whole and small."""

import base64
import hashlib
import json

import cell_detector as cd
import numpy as np
import pytest
import torch
from annotations import Photo
from PIL import Image

import detector_live

from .web import MIME


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """(a network with random weights, the page that it makes)."""
    file = tmp_path_factory.mktemp("page") / "a.jpg"
    noise = np.random.default_rng(0).integers(0, 255, (480, 640, 3), dtype=np.uint8)
    Image.fromarray(noise).save(file)
    photo = Photo(file, (640, 480), [[1, 2, 30, 40]], ["WBC"])
    torch.manual_seed(0)
    net = cd.Detector(width=4).eval()
    return net, detector_live.export(net, [photo], "No script runs here.")


@pytest.mark.parametrize("size", [(144, 192), (64, 48), (192, 144)])
def test_onnx_runtime_gives_pytorch_s_numbers_at_any_size(page, size):
    onnxruntime = pytest.importorskip("onnxruntime")
    net, made = page
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    files = made.files["detector.onnx"]
    run = onnxruntime.InferenceSession(files, options, providers=["CPUExecutionProvider"])
    photo = torch.rand(1, 3, *size)
    with torch.no_grad():
        wanted = net(photo)
    for ours, theirs in zip(run.run(None, {"photo": photo.numpy()}), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-4)


def test_the_pack_lists_what_it_holds_and_can_be_checked(page):
    net, made = page
    meta = json.loads(made.files["meta.json"])
    wide, high = meta["check"]
    pixels = np.frombuffer(made.files["check.u8"], np.uint8).reshape(high, wide, 3)
    with torch.no_grad():
        given = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float() / 255
        wanted = np.concatenate([one.numpy().ravel() for one in net(given)])
    np.testing.assert_array_equal(np.frombuffer(made.files["check.f32"], "<f4"), wanted)
    assert meta["samples"][0]["labels"] == [1] and meta["samples"][0]["file"] in made.files


def test_displayed_it_shows_its_words_and_hands_its_files_to_the_press(page):
    bundle = page[1]._repr_mimebundle_()
    assert "No script runs here." in bundle["text/html"] and bundle["text/plain"]
    for name, one in bundle[MIME]["files"].items():
        content = base64.b64decode(one["base64"])
        assert content == page[1].files[name]
        assert one["sha256"] == hashlib.sha256(content).hexdigest()
