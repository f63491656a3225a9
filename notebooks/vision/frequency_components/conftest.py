"""One thread: tensors this small gain nothing from a second, which would wait and spin."""

import torch

torch.set_num_threads(1)
