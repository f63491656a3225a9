"""MPLS: labels, stacks of them, longest prefixes, and a router's data plane."""

from .forwarding import Hop, Out, Router, label_table, swap_batch
from .labels import Entry, pack_label, read_stack, unpack_label, write_stack
from .routes import MISS, RouteTable, longest_prefix_reference

__all__ = [
    "MISS", "Entry", "Hop", "Out", "RouteTable", "Router", "label_table",
    "longest_prefix_reference", "pack_label", "read_stack", "swap_batch", "unpack_label",
    "write_stack",
]  # fmt: skip
