"""A trained operator as it is deployed: its network in ONNX Runtime, called site by site.

PyTorch starts a kernel for each small operation of a small network, and that start is most of
the time. A runtime that sees the whole graph plans memory once and fuses what follows each
other. The spectral layers become real matrix products (`spectral_matrices`), unrounded, so that
the answers are PyTorch's but for the order of additions.

Legend: N sites, Z rows, R rings, T report times.
"""

import io
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime
import torch
from operator_inputs import encode
from operator_training import check_cases, pick, pressure_unit
from spectral_matrices import as_matrices
from storage_web import OPSET


class Compiled:
    """A `Surrogate` in ONNX Runtime: `Compiled(surrogate, sites).predict(sites)`.

    example: cases as `storage_cases.load` gives them, whose first is traced; the graph is for
    one site of its grid. threads: how many sites are worked on at once, each by one thread
    (which is faster than two for one site); by default as many as torch uses. Time must be
    folded (`UFNO.reduced`), else ValueError.
    """

    def __init__(self, surrogate, example, threads=None):
        if surrogate.net.head.times is None:
            raise ValueError(
                "a network with a time axis: only one with folded time is compiled"
            )
        self.grid, self.threads = surrogate.grid, threads or torch.get_num_threads()
        x = encode(pick(example, [0]), self.grid, False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        graph = _graph(as_matrices(surrogate.net, (x,)), x)
        self.session = onnxruntime.InferenceSession(graph, options)

    @torch.inference_mode()
    def predict(self, cases, trained=True):
        """Saturation in [0, 1] and build-up in bar, (N, T, Z, R), zero outside of the rock.

        As `Surrogate.predict`, which also says what is refused.
        """
        check_cases(cases, self.grid, trained)
        inputs = encode(cases, self.grid, False).numpy()
        if len(inputs) == 1:
            found = [self._ask(inputs)]
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                found = list(pool.map(self._ask, inputs[:, None]))
        answer = torch.from_numpy(np.concatenate(found)).movedim(-1, 2)
        inside = cases["mask"][:, None]
        unit = pressure_unit(cases, self.grid).view(-1, 1, 1, 1)
        return answer[:, 0].clamp(0, 1) * inside, answer[:, 1] * unit * inside

    def _ask(self, x_1CZRT):
        return self.session.run(None, {"x": x_1CZRT})[0]


def _graph(net, x):
    """The bytes of the network's ONNX model: `x` to `answer`."""
    target = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells of shapes that are taken for constants
        torch.onnx.export(
            net, (x,), target, dynamo=False, opset_version=OPSET,
            input_names=["x"], output_names=["answer"],
        )  # fmt: skip
    return target.getvalue()
