"""A trained operator as it is deployed: the whole of it in ONNX Runtime, called site by site.

PyTorch starts a kernel for each small operation of a small network, and that start is most of
the time. A runtime that sees the whole graph plans memory once and fuses what follows each
other. The graph holds all that lies between a site and its fields: encoding, network, units.
The spectral layers become real matrix products (`spectral_matrices`), unrounded, so that the
answers are PyTorch's but for the order of additions.

Legend: N sites, Z rows, R rings, T report times.
"""

from concurrent.futures import ThreadPoolExecutor

import onnxruntime
import torch
from operator_training import check_cases, pick
from spectral_matrices import as_matrices
from storage_web import to_onnx
from torch import nn

READ = (
    "permeability", "kv_kh", "porosity", "perforation_mask", "rate", "depth", "thickness",
    "swi", "lam", "mask",
)  # fmt: skip
ANSWERS = ("saturation", "pressure")


class Compiled:
    """A `Surrogate` in ONNX Runtime: `Compiled(surrogate, sites).predict(sites)`.

    example: cases as `storage_cases.load` gives them, whose first is traced; the graph is for
    one site of its grid. threads: that work on one site, or on so many sites beside each other;
    by default as many as torch uses.
    """

    def __init__(self, surrogate, example, threads=None):
        self.grid, self.threads = surrogate.grid, threads or torch.get_num_threads()
        first = pick(example, [0])
        whole = _Named(as_matrices(surrogate, (first,))).eval()
        graph = to_onnx(whole, tuple(first[name] for name in READ), READ, ANSWERS)
        self.alone, self.beside = _session(graph, self.threads), _session(graph, 1)

    def predict(self, cases, trained=True):
        """Saturation in [0, 1] and build-up in bar, (N, T, Z, R), zero outside of the rock.

        As `Surrogate.predict`, which also says what is refused.
        """
        check_cases(cases, self.grid, trained)
        fed = {name: cases[name].numpy() for name in READ}
        if len(fed["mask"]) == 1:
            return tuple(torch.from_numpy(field) for field in self.alone.run(ANSWERS, fed))

        def ask(n):
            return self.beside.run(
                ANSWERS, {name: value[n : n + 1] for name, value in fed.items()}
            )

        with ThreadPoolExecutor(self.threads) as pool:
            pairs = list(pool.map(ask, range(len(fed["mask"]))))
        return tuple(
            torch.cat([torch.from_numpy(field) for field in fields])
            for fields in zip(*pairs, strict=True)
        )


class _Named(nn.Module):
    """A surrogate that takes what it reads as tensors in the order of `READ`."""

    def __init__(self, surrogate):
        super().__init__()
        self.surrogate = surrogate

    def forward(self, *values):
        """Saturation and build-up (N, T, Z, R)."""
        cases = dict(zip(READ, values, strict=True))
        saturation, pressure = self.surrogate(cases)
        inside = cases["mask"][:, None].to(saturation.dtype)
        return saturation.clamp(0, 1) * inside, pressure * inside


def _session(graph, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    return onnxruntime.InferenceSession(graph, options)
