"""What training asks of the group of processes that it may run in: of torch.distributed, or of
the only process there is.
"""

import torch
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


def chance():
    """The states of torch's generators, from which dropout is drawn."""
    return [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]


def set_chance(states):
    """None; goes back to the states of `chance`."""
    torch.set_rng_state(states[0])
    torch.cuda.set_rng_state_all(states[1:])
