"""The decoder as files for a browser: exported with its state, and two ways to make a model
small told apart.

*Fewer weights*: 4.8 million to 232,314 and below is training anew (`study_tone_transfer`).
*Constants as fills*: a converter that computes at conversion whatever does not depend on the
input stores tensors that hold one number many times; a fill says the number and the shape. It
changes no result and no weight.

Shapes: `T` frames, `K` partials, `h` = 64 samples a frame.
"""

import base64
import hashlib
import io
import json
import math
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import soundfile
import torch
from harmonic_synth import oscillators as hs
from helpers import show
from onnx import helper, numpy_helper
from sound_features import analysis as sf
from tone_decoder import networks as td
from voice_transfer import transfer as vt

MIME = "application/vnd.rebuilt.live+json"
OPSET = 17
FEW = 16  # constants of fewer numbers stay: a fill is not smaller
HERE = Path(__file__).parent


class Stepped(torch.nn.Module):
    """A decoder whose state goes in and comes out as plain tensors, so that chunks join in any
    runtime.
    """

    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, x_BT2, *state):
        """(plain output, then the next state)."""
        recurrent = isinstance(self.decoder, td.RecurrentDecoder)
        plain, after = self.decoder(x_BT2, state[0] if recurrent else list(state))
        return (plain, after) if recurrent else (plain, *after)


def start_state(decoder):
    """The state before the first frame, a list of tensors of zeros."""
    if isinstance(decoder, td.RecurrentDecoder):
        return [torch.zeros(1, 1, decoder.width)]
    return decoder.start(torch.zeros(1))


def exported(decoder):
    """The bytes of an ONNX file: inputs `x` (1, T, 2) and `s0` …, outputs `raw` (1, T, 126) and
    `s0_next` …, any T.
    """
    state = start_state(decoder)
    names = [f"s{number}" for number in range(len(state))]
    told = {
        "input_names": ["x", *names],
        "dynamic_axes": {k: {1: "frames"} for k in ("x", "raw")},
    }
    told["output_names"] = ["raw", *(f"{name}_next" for name in names)]
    return _export(Stepped(decoder).eval(), (torch.zeros(1, 300, 2), *state), **told)


class WholeGraph(torch.nn.Module):
    """Decoder and oscillators in one graph of a fixed length, as one converts a whole model:
    `T` frames in, a sound out.

    It is written the way of the paper's library: everything above Nyquist is replaced by a
    tensor of zeros, at the sample rate.
    """

    def __init__(self, decoder, frames):
        super().__init__()
        self.decoder, self.frames = decoder, frames

    def forward(self, x_1T2, f0_1T):
        """Sound (1, (T−1)·64)."""
        plain, _ = self.decoder(x_1T2)
        made = td.controls(plain)
        segments, hop, count = self.frames - 1, sf.HOP, td.PARTIALS
        numbers_K1 = torch.arange(1, count + 1, dtype=torch.float32)[:, None]
        j_h = torch.arange(hop, dtype=torch.float32)
        f0_Th = f0_1T[0, :-1, None] + (f0_1T[0, 1:] - f0_1T[0, :-1])[:, None] * j_h / hop
        cycles_Th = torch.cumsum(f0_Th.reshape(-1) / sf.SAMPLE_RATE, 0).reshape(segments, hop)
        kept_TK = made.partials[0] * (f0_1T[0, :, None] * numbers_K1[:, 0] < sf.SAMPLE_RATE / 2)
        tones_TK = made.amplitude[0, :, None] * kept_TK / kept_TK.sum(-1, keepdim=True)
        fade_h = hs.fade(hop, x_1T2)
        envelope = tones_TK[:-1, :, None] * fade_h + tones_TK[1:, :, None] * (1 - fade_h)
        silence = torch.zeros(segments, count, hop)
        below = f0_Th[:, None] * numbers_K1 < sf.SAMPLE_RATE / 2
        whole = (cycles_Th - torch.floor(cycles_Th))[:, None]
        sines = torch.sin(2 * math.pi * whole * numbers_K1)
        return (torch.where(below, envelope, silence) * sines).sum(1).reshape(1, -1)


def exported_whole(decoder, frames):
    """The bytes of an ONNX file of `WholeGraph`."""
    example = (torch.zeros(1, frames, 2), torch.full((1, frames), 220.0))
    names = {"input_names": ["x", "f0"], "output_names": ["sound"]}
    return _export(WholeGraph(decoder, frames).eval(), example, **names)


def _export(network, example, **told):
    file = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter(
            "ignore"
        )  # the exporter that leaves lengths free is called legacy
        torch.onnx.export(network, example, file, dynamo=False, opset_version=OPSET, **told)
    return file.getvalue()


