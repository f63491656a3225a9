"""One operation on the pretended device: refused or computed on the CPU, counted, its results put on the device."""

import zlib

import torch

from . import shapes, traffic
from .counts import UPLOAD, ledger
from .flops import countable, flops
from .kernels import of_a_card
from .rules import HOST_OPERANDS, INDEXED, Rule, rule_of
from .streams import in_flight, now
from .tensor import NAME, Pretended, only_one

CPU = torch.device("cpu")
HERE = ("cuda", NAME)
WORTH_TELLING = 256  # bytes: smaller copies are scalars and lengths
SAMPLED = 1 << 22  # bytes of a copy that are looked at to know it again
_sent: dict[tuple, str] = {}  # fingerprint of bytes that are on both sides -> which way they went


def run(operation, *args, **kwargs):
    """The operation's result, as a card would give it."""
    if operation is torch.ops.prim.layout.default:  # C++ asks a compressed sparse tensor
        return args[0].inner.layout
    rule = rule_of(operation)
    if rule.name == "aten::_fused_sdp_choice":
        return 0  # the plain formula: fused attention exists for real devices alone
    if rule.composite:
        return operation.decompose(*args, **kwargs)
    if rule.name == "aten::_copy_from":
        return _copy(args[1], args[0], args[2] if len(args) > 2 else False)
    flat = _flat((args, kwargs.values()), [])
    own = [x for x in flat if type(x) is Pretended or isinstance(x, Pretended)]
    target = kwargs.get("device")
    here = bool(own) if target is None else _is_here(torch.device(target))
    if own and not rule.moves:
        _same_device(rule, args, flat)
    generator = kwargs.get("generator")
    if here and generator is not None and generator._cdata not in now.generators:
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
    if rule.name == "aten::copy_":
        return _copy(args[0], args[1], args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
    return _executed(rule, operation, args, kwargs, own, here)


def _executed(rule: Rule, operation, args, kwargs, own: list[Pretended], here: bool):
    """The result of an operation that may run: computed on the CPU, counted, put on the device if it belongs `here`."""
    computed, plain, named = operation, _inner(args), {name: _inner(value) for name, value in kwargs.items()}
    if here:
        named = of_a_card(operation, rule.name, plain, named)
        countable(rule.name, plain)
    if not (rule.is_view or rule.allocates):
        _read(own)
    if now.shapes:
        if own and own[0].inner.is_meta and (not here or rule.name == "aten::_local_scalar_dense"):
            return _unknown(rule, plain, named, own)
        computed, plain, named = shapes.prepared(rule, operation, plain, named, here)
    if here and rule.draws and named.get("generator") is None:
        named["generator"] = now.generator
    if "pin_memory" in named:
        named["pin_memory"] = False
    out = computed(*plain, **named)
    if rule.name == "aten::_to_copy" and own and not here:
        return _down(own[0].inner, out, kwargs.get("non_blocking", False))
    up = rule.name == "aten::_to_copy" and not own
    if here and not up:
        _count(rule, plain, own, out)
    found = _results(rule, args, kwargs, out, here)
    if up:  # after its result is there: a copy that blocks is over when the host goes on
        _up(plain[0], kwargs.get("non_blocking", False))
    return found


def _read(tensors: list[Pretended]) -> None:
    """The current stream reads these now."""
    for x in tensors:
        for part in x.held:
            in_flight.uses(part.key, now.stream)


def _is_here(target: torch.device) -> bool:
    """Whether a device that is asked for is the pretended one; RuntimeError for a second card."""
    if target.type in HERE:
        only_one(target)
    return target.type in HERE


def _flat(values, found: list) -> list:
    """The tensors among arguments, lists in them opened."""
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, list | tuple) or type(value).__name__ == "dict_values":
            _flat(value, found)
    return found


def _inner(value):
    """The argument as the CPU takes it."""
    if isinstance(value, Pretended):
        return value.inner
    if isinstance(value, list | tuple):
        return type(value)(map(_inner, value))
    return (shapes.META if now.shapes else CPU) if isinstance(value, torch.device) and value.type in HERE else value


def _unknown(rule: Rule, plain, named, own):
    """What the host gets from a tensor that has a shape and no values."""
    found = shapes.unknown(own[0].inner, named.get("dtype"))
    if rule.name == "aten::_local_scalar_dense":
        _count(rule, plain, own, None)
        return float("nan")
    return _down(own[0].inner, found, named.get("non_blocking", False))


def _same_device(rule: Rule, args: tuple, flat: list) -> None:
    """Raise as a card does where tensors of the host meet tensors of the device."""
    strange = [x for x in flat if not isinstance(x, Pretended) and x.device.type == "cpu" and x.dim()]
    if not strange:
        return
    if rule.name in INDEXED and isinstance(args[0], Pretended):
        values = args[2] if len(args) > 2 else None
        indices = [x for x in strange if x is not values]
        if indices:
            ledger.wait("an index of the host goes to the device first")
        strange = [x for x in strange if x is values]
    else:
        allowed = [args[i] for i in HOST_OPERANDS.get(rule.name, ()) if i < len(args)]
        strange = [x for x in strange if not any(x is one for one in allowed)]
    if strange:
        what = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
        raise RuntimeError(f"{what} (operation {rule.name.removeprefix('aten::')})")


