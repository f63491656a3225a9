"""Tensors of the device with shapes and no values (`device.by_shapes`): a card's sizes cost the CPU nothing.

Their `inner` is a meta tensor. A few whole numbers (lengths, indices) keep their values, for code asks them back.
"""

import torch

CPU, META = torch.device("cpu"), torch.device("meta")
FEW = 1 << 16
ATEN = torch.ops.aten


def prepared(rule, operation, plain, named, here: bool) -> tuple:
    """(operation, arguments, named arguments) with which the result's shape, or its few values, come out."""
    flat = _tensors((plain, named.values()))
    if here and not flat:
        like = _tensors([operation(*plain, **named)])
        known = all(not is_real(x) and x.numel() <= FEW for x in like)
    else:
        known = not any(x.is_meta or x.numel() > FEW or (here and rule.moves and is_real(x)) for x in flat)
    if known:
        return operation, plain, {name: CPU if value == META else value for name, value in named.items()}
    if rule.name in ("aten::_ctc_loss", "aten::_ctc_loss_backward"):
        operation, plain = _ctc(rule, plain)
    return operation, _without_values(plain), {name: _without_values(value) for name, value in named.items()}


def unknown(inner: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """What the host reads there: NaN; RuntimeError for whole numbers and for bools, where nothing would show."""
    if not is_real(inner):
        raise RuntimeError(f"there are shapes and no values here, and a tensor of {inner.dtype} is read")
    return torch.full(inner.shape, float("nan"), dtype=dtype or inner.dtype)


def is_real(x: torch.Tensor) -> bool:
    """Whether a tensor holds numbers that are not whole."""
    return x.is_floating_point() or x.is_complex()


def _ctc(rule, plain) -> tuple:
    """The loss with its lengths as lists, for the other overload knows no shapes; its gradient is like its input."""
    if rule.name == "aten::_ctc_loss_backward":
        return (lambda log_probs, **_: torch.empty_like(log_probs)), (plain[1],)
    lengths = (x.tolist() if isinstance(x, torch.Tensor) else x for x in plain[2:4])
    return ATEN._ctc_loss.default, (*plain[:2], *lengths, *plain[4:])


def _tensors(values) -> list[torch.Tensor]:
    return [x for x in torch.utils._pytree.tree_leaves([*map(_plain, values)]) if isinstance(x, torch.Tensor)]


def _plain(value):
    return list(value) if type(value).__name__ == "dict_values" else value


def _without_values(value):
    """The argument by its shape alone; a number in a tensor of the host stays. RuntimeError for a sparse one."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided and not value.is_meta:
            raise RuntimeError("a sparse tensor's shape does not say how much it stores")
        return value.to(META) if value.dim() and not value.is_meta else value
    return type(value)(map(_without_values, value)) if isinstance(value, list | tuple) else value
