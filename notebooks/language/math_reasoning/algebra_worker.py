"""A process that compares two expressions of TeX by computer algebra, and may be killed.

Lines of JSON come in, `[a, b, seconds]`, and go out: true, false, or null for "not decided".
The first line that goes out is "ready", once sympy and its grammar are loaded. It takes no more
memory than `MEMORY_BYTES`; what exceeds that is not decided. Time is its caller's matter: no
signal handler and no thread stops a long power in C from within, so the caller kills the
process. Should the caller die first, the system ends it after so many seconds of processor.
"""

import json
import math
import os
import random
import sys

try:
    import resource
except ImportError:  # no such limits on this system: the caller's clock alone remains
    resource = None

MEMORY_BYTES = 1_500_000_000  # sympy, its grammar, a large number; a tower of powers asks more
TRIES, NEAR = 6, 1e-9


def read(tex):
    r"""The expression of some TeX, decimals exact, with \pi, e and i as constants; ValueError
    for what the grammar does not take whole.
    """
    import sympy
    from sympy.parsing.latex import parse_latex

    try:
        found = parse_latex(tex, strict=True)
    except Exception as error:  # the grammar's own, and what its builders raise on odd input
        raise ValueError(f"no expression: {tex[:40]!r}: {error}") from None
    if not isinstance(found, sympy.Expr):
        raise ValueError(f"{type(found).__name__} is no expression")
    exact = {one: sympy.Rational(str(one)) for one in found.atoms(sympy.Float)}
    known = {
        sympy.Symbol("pi"): sympy.pi,
        sympy.Symbol("i"): sympy.I,
        sympy.Symbol("e"): sympy.E,
    }
    return found.xreplace(exact).xreplace(known)


def same(a, b):
    """True, False, or None where neither can be shown: by values at random points, then by
    simplification. Points can show that two differ; that they are equal, algebra must show.
    """
    import sympy

    one, other = read(a), read(b)
    if one.is_infinite or other.is_infinite:  # an end of the line is itself and nothing else
        ends = [x.doit() if x.is_infinite else x for x in (one, other)]
        known = all(x in (sympy.oo, -sympy.oo) or x.is_finite for x in ends)
        return ends[0] == ends[1] if known else None
    difference = one - other
    if difference.has(sympy.Sum, sympy.Integral, sympy.Limit):
        difference = difference.doit()
    if difference.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
        return None
    symbols = sorted(difference.free_symbols, key=str)
    draw = random.Random(0)
    for _ in range(TRIES if symbols else 1):
        point = {one: sympy.Rational(draw.randint(-99, 99), 17) for one in symbols}
        value = complex(sympy.N(difference.subs(point), 30, maxn=200))
        if not math.isfinite(abs(value)):
            return None
        if abs(value) > NEAR:
            return False
    simple = sympy.simplify(difference)
    if simple == 0:
        return True
    return False if simple.is_number and simple.is_zero is False else None


def limit(kind, most):
    """None; the system's soft limit of this process, where there is one."""
    if resource:
        which = getattr(resource, kind)
        hard = resource.getrlimit(which)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (most, hard))


def main():
    """Answer lines until the input ends."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no verdict
    say = lambda said: print(json.dumps(said), file=out, flush=True)  # noqa: E731
    sys.setrecursionlimit(2000)
    limit("RLIMIT_AS", MEMORY_BYTES)
    try:
        same(r"\frac{1}{2}", "0.5")
    except Exception as error:
        return say(f"{type(error).__name__}: {error}")
    say("ready")
    for line in sys.stdin:
        a, b, seconds = json.loads(line)
        limit("RLIMIT_CPU", math.ceil(sum(os.times()[:2]) + seconds) + 1)
        try:
            say(same(a, b))
        except Exception:  # too deep, too large, not to be read: not decided
            say(None)


if __name__ == "__main__":
    main()
