"""A network in an ONNX file as a function of arrays, with NumPy and onnxruntime alone."""

import numpy as np
import onnxruntime

KINDS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64}


class OnnxModel:
    """`outputs = OnnxModel(path)({"patches": array})`: {name: array}, rows as they came;
    `inputs` and `outputs` are {name: (dtype, shape of a row)}."""

    def __init__(self, path, threads=1):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        providers = onnxruntime.get_available_providers()
        self.session = onnxruntime.InferenceSession(str(path), options, providers=providers)
        self.inputs, self.outputs = (
            {one.name: (KINDS[one.type], tuple(one.shape[1:])) for one in part}
            for part in (self.session.get_inputs(), self.session.get_outputs())
        )

    def __call__(self, arrays):
        return dict(zip(self.outputs, self.session.run(None, arrays), strict=True))
