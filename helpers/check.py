"""Checks that stop the page with an AssertionError: equality with a reference, and exercise checkers."""

import copy
import math
import reprlib

NAMES = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}  # of plain values, by width
LISTS = list | tuple | range


class Failed(AssertionError):
    """A check in the page that did not hold."""


class NotYet(Failed):
    """An exercise that is not solved yet; the message says what to look at next."""


class Unlike(Failed):
    """Values of another shape, which cannot be compared."""


def that(ok, message):
    """None, if `ok` is true; raises Failed with `message` otherwise: `check.that(len(hits) == 10, "ten hits")`."""
    if not ok:
        raise Failed(message)


def close(got, want, rtol=0.0, atol=0.0, why=""):
    """The largest |got - want| of arrays, tensors, lists or numbers of one shape, all within `atol + rtol * |want|`;
    dtypes may differ within numbers, NaN equals NaN, infinities themselves. Failed says how many differ and the worst
    place; ValueError for a tolerance without its reason (`why`).
    """
    if (rtol or atol) and not why:
        raise ValueError(f"rtol={rtol:g}, atol={atol:g}: say with why= what makes this tolerance right")
    (shape, *came, g), (whole, *wanted, w) = _flat(got), _flat(want)
    if shape != whole:
        kind = Failed if came[0] in ("<U", "object") else Unlike  # a list of texts that is too short is a wrong value
        raise kind(f"shape {shape} came, {whole} was wanted: they must be equal, nothing is broadcast")
    if {came[0], wanted[0]} != {"number"}:  # text, truth values, objects
        if came[0] == wanted[0] and list(g) == list(w):
            return 0.0
        told = [CODE.repr(one.tolist() if hasattr(one, "tolist") else one) for one in (got, want)]
        raise Failed(f"{told[0]} ({came[1]}) came, {told[1]} ({wanted[1]}) was wanted")
    largest, bad = _compared(g, w, rtol, atol)
    if not bad:
        return largest
    at, got, want, error, limit = max(bad, key=lambda row: row[3] if row[3] == row[3] else math.inf)
    worst = [at // math.prod(shape[axis + 1 :]) % size for axis, size in enumerate(shape)]
    text = f"{len(bad):,} of {math.prod(shape):,} values differ; worst at {worst}: " if worst else ""
    lost = sum(row[1] != row[1] and row[2] == row[2] for row in bad)
    text += f"got {got}, wanted {want}" + f"; {lost:,} are NaN and should not be" * bool(lost)
    reason = f"allowed {limit:.3g} (rtol {rtol:g}, atol {atol:g}: {why})" if why else "they must be equal"
    raise Failed(f"{text}; difference {error:.3g}, {reason}")


def _flat(values):
    """Shape, kind, dtype's name and the values in a row: a list of plain ones, which need no NumPy, or an array."""
    shape, row = (), [values]
    while len(sizes := {len(one) if isinstance(one, LISTS) else -1 for one in row}) == 1 and min(sizes) >= 0:
        shape, row = (*shape, *sizes), [part for one in row for part in one]
    if any(hasattr(one, "dtype") or hasattr(one, "__array__") for one in row):
        import numpy as np

        values = values.detach().cpu().resolve_conj() if hasattr(values, "detach") else values
        bfloat16 = str(getattr(values, "dtype", "")) == "torch.bfloat16"  # NumPy has none
        values = np.asarray(values.float() if bfloat16 else values)
        shape, name, row = values.shape, str(values.dtype), values.ravel()
    elif (types := set(map(type, row))) <= NAMES.keys():
        widest = max(types, key=[*NAMES].index, default=float)
        name, row = NAMES[widest], [widest(one) for one in row]
    else:
        name = f"<U{max(map(len, row)) or 1}" if types == {str} else "object"
    kind = name.rstrip("0123456789")
    return shape, "number" if kind in ("int", "uint", "float", "complex") else kind, name, row


def _compared(g, w, rtol, atol):
    """The largest difference, and for each that is too large: its place, both values, difference and limit."""
    if isinstance(g, list) and isinstance(w, list):
        errors = [0.0 if a == b or a != a and b != b else abs(a - b) for a, b in zip(g, w, strict=True)]
        limits = [atol + (rtol and rtol * abs(b)) for b in w]
        rows = zip(range(len(g)), g, w, errors, limits, strict=True)
        return float(max(errors, default=0)), [row for row in rows if row[3] and not row[3] <= row[4] < math.inf]
    import numpy as np

    g, w = np.asarray(g), np.asarray(w)
    wide = np.result_type(g, w, np.float64)
    unequal, a, b = g != w, g.astype(wide), w.astype(wide)  # integers are compared before they are rounded
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where((a == b) | np.isnan(a) & np.isnan(b), 0.0, np.abs(a - b))
        limit = np.nan_to_num(atol + rtol * np.abs(b))
    bad = np.flatnonzero(~(error <= limit) if rtol or atol else unequal & ~(np.isnan(a) & np.isnan(b)))
    rows = zip(bad.tolist(), g[bad], w[bad], error[bad].tolist(), limit[bad].tolist(), strict=True)
    return float(error.max(initial=0.0)), list(rows)


def attempt(fn, cases, rtol=0.0, atol=0.0, why="", hint=""):
    """None, if the learner's function `fn` is right in every case; one line says so.
    `check.attempt(mean, [(([1.0, 3.0],), 2.0), (([5.0],), 5.0, "one value is its own mean")])`: a case is
    (arguments, wanted) or (arguments, wanted, hint); `wanted` may be a function of the result: True, or what is wrong.
    Arguments are copied; small ones are told as code. NotYet: a stub, no `return`, an error inside `fn`, another shape
    or kind, a wrong value, each in its own words; a hint comes with the last alone.
    """
    if not callable(fn):
        raise NotYet(f"a function is needed here, and {CODE.repr(fn)} came: pass its name, without parentheses")
    name = getattr(fn, "__name__", "the function")
    for arguments, want, *advice in cases:
        try:
            _judge(fn, arguments, want, {"rtol": rtol, "atol": atol, "why": why})
        except Failed as problem:
            tips = (advice or [hint]) if type(problem) is Failed else [hint] * str(problem).endswith("yet")
            told = f"{name}({', '.join(map(CODE.repr, arguments))}) {problem}".rstrip(".")
            told += "." * (told[-1] != "?") + "".join(f" Hint: {text}" for text in tips if text)
            raise NotYet(told) from problem.__cause__
    print(f"{name}: right in {'all ' if len(cases) > 1 else ''}{len(cases)} case{'s' * (len(cases) != 1)}.")


def _judge(fn, arguments, want, limits):
    """None where `fn` is right in a case; Failed for a wrong value, NotYet or Unlike for whatever else is wrong."""
    try:
        got = fn(*copy.deepcopy(arguments))
    except Failed as error:
        raise Failed(f"is not right: {error}") from None
    except NotImplementedError:
        raise NotYet("is not written yet") from None
    except Exception as error:
        at, code = error.__traceback__, getattr(getattr(fn, "__wrapped__", fn), "__code__", None)
        while at and at.tb_frame.f_code is not code:
            at = at.tb_next
        line = f" in its line {at.tb_lineno - code.co_firstlineno + 1}" if at else ""
        raise NotYet(f"stopped with {type(error).__name__}{line}: {error}") from error
    told = f"returned {CODE.repr(got)}"
    if got is ... or got is None:
        raise NotYet(f"{told}: does it end with `return`?" if got is None else "is not written yet")
    try:
        found = want(got) if callable(want) else close(got, want, **limits) >= 0
    except Unlike as error:
        raise Unlike(f"{told}: {error}") from None
    except Failed as error:
        found = str(error)
    except Exception as error:
        raise NotYet(f"{told}, which is not of the kind that is wanted: {error}") from error
    if found not in (None, True):
        raise Failed(f"{told}, which is not right{f': {found}' if isinstance(found, str) else ''}")


class _Code(reprlib.Repr):
    """Small values as code that makes them again, large arrays by their shape."""

    def repr_ndarray(self, array, level):
        if math.prod(array.shape) > self.maxlist:
            return f"array of shape {tuple(array.shape)}"
        torch, kind = hasattr(array, "detach"), str(array.dtype)
        usual = kind.removeprefix("torch.") in ("int64", "bool", "float32" if torch else "float64") or kind[0] == "<"
        told = "" if usual else f", dtype={'' if torch else 'np.'}{kind}"
        return f"{'torch.tensor' if torch else 'np.array'}({array.tolist()}{told})"

    repr_Tensor = repr_ndarray


CODE = _Code()
vars(CODE).update(maxlist=24, maxtuple=24, maxdict=24, maxstring=120, maxother=120)
