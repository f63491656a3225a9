"""Tests run on one thread: two processes of them share two cores, and small networks gain nothing
from a second."""

import torch

torch.set_num_threads(1)
