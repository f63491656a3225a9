"""The decoder as files for a browser: exported with its state, and two ways to make a model
small told apart.

*Fewer weights*: 4.8 million to 232,314 and below is training anew (`study_tone_transfer`).
*Constants as fills*: a converter that computes at conversion whatever does not depend on the
input stores tensors that hold one number many times; a fill says the number and the shape. It
changes no result and no weight.

Shapes: `T` frames of 64 samples.
"""

import base64
import hashlib
import io
import json
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


def exported(decoder):
    """The bytes of an ONNX file: inputs `x` (1, T, 2) and `s0` …, outputs `raw` (1, T, 126) and
    `s0_next` …, any T.
    """
    state = decoder.start(torch.zeros(1))
    names = [f"s{number}" for number in range(len(state))]
    told = {
        "input_names": ["x", *names],
        "dynamic_axes": {k: {1: "frames"} for k in ("x", "raw")},
    }
    told["output_names"] = ["raw", *(f"{name}_next" for name in names)]
    return _export(decoder.eval(), (torch.zeros(1, 300, 2), state), **told)


class WholeGraph(torch.nn.Module):
    """Decoder and oscillators in one graph of a fixed length, as one converts a whole model:
    the plainly written bank, whose zeros above half of the sample rate become a constant.
    """

    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, x_1T2, f0_1T):
        """Sound (1, T·64)."""
        made = td.controls(self.decoder(x_1T2)[0])
        told = f0_1T, made.amplitude, made.partials, sf.SAMPLE_RATE, sf.HOP
        return hs.synthesise_plain(*told)


def exported_whole(decoder, frames):
    """The bytes of an ONNX file of `WholeGraph`."""
    example = (torch.zeros(1, frames, 2), torch.full((1, frames), 220.0))
    names = {"input_names": ["x", "f0"], "output_names": ["sound"]}
    return _export(WholeGraph(decoder).eval(), example, **names)


def _export(network, example, **told):
    file = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # what leaves lengths free is called legacy
        torch.onnx.export(network, example, file, dynamo=False, opset_version=OPSET, **told)
    return file.getvalue()


def filled(file):
    """(file, bytes saved): every stored tensor that repeats one number becomes a fill
    (`ConstantOfShape`).
    """
    model, fills, stored, before = onnx.load_from_string(file), [], [], len(file)
    constants = [node for node in model.graph.node if node.op_type == "Constant"]
    named = [(node.output[0], node.attribute[0].t) for node in constants]
    for name, one in [*((one.name, one) for one in model.graph.initializer), *named]:
        values = numpy_helper.to_array(one)
        same = values.size > FEW and values.tobytes() == values.flat[:1].tobytes() * values.size
        if not same:
            stored.append(numpy_helper.from_array(values, name))
            continue
        shape = numpy_helper.from_array(np.array(values.shape, np.int64), f"{name}_shape")
        number = numpy_helper.from_array(values.reshape(-1)[:1], "value")
        told = [shape.name], [name]
        fills.append(helper.make_node("ConstantOfShape", *told, value=number))
        stored.append(shape)
    others = [node for node in model.graph.node if node.op_type != "Constant"]
    ends = model.graph.input, model.graph.output
    graph = helper.make_graph([*fills, *others], "tone", *ends, stored)
    about = {"opset_imports": model.opset_import, "ir_version": model.ir_version}
    made = helper.make_model(graph, **about)
    onnx.checker.check_model(made)
    return made.SerializeToString(), before - len(made.SerializeToString())


def run(file, **inputs):
    """The outputs of an ONNX file as a list of arrays, on one thread, nothing optimised:
    `run(file, x=…, f0=…)`.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


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
            told = {"aria_label": title, "style": "width:min(22rem,100%)"}
            audio = show.tag("audio", "", controls="", src=source, **told)
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
        live = {MIME: {"name": self.name, "files": told}}
        return {"text/html": self.html, "text/plain": "a live model"} | live


def live_files(instruments, voice_N, checked="bansuri"):
    """The files of the live page: networks, scripts, the built-in voice in 16 bits, and what
    PyTorch makes of it as `checked`.
    """
    voice = (voice_N.clamp(-1, 1) * 32767).round().to(torch.int16)
    wanted = vt.transfer(voice.float() / 32768, instruments[checked]).numpy().astype(np.float32)
    states = instruments[checked].decoder.start(torch.zeros(1))
    shapes = {f"s{n}": list(one.shape) for n, one in enumerate(states)}
    meta = {"checked": checked, "states": shapes, "instruments": {}}
    files = {"voice.i16": voice.numpy().tobytes(), "wanted.f32": wanted.tobytes()}
    for name, one in instruments.items():
        files[f"{name}.onnx"] = exported(one.decoder)
        place = dict(zip(one._fields[1:], one[1:], strict=True))
        meta["instruments"][name] = {"title": name} | place
    for script in ("tone_dsp.js", "tone_gl.js"):
        files[script] = (HERE / script).read_bytes()
    return files | {"meta.json": json.dumps(meta).encode()}