def filled(file):
    """(file, bytes saved): every stored tensor that repeats one number becomes a fill
    (`ConstantOfShape`).
    """
    model, fills, stored, before = onnx.load_from_string(file), [], [], len(file)
    constants = [node for node in model.graph.node if node.op_type == "Constant"]
    named = [(node.output[0], node.attribute[0].t) for node in constants]
    for one in [*model.graph.initializer, *(_renamed(tensor, name) for name, tensor in named)]:
        values = numpy_helper.to_array(one)
        same = values.size > FEW and values.tobytes() == values.flat[:1].tobytes() * values.size
        if not same:
            stored.append(one)
            continue
        shape = numpy_helper.from_array(np.array(values.shape, np.int64), f"{one.name}_shape")
        number = numpy_helper.from_array(values.reshape(-1)[:1], "value")
        told = [shape.name], [one.name]
        fills.append(helper.make_node("ConstantOfShape", *told, value=number))
        stored.append(shape)
    others = [node for node in model.graph.node if node.op_type != "Constant"]
    ends = model.graph.input, model.graph.output
    graph = helper.make_graph([*fills, *others], "tone", *ends, stored)
    made = helper.make_model(
        graph, opset_imports=model.opset_import, ir_version=model.ir_version
    )
    onnx.checker.check_model(made)
    return made.SerializeToString(), before - len(made.SerializeToString())


def _renamed(tensor, name):
    made = onnx.TensorProto()
    made.CopyFrom(tensor)
    made.name = name
    return made


def run(file, **inputs):
    """The outputs of an ONNX file as a list of arrays, on one thread, nothing optimised:
    `run(file, x=…, f0=…)`.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def half_bytes(decoder):
    """Bytes of a decoder's weights in float16."""
    return 2 * td.count(decoder)


class Players:
    """Labelled players of sounds, each brought to the same level: `Players({"A voice":
    sound_N})` at a cell's end.
    """

    def __init__(self, sounds):
        self.sounds = sounds

    def _repr_html_(self):
        rows = []
        for title, sound in self.sounds.items():
            values, file = np.asarray(sound, np.float32), io.BytesIO()
            level = 0.7 / max(float(np.abs(values).max()), 1e-3)
            soundfile.write(file, level * values, sf.SAMPLE_RATE, "PCM_16", format="WAV")
            source = f"data:audio/wav;base64,{base64.b64encode(file.getvalue()).decode()}"
            wide = {"style": "width:min(22rem,100%)"}
            audio = show.tag("audio", "", controls="", src=source, aria_label=title, **wide)
            label = show.tag("span", f"{title} ({len(values) / sf.SAMPLE_RATE:.0f} s)")
            rows.append(show.tag("p", show.Markup(label + "<br>" + audio)))
        return "\n".join(rows)

    def _repr_markdown_(self):
        return "; ".join(self.sounds)

    __repr__ = _repr_markdown_


class LivePage:
    """The live model of a page: displayed, it shows `html` and hands its files, bytes by name,
    to the press.
    """

    def __init__(self, files, html, name="tone"):
        self.files, self.html, self.name = files, html, name

    def _repr_mimebundle_(self, include=None, exclude=None):
        told = {}
        for name, content in self.files.items():
            text = base64.b64encode(content).decode()
            told[name] = {"sha256": hashlib.sha256(content).hexdigest(), "base64": text}
        return {
            "text/html": self.html,
            "text/plain": "a live model",
            MIME: {"name": self.name, "files": told},
        }


def live_files(instruments, voice_N, checked="bansuri"):
    """The files of the live page: networks, scripts, the built-in voice in 16 bits, and what
    PyTorch makes of it as `checked`.
    """
    voice = (voice_N.clamp(-1, 1) * 32767).round().to(torch.int16)
    wanted = vt.transfer(voice.float() / 32768, instruments[checked]).numpy().astype(np.float32)
    states = start_state(instruments[checked].decoder)
    shapes = {f"s{n}": list(one.shape) for n, one in enumerate(states)}
    meta = {"checked": checked, "states": shapes, "instruments": {}}
    files = {"voice.i16": voice.numpy().tobytes(), "wanted.f32": wanted.tobytes()}
    for name, one in instruments.items():
        files[f"{name}.onnx"] = exported(one.decoder)
        meta["instruments"][name] = {"title": name} | dict(
            zip(one._fields[1:], one[1:], strict=True)
        )
    for script in ("tone_dsp.js", "tone_gl.js"):
        files[script] = (HERE / script).read_bytes()
    return files | {"meta.json": json.dumps(meta).encode()}
