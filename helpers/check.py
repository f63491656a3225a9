"""Checks that stop the page with an AssertionError: equality with a reference, and exercise checkers."""

import copy
import reprlib


class Failed(AssertionError):
    """A check in the page that did not hold."""


class NotYet(Failed):
    """An exercise that is not solved yet; the message says what to look at next."""


def that(ok, message):
    """None, if `ok` is true; raises Failed with `message` otherwise: `check.that(len(hits) == 10, "ten hits")`."""
    if not ok:
        raise Failed(message)


def close(got, want, rtol=0.0, atol=0.0, why=""):
    """The largest absolute difference between `got` and `want`, all of them within `atol + rtol * |want|`: arrays,
    tensors, lists or numbers of one shape; dtypes may differ within numbers. NaN equals NaN, infinities themselves.
    Raises Failed with how many differ and the worst place; ValueError for a tolerance without its reason (`why`).
    """
    import numpy as np

    if (rtol or atol) and not why:
        raise ValueError(f"rtol={rtol:g}, atol={atol:g}: say with why= what makes this tolerance right")
    got, want = np.asarray(_on_cpu(got)), np.asarray(_on_cpu(want))
    if got.shape != want.shape:
        raise Failed(f"shape {got.shape} came, {want.shape} was wanted: they must be equal, nothing is broadcast")
    kinds = {"number" if a.dtype.kind in "iufc" else a.dtype.kind for a in (got, want)}
    if kinds != {"number"}:  # text, truth values, objects
        if len(kinds) == 1 and np.array_equal(got, want):
            return 0.0
        came, wanted = (f"{_brief(a.tolist())} ({a.dtype})" for a in (got, want))
        raise Failed(f"{came} came, {wanted} was wanted")
    wide = np.result_type(got, want, np.float64)
    unequal, g, w = got != want, got.astype(wide), want.astype(wide)  # integers are compared before they are rounded
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where((g == w) | np.isnan(g) & np.isnan(w), 0.0, np.abs(g - w))
        limit = np.nan_to_num(atol + rtol * np.abs(w))
    bad = ~(error <= limit) if rtol or atol else unequal & ~(np.isnan(g) & np.isnan(w))
    if not bad.any():
        return float(error.max(initial=0.0))
    worst = np.unravel_index(np.argmax(np.where(bad, np.nan_to_num(error, nan=np.inf), -1)), bad.shape)
    at = f" at [{', '.join(map(str, worst))}]" if worst else ""
    text = f"{bad.sum():,} of {bad.size:,} values differ; worst{at}: got {got[worst]}, wanted {want[worst]}"
    lost = (np.isnan(g) & ~np.isnan(w)).sum()
    text += f"; {lost:,} are NaN and should not be" if lost else ""
    reason = f"allowed {limit[worst]:.3g} (rtol {rtol:g}, atol {atol:g}: {why})" if why else "they must be equal"
    raise Failed(f"{text}; difference {error[worst]:.3g}, {reason}")


def attempt(fn, cases, rtol=0.0, atol=0.0, why="", hint=""):
    """None, if the learner's function `fn` is right in every case; one line says so.
    `check.attempt(mean, [(([1.0, 3.0],), 2.0), (([5.0],), 5.0, "one value is its own mean")])`: a case is
    (arguments, wanted) or (arguments, wanted, hint); `wanted` may be an exception class to be raised, or a function of
    the result: True, or what is wrong. Arguments are copied. NotYet: a stub, an error inside `fn`, a wrong answer.
    """
    if not callable(fn):
        raise NotYet(f"a function is needed here, and {_brief(fn)} came: pass its name, without parentheses")
    name = getattr(fn, "__name__", "the function")
    for arguments, want, *advice in cases:
        call = f"{name}({', '.join(map(_brief, arguments))})"
        cause, raises = None, isinstance(want, type) and issubclass(want, Exception)
        try:
            got = fn(*copy.deepcopy(arguments))
            if raises:
                problem = f"should raise {want.__name__}, and returned {_brief(got)}"
            elif got is None or got is ...:
                problem = "returns nothing yet: does it end with `return`?"
            else:
                answer = want(got) if callable(want) else close(got, want, rtol, atol, why) >= 0
                problem = answer if isinstance(answer, str) else "" if answer in (None, True) else f"{_brief(got)} came"
                problem = problem and f"is not right: {problem}"
        except Failed as error:
            problem = f"is not right: {error}"
        except NotImplementedError:
            problem = "is not written yet"
        except Exception as error:
            problem = None if raises and isinstance(error, want) else f"stopped with {type(error).__name__}: {error}"
            cause = error
        if problem:
            tips = "".join(f" Hint: {text}" for text in advice or [hint] if text)
            raise NotYet(f"{call} {problem}".rstrip(".") + f".{tips}") from cause
    print(f"{name}: right in {'all ' if len(cases) > 1 else ''}{len(cases)} case{'s' * (len(cases) != 1)}.")


def _on_cpu(values):
    values = values.detach().cpu().resolve_conj() if hasattr(values, "detach") else values
    return values.float() if str(getattr(values, "dtype", "")) == "torch.bfloat16" else values  # NumPy has none


def _brief(value):
    if hasattr(value, "shape") and hasattr(value, "dtype") and tuple(value.shape):
        return f"array of shape {tuple(value.shape)}"
    return reprlib.repr(value)
