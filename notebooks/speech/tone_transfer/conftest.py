"""Tests run on one thread: two processes of them share two cores, and a small network gains
nothing from a second one."""

import torch

torch.set_num_threads(1)
