"""What is sent to the page: the same numbers as PyTorch's, whole and small."""

import base64
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

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


PAGE = """
const given = JSON.parse(require("fs").readFileSync(0));
const { SIDE, STRIDE, floor, overlap, most } = given;
let made = null;
const ask = (message) => { made = message; return given.answer; };
SLICE
const bytes = Float32Array.from(given.photo.data, (value) => value / 255);
const photo = { ...given.photo, data: bytes };
const small = longest(turned(turned(photo, 1), -1), SIDE);
network(small).then((answer) => {
  const found = decodedBoxes({ ...given.answer, shape: given.shape }, small);
  console.log(JSON.stringify({ pixels: [...made.pixels], shape: made.shape, found }));
});
"""


def in_the_page(photo, answer):
    """(what the page's own code hands to the network, the boxes that it makes of an answer)."""
    source = Path(detector_live.__file__).with_name("detector_live.js").read_text("utf-8")
    own = source[source.index("// Photos as") : source.index("// The controls")]
    heat, sides = (one.numpy() for one in answer)
    given = {"SIDE": cd.SIDE, "STRIDE": cd.network.STRIDE, "floor": 0.05, "overlap": 0.5}
    given |= {"most": cd.network.MOST, "shape": heat.shape}
    given["answer"] = {"heat": heat.ravel().tolist(), "sides": sides.ravel().tolist()}
    size = {"width": photo.shape[1], "height": photo.shape[0]}
    given["photo"] = size | {"data": photo.ravel().tolist()}
    command = [shutil.which("node") or pytest.skip("no node"), "-e", PAGE.replace("SLICE", own)]
    made = subprocess.run(
        command, input=json.dumps(given), capture_output=True, text=True, check=True, timeout=60
    )
    told = json.loads(made.stdout)
    return np.array(told["pixels"]).reshape(told["shape"]), told["found"]


@pytest.mark.parametrize("size", [(300, 401), (90, 64), (192, 144)])
def test_an_own_photo_gives_the_module_s_pixels_and_boxes_in_the_page(size):
    torch.manual_seed(1)
    net, draw = cd.Detector(width=4).eval(), np.random.default_rng(0)
    torch.nn.init.normal_(net.heat.weight, std=3.0)
    torch.nn.init.normal_(net.sides.weight, std=0.5)
    torch.nn.init.zeros_(net.heat.bias)
    photo = draw.integers(0, 255, (*size, 3), dtype=np.uint8)
    one = cd.training.sample(photo, [], [])
    padded = cd.training.padded(one.pixels.float() / 255)[None]
    with torch.no_grad():
        answer = net(padded)
    pixels, found = in_the_page(photo, answer)
    assert np.abs(pixels - padded.numpy()).max() < 2.1 / 255, "two roundings to bytes at most"
    (wanted,) = cd.training.detect(net, [one])
    assert len(wanted.boxes) > 20 and (wanted.boxes == 0).any(), "boxes cross the photo's edge"
    boxes = np.array([one["box"] for one in found]) / one.scale
    np.testing.assert_allclose(boxes, wanted.boxes.numpy(), atol=1e-2)
    assert [one["label"] for one in found] == wanted.labels.tolist()
