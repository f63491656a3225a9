"""MPLS: labels, stacks of them, longest prefixes, a router's data plane; routing protocols."""

from .control import BatchPlane, Control, DistanceVector, LinkState, converge, exchange_labels
from .forwarding import Hop, Out, Router, label_table, swap_batch
from .labels import Entry, pack_label, read_stack, unpack_label, write_stack
from .routes import MISS, RouteTable, longest_prefix_reference

__all__ = [
    "MISS", "BatchPlane", "Control", "DistanceVector", "Entry", "Hop", "LinkState", "Out",
    "RouteTable", "Router", "converge", "exchange_labels", "label_table",
    "longest_prefix_reference", "pack_label", "read_stack", "swap_batch", "unpack_label",
    "write_stack",
]  # fmt: skip
