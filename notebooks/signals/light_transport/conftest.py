"""One thread: a batch is many small steps, and two would wait for each other after each."""

import torch

torch.set_num_threads(1)
