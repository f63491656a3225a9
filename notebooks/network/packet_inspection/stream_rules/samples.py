"""Files made to satisfy a rule, at run time: filler, and instances of the patterns it asks for.

They are no malware: what a rule looks for stands in random bytes, in random order, and does
nothing.
"""

import random

from .conditions import FOREVER
from .patterns import Pattern, members
from .rule_texts import Rule


def instance(pattern: Pattern, rng: random.Random) -> bytes:
    """Some bytes that the pattern fits."""
    made = bytearray()
    for element in pattern.elements:
        choices, times = members(element.fits), 1
        if element.optional:
            times = rng.randrange(4) if element.repeats else rng.randrange(2)
        made += bytes(rng.choice(choices) for _ in range(times))
    return bytes(made)


def needed(rule: Rule, node: tuple, rng: random.Random, rules: dict[str, Rule]) -> list:
    """What together answers the condition with yes: lists of patterns, one of each is asked;
    comparisons of bytes at the file's start, and of its size."""
    match node:
        case ("match", *_):
            return [rule.patterns[node]]
        case ("and", *parts):
            return [each for part in parts for each in needed(rule, part, rng, rules)]
        case ("or", *parts):
            return needed(rule, rng.choice(parts), rng, rules)
        case ("of", wanted, *parts):
            return [rule.patterns[part] for part in rng.sample(parts, wanted)]
        case ("rule", name):
            return needed(rules[name], rules[name].condition, rng, rules)
        case ("compare", "==", ("header", *_), ("int", _)):
            return [node]
        case ("compare", ">" | ">=", ("filesize",), ("int", _)):
            return [node]
    return []


def sample(rule: Rule, seed: int, filler: int = 40, rules: dict | None = None) -> bytes:
    """A file for a rule: its strings in random order, with filler before, between and after."""
    rng = random.Random(seed)
    start, loose, last, least = {}, [], b"", 0
    for each in needed(rule, rule.condition, rng, rules or {}):
        match each:
            case ("compare", _, ("filesize",), (_, size)):
                least = size + 1
            case ("compare", _, (_, offset, width, big, signed), (_, value)):
                order = "big" if big else "little"
                start.update(enumerate(value.to_bytes(width, order, signed=signed), offset))
            case [_, *_]:
                pattern = rng.choice(each)
                piece = instance(pattern, rng)
                if pattern.at_end:
                    last = piece
                elif pattern.high != FOREVER:
                    start.update(enumerate(piece, pattern.low))
                else:
                    loose.append(piece)
    rng.shuffle(loose)
    made = bytearray(rng.randbytes(max(start, default=-1) + 1))
    for offset, value in start.items():
        made[offset] = value
    for piece in loose:
        made += rng.randbytes(rng.randrange(filler)) + piece
    made += rng.randbytes(rng.randrange(filler))
    return bytes(made + rng.randbytes(max(least - len(made) - len(last), 0)) + last)
