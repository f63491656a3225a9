"""A card's rules for one operation, read once from its schema: what it writes, whether it waits, what it refuses."""

from dataclasses import dataclass
from functools import cache

import torch

# The host has to know the result, or its size, before it can go on.
WAITS = {
    "aten::_local_scalar_dense": "a value is read (item, float, bool, print)",
    "aten::nonzero": "nonzero: how many is known on the device alone",
    "aten::masked_select": "masked_select: how many is known on the device alone",
    "aten::_unique2": "unique: how many is known on the device alone",
    "aten::unique_dim": "unique: how many is known on the device alone",
    "aten::unique_consecutive": "unique: how many is known on the device alone",
    "aten::repeat_interleave": "repeat_interleave: how long is known on the device alone",
    "aten::equal": "equal answers with a bool of Python",
    "aten::bincount": "bincount: how many bins is known on the device alone",
    "aten::_linalg_check_errors": "linear algebra looks whether it failed",
    "aten::_coalesce": "coalesce: how many is known on the device alone",
}
MOVES = {"aten::copy_", "aten::_to_copy", "aten::_copy_from", "aten::_copy_from_and_resize"}
INDEXED = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index"}
HOST_OPERANDS = {  # positions of tensors that a card, too, takes from the host
    "aten::_pack_padded_sequence": {1},
    "aten::_pad_packed_sequence": {1},
    "aten::_pack_padded_sequence_backward": {2},
    "aten::ctc_loss": {2, 3},
    "aten::_ctc_loss": {2, 3},
}
ONLY_WRITES = {"aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_", "aten::random_", "aten::bernoulli_"}
ONLY_WRITES |= {"aten::exponential_", "aten::arange", "aten::randperm", "aten::eye", "aten::zeros_like"}
ONLY_WRITES |= {"aten::ones_like", "aten::full_like", "aten::rand_like", "aten::randn_like"}
GATHERS = {"aten::index", "aten::_unsafe_index", "aten::gather", "aten::index_select", "aten::embedding", "aten::take"}
SCATTERS = {"aten::index_put_", "aten::_index_put_impl_", "aten::index_add_", "aten::scatter_add_", "aten::scatter_"}
SCATTERS |= {"aten::index_copy_", "aten::index_fill_", "aten::scatter_reduce_"}


FREE = {"aten::_unsafe_view", "aten::_reshape_alias", "aten::lift_fresh", "aten::alias"}  # aliases all the same


@dataclass(frozen=True)
class Rule:
    """What one overload of an operation does, by its schema."""

    name: str
    written: tuple[tuple[int, str], ...]  # arguments that it changes: position and name
    is_view: bool  # it returns an alias and launches nothing
    allocates: bool  # it takes memory and launches nothing
    draws: bool  # it takes a generator
    waits: str  # why the host waits; empty if it does not
    composite: bool  # it is made of others, which are what a card runs; in inference mode it comes here itself

    @property
    def moves(self) -> bool:
        """Whether it may take tensors of both devices."""
        return self.name in MOVES


@cache
def rule_of(operation) -> Rule:
    """The Rule of an overload such as `torch.ops.aten.add.Tensor`."""
    schema = operation._schema
    arguments = schema.arguments
    written = [(i, a.name) for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write]
    aliases = [r.alias_info is not None and not r.alias_info.is_write for r in schema.returns]
    allocates = schema.name.startswith(("aten::empty", "aten::new_empty", "aten::resize_", "aten::set_"))
    draws = any(argument.name == "generator" for argument in arguments)
    view, why = any(aliases) or schema.name in FREE, WAITS.get(schema.name, "")
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(operation.name(), "CompositeImplicitAutograd")
    return Rule(schema.name, tuple(written), view, allocates, draws, why, composite)
