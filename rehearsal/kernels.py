"""What a card has no kernel for, though the CPU has one: read from torch's own list of operations.

`torchgen` ships `native_functions.yaml`, which says for each operation on which devices it is written. What stands
there for the CPU, neither for CUDA nor as made of other operations, raises on a card, and does so here. So do products
of whole numbers: their kernels on a card know floating-point and complex numbers alone.
"""

from functools import cache
from pathlib import Path

import torch
import torchgen
import yaml

from .flops import BACKWARD, FACTORS, FORWARD

LIST = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
OF_WHOLE_NUMBERS = {"aten::_int_mm"}  # written for them
WORDS = {torch.int64: "Long", torch.int32: "Int", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte"}


@cache
def _written() -> dict[str, frozenset[str]]:
    """The backends that each overload is written for, such as "CPU" and "SparseCsrCUDA"; none: made of others."""
    entries = yaml.load(LIST.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    by_name = {entry["func"].partition("(")[0]: entry for entry in entries}

    def backends(entry):
        own = by_name[entry["structured_delegate"]] if "structured_delegate" in entry else entry
        return frozenset(key.strip() for keys in own.get("dispatch") or () for key in keys.split(","))

    return {name: backends(entry) for name, entry in by_name.items()}


@cache
def only_on_the_cpu(overload: str, kind: str = "") -> bool:
    """Whether an overload has a kernel for the CPU and none for a card; `kind` of tensors: "", Sparse or SparseCsr.

    >>> only_on_the_cpu("histogram.bin_ct"), only_on_the_cpu("histc"), only_on_the_cpu("add.Tensor")
    (True, False, False)
    """
    found = _written().get(overload, frozenset())
    made_of_others = any(key.startswith("Composite") for key in found)
    return f"{kind}CPU" in found and f"{kind}CUDA" not in found and not made_of_others


def of_a_card(operation, name: str, args: tuple, named: dict) -> dict:
    """The named arguments as a card takes them; NotImplementedError or RuntimeError where it refuses the operation."""
    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    layouts = {x.layout for x in tensors} - {torch.strided}
    kind = "" if not layouts else "Sparse" if torch.sparse_coo in layouts else "SparseCsr"
    overload = operation.name().removeprefix("aten::")
    if only_on_the_cpu(overload, kind):
        raise NotImplementedError(
            f"Could not run '{operation.name()}' with arguments from the '{kind}CUDA' backend: torch has a kernel of "
            "it for the CPU and none for a card"
        )
    if name in FACTORS or name in FORWARD or name == BACKWARD:
        whole = next((x.dtype for x in tensors if not (x.is_floating_point() or x.is_complex())), None)
        if whole in WORDS and name not in OF_WHOLE_NUMBERS:
            raise NotImplementedError(f"\"{overload.partition('.')[0]}_cuda\" not implemented for '{WORDS[whole]}'")
    if name == "aten::linalg_lstsq":
        if named.get("driver") not in (None, "gels"):
            raise RuntimeError("torch.linalg.lstsq: parameter `driver` should be one of (gels): a card has no other")
        return named | {"driver": "gels"}  # the CPU would take another, which forgives rows that repeat
    return named
