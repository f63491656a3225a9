"""A process that compares two expressions of TeX by computer algebra, and may be killed.

Lines of JSON come in, `[a, b]`, and go out: true, false, or null for "not decided". The first
line that goes out is "ready", once sympy and its grammar are loaded. It takes no more memory
than `MEMORY_BYTES`; what exceeds that is not decided. Time is its caller's matter: no signal
and no thread stops a long power in C from within, so the caller kills the process.
"""

import json
import random
import sys

MEMORY_BYTES = (
    1_500_000_000  # sympy, its grammar and a large number; a tower of powers asks for more
)
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

    difference = read(a) - read(b)
    if difference.has(sympy.nan, sympy.zoo, sympy.oo):
        return None
    symbols = sorted(difference.free_symbols, key=str)
    draw = random.Random(0)
    for _ in range(TRIES if symbols else 1):
        point = {one: sympy.Rational(draw.randint(-99, 99), 17) for one in symbols}
        value = complex(sympy.N(difference.subs(point), 30, maxn=200))
        if value == value and abs(value) > NEAR:
            return False
    simple = sympy.simplify(difference)
    if simple == 0:
        return True
    return False if simple.is_number and simple.is_zero is False else None


def main():
    """Answer lines until the input ends."""
    sys.setrecursionlimit(2000)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    except (ImportError, ValueError):  # no such limit on this system: the clock alone remains
        pass
    try:
        same(r"\frac{1}{2}", "0.5")
    except Exception as error:
        print(json.dumps(f"{type(error).__name__}: {error}"), flush=True)
        return
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        try:
            verdict = same(*json.loads(line))
        except Exception:  # too deep, too large, not to be read: not decided
            verdict = None
        print(json.dumps(verdict), flush=True)


if __name__ == "__main__":
    main()
