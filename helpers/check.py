"""Checks that stop the page: equality with a reference, with the reason in the message; exercise checkers.

Everything raised here is an AssertionError, and says what differs, by how much, and why that is too much.
"""

import copy
import reprlib


class Failed(AssertionError):
    """A check in the page that did not hold."""


class NotYet(Failed):
    """An exercise that is not solved yet; the message says what to look at next."""


def that(ok, message):
    """None, if `ok` is true; raises Failed with `message` otherwise.

    check.that(len(matches) == 10, f"10 matches expected, {len(matches)} found")
    """
    if hasattr(ok, "shape") and tuple(ok.shape):
        raise ValueError(f"`ok` has shape {tuple(ok.shape)}; allowed is one truth value: say .all() or .any()")
    if not ok:
        raise Failed(message)


def close(got, want, rtol=0.0, atol=0.0, why=""):
    """The largest absolute difference between `got` and `want`, all of them within `atol + rtol * |want|`.

        check.close(fast, reference, rtol=1e-3, why="float32 keeps 7 digits; 421 terms are summed")

    NumPy arrays, torch tensors (any device), lists and numbers; shapes must be equal, dtypes may differ within
    numbers. NaN equals NaN at the same place, infinities equal themselves. Raises Failed with how many
    differ and the worst place; ValueError for a tolerance without its reason (`why`).
    """
    import numpy as np

    if (rtol or atol) and not why:
        raise ValueError(f"rtol={rtol:g}, atol={atol:g}: say with why= what makes this tolerance right")
    got, want = _array(got), _array(want)
    if got.shape != want.shape:
        raise Failed(f"shape {got.shape} came, {want.shape} was wanted: they must be equal, nothing is broadcast")
    kinds = {a.dtype.kind if a.dtype.kind not in "biufc" else "number" for a in (got, want)}
    if kinds != {"number"} or (got.dtype == bool) != (want.dtype == bool):
        if got.dtype.kind != want.dtype.kind or rtol or atol:
            raise Failed(f"dtype {got.dtype} came, {want.dtype} was wanted: these cannot be compared")
        bad, error, allowed = got != want, (got != want).astype(float), np.zeros(got.shape)
    else:
        bad, error, allowed = _compare(np, got, want, rtol, atol)
    if not bad.any():
        return float(error.max(initial=0.0))
    worst = np.unravel_index(np.argmax(np.where(bad, np.where(np.isnan(error), np.inf, error), -1)), bad.shape)
    index = f"at [{', '.join(map(str, worst))}]" if worst else "in the value"
    limit = f"allowed {allowed[worst]:.3g} (rtol {rtol:g}, atol {atol:g}: {why})" if why else "they must be equal"
    text = f"{bad.sum():,} of {bad.size:,} values differ; worst {index}: got {got[worst]}, wanted {want[worst]}"
    lost = np.isnan(got) & ~np.isnan(want) if got.dtype.kind in "fc" and kinds == {"number"} else np.zeros(1, bool)
    text += f"; {lost.sum():,} are NaN and should not be" if lost.any() else ""
    raise Failed(f"{text}; difference {error[worst]:.3g}, {limit}")


def attempt(fn, cases, rtol=0.0, atol=0.0, why="", hint=""):
    """None, if the learner's function `fn` is right in every case; one line says so.

        def check_mean(fn):
            check.attempt(fn, [(([1.0, 3.0],), 2.0), (([5.0],), 5.0, "one value is its own mean")])

    A case is (arguments, wanted) or (arguments, wanted, hint). `wanted` may be an exception class that must
    be raised, or a function of the result that returns True, or else says what is wrong. Arguments are copied,
    so that a function that changes them spoils no later case. Raises NotYet: for a stub that returns nothing
    or raises NotImplementedError, for an error inside `fn`, and for a wrong answer.
    """
    if not callable(fn):
        raise NotYet(f"a function is needed here, and {reprlib.repr(fn)} came: pass its name, without parentheses")
    name = getattr(fn, "__name__", "the function")
    for arguments, want, *advice in cases:
        advice = " ".join(f"Hint: {text}" for text in advice or [hint] if text)
        call = f"{name}({', '.join(map(_brief, arguments))})"
        expects_error = isinstance(want, type) and issubclass(want, Exception)
        try:
            got = fn(*copy.deepcopy(arguments))
        except NotImplementedError as error:
            raise NotYet(f"{name} is not written yet. {advice}".strip()) from error
        except Exception as error:
            if expects_error and isinstance(error, want):
                continue
            raise NotYet(f"{call} stopped with {type(error).__name__}: {error}. {advice}".strip()) from error
        if expects_error:
            raise NotYet(f"{call} should raise {want.__name__}, and returned {_brief(got)}. {advice}".strip())
        if got is None or got is ...:
            raise NotYet(f"{call} returns nothing yet: does it end with `return`? {advice}".strip())
        try:
            problem = want(got) if callable(want) else close(got, want, rtol, atol, why) and None
        except Failed as error:
            problem = str(error)
        except Exception as error:
            problem = f"the answer {_brief(got)} could not be judged ({type(error).__name__}: {error})"
        if problem not in (None, True):
            told = problem if isinstance(problem, str) else f"{_brief(got)} is not it"
            raise NotYet(f"{call}: {told}. {advice}".strip())
    print(f"{name}: right in {'all ' if len(cases) > 1 else ''}{len(cases)} case{'s' * (len(cases) != 1)}.")


def _compare(np, got, want, rtol, atol):
    exact = all(a.dtype.kind in "iub" for a in (got, want)) and not (rtol or atol)
    bad = got != want  # integers of 64 bits are compared as they are, not as floats
    wide = np.result_type(got, want, np.float64)
    got, want = got.astype(wide), want.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(got == want, 0.0, np.abs(got - want))  # inf - inf is NaN, yet equal
        allowed = np.broadcast_to(np.nan_to_num(atol + rtol * np.abs(want), posinf=0.0), error.shape)
    both_nan = np.isnan(got) & np.isnan(want)
    error = np.where(both_nan, 0.0, error)
    return bad if exact else ~(error <= allowed) & ~both_nan, error, allowed


def _array(values):
    import numpy as np

    if hasattr(values, "detach"):  # torch
        values = values.detach().cpu().resolve_conj()
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values
    return np.asarray(values)


def _brief(value):
    if hasattr(value, "shape") and hasattr(value, "dtype") and tuple(value.shape):
        return f"array of shape {tuple(value.shape)}"
    return reprlib.repr(value)
