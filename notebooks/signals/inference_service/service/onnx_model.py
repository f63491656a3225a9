"""A network in an ONNX file as a function of arrays, for a server that knows no torch.

Triton's own environment runs this file, too: it needs NumPy and onnxruntime alone.
"""

import numpy as np
import onnxruntime

__all__ = ["OnnxModel"]

KINDS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64}


class OnnxModel:
    """`outputs = OnnxModel(path)({"patches": array})`: {name: array}, rows as they came.

    `inputs` and `outputs` are {name: (dtype, shape of a row)}; the first axis of each is the
    batch.
    """

    def __init__(self, path, threads=1):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        providers = onnxruntime.get_available_providers()
        self.session = onnxruntime.InferenceSession(str(path), options, providers=providers)
        self.inputs = {
            i.name: (KINDS[i.type], tuple(i.shape[1:])) for i in self.session.get_inputs()
        }
        found = self.session.get_outputs()
        self.outputs = {o.name: (KINDS[o.type], tuple(o.shape[1:])) for o in found}

    def __call__(self, arrays):
        return dict(zip(self.outputs, self.session.run(None, arrays), strict=True))