def _count(rule: Rule, plain, own, out) -> None:
    """Keep what the operation moved and computed, and whether the host waited."""
    if rule.waits:
        ledger.wait(rule.waits)
        in_flight.finish(now.stream)
    elif rule.name in INDEXED and any(x.dtype in (torch.bool, torch.uint8) for x in _flat(plain[1:2], [])):
        ledger.wait("a mask as an index: how many is known on the device alone")
        in_flight.finish(now.stream)
    if rule.is_view or rule.allocates:
        return
    results = _flat([out], [])
    operands = [x.inner for x in own]
    if rule.name == "aten::_local_scalar_dense":
        ledger.counts.links["down", plain[0].element_size(), False] += 1
        return
    size = traffic.bytes_moved(rule.name, operands, results)
    kind = str((results or operands)[0].dtype).removeprefix("torch.") if results or operands else ""
    kind = "tf32" if kind == "float32" and traffic.in_tf32(rule.name) else kind
    ledger.counts.work[rule.name.removeprefix("aten::"), kind, size, flops(rule.name, plain, out)] += 1


def _results(rule: Rule, args, kwargs, out, here: bool):
    """The results on the device; what was written in place is the argument itself, its shape brought up to date."""
    changed = {}
    for position, name in rule.written:
        value = args[position] if position < len(args) else kwargs.get(name)
        for x in _flat([value], []):
            if isinstance(x, Pretended):
                _refresh(x)
                changed[id(x.inner)] = x
    if not here:
        return out
    if rule.name == "aten::_pack_padded_sequence":
        return _placed(out[0], changed, rule), out[1]  # batch sizes stay with the host
    return _placed(out, changed, rule)


def _placed(x, changed: dict, rule: Rule):
    """A result with its tensors on the device."""
    if isinstance(x, torch.Tensor):
        return changed[id(x)] if id(x) in changed else _written(Pretended(x), rule)
    return type(x)(_placed(one, changed, rule) for one in x) if isinstance(x, list | tuple) else x


def _written(x: Pretended, rule: Rule | None = None) -> Pretended:
    if not (rule and rule.is_view):
        for part in x.held:
            in_flight.wrote(part.key, now.stream)
    return x


def _refresh(x: Pretended) -> None:
    inner = x.inner
    if inner.layout is not torch.strided:
        x.held = Pretended(inner).held  # it may have got other parts
    elif (x.shape, x.stride(), x.storage_offset()) != (inner.shape, inner.stride(), inner.storage_offset()):
        x.take(Pretended(inner))
    _written(x)


def _copy(target, source, non_blocking: bool):
    """`target`, the values of `source` in it, whichever device either lies on."""
    _read([x for x in (target, source) if isinstance(x, Pretended)])
    if isinstance(target, Pretended) and isinstance(source, Pretended):
        target.inner.copy_(source.inner)
        size = traffic.size_of(source.inner) + traffic.size_of(target.inner)
        ledger.counts.work["copy_", str(target.dtype).removeprefix("torch."), size, 0] += 1
        return _written(target)
    if isinstance(target, Pretended):
        target.inner.copy_(source)
        _written(target)
        _up(source, non_blocking)
        return target
    target.copy_(shapes.unknown(target) if source.inner.is_meta else source.inner)
    _down(source.inner, target, non_blocking and is_pinned(target))
    return target


def _up(source: torch.Tensor, non_blocking: bool) -> None:
    """Count a copy to the device; one that does not block needs pinned memory, which may not change meanwhile."""
    fixed = is_pinned(source)
    _linked("up", source, fixed)
    if non_blocking and fixed:
        in_flight.up(source, now.stream)
    else:
        ledger.wait(UPLOAD + (", from memory that is not pinned" if not fixed else ""))
        in_flight.finish(now.stream)


def _down(source: torch.Tensor, target: torch.Tensor, non_blocking: bool) -> torch.Tensor:
    """`target`, counted; where the copy does not block, with poison in it until somebody waits."""
    _linked("down", source, non_blocking)
    if non_blocking:
        in_flight.down(target, now.stream)
    else:
        ledger.wait("a copy to the host")
        in_flight.finish(now.stream)
    return target


def _linked(way: str, values: torch.Tensor, fixed: bool) -> None:
    """Count a copy over the link, and note it where the same bytes have gone over it before."""
    size = traffic.size_of(values)
    ledger.counts.links[way, size, fixed] += 1
    if size < WORTH_TELLING or values.layout is not torch.strided or values.is_meta:
        return
    key = _fingerprint(values)
    before = _sent.get(key)
    if before and (way, before) != ("down", "up"):  # what went up and comes back was computed with meanwhile
        told = {"upup": "the same bytes go up again", "updown": "bytes go up that just came down"}
        what = told.get(way + before, "the same bytes come down again")
        ledger.counts.again[what, ledger.place()] += 1
    _sent[key] = way


def _fingerprint(values: torch.Tensor) -> tuple:
    flat = values.detach().resolve_conj().resolve_neg().contiguous().view(-1)
    step = max(1, flat.numel() * flat.element_size() // SAMPLED)
    return values.dtype, tuple(values.shape), zlib.crc32(flat[::step].contiguous().view(torch.uint8).numpy())


def is_pinned(x: torch.Tensor, device=None) -> bool:
    """Whether the host's memory is pinned, as far as this process pretended to."""
    if isinstance(x, Pretended) or x.layout is not torch.strided:
        return False
    return getattr(x.untyped_storage(), "is_pretended_pinned", False)
