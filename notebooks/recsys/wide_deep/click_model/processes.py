"""What training asks of the group of processes that it may run in: of torch.distributed, or of
the only process there is.
"""

import torch.distributed as dist


def summed(values):
    """`values`, summed over all processes of the group in place, where there is a group."""
    if dist.is_initialized():
        dist.all_reduce(values)
    return values


def gathered(value):
    """The values of all processes of the group, or the only one's."""
    found = [value]
    if dist.is_initialized():
        found *= dist.get_world_size()
        dist.all_gather_object(found, value)
    return found


def rank():
    """The number of this process in the group; 0 where there is none."""
    return dist.get_rank() if dist.is_initialized() else 0
