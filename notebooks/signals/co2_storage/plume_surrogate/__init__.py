"""Neural operators in a simulator's place: a storage site in, the plume and the pressure out.

inputs          what a network reads of a site
mass            the injected gas is in the answer, and no more
surrogate       a trained network in physical units, its errors, what it refuses
training        the loss; `train_networks` makes the shipped networks and their receipt
shipped         those networks
study_tuning    as many trials for each kind
runtime         a surrogate compiled
bench_accuracy  accuracy against time, simulator and network
"""

from .inputs import encode
from .runtime import Compiled, to_onnx
from .shipped import KINDS, RECEIPT, load_shipped
from .surrogate import Surrogate, case_errors, pick
from .training import train

__all__ = [
    "KINDS", "RECEIPT", "Compiled", "Surrogate", "case_errors", "encode", "load_shipped",
    "pick", "to_onnx", "train",
]  # fmt: skip
