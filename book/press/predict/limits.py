"""How much arithmetic the bytes of an operation allow: counts beyond it are a mistake, whatever they were made by."""

from collections.abc import Iterator

from rehearsal.predict import real

BYTES = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int16": 2, "bool": 1, "uint8": 1, "int8": 1}
WINDOW = 27  # places of a dense convolution's window: 3 × 3 × 3


def impossible(content: dict) -> Iterator[str]:
    """Rows with more FLOPs than products of what they read and wrote can have."""
    for name, part in content["parts"].items():
        for tier, entry in part["tiers"].items():
            for kind, size, flops, _ in entry["work"]:
                most = most_flops(kind, size)
                if flops > most:
                    yield (
                        f"{name}, tier {tier}: an operation on {kind} has {flops:,} FLOPs with {size:,} bytes, "
                        f"which allow {most:,.0f}: its formula is wrong, or it counts zeros that nobody multiplies"
                    )


def most_flops(kind: str, size: int) -> float:
    """The most FLOPs that one operation with so many bytes of operands and results can do.

    A product takes 2 FLOPs for each triple of an entry of one factor, of the other and of the result. Of S numbers in
    all there are at most (S / 3)^1.5 such triples, when all three are squares (Loomis and Whitney 1949). A convolution
    uses each number of its input up to √window times more often, and its backward pass is two products. Attention over
    more than some thousand places a head, whose matrix nobody lays out, could do more; no chapter has such a one.
    """
    numbers = size / BYTES.get(real(kind), 4)
    return 2 * 2 * WINDOW**0.5 * (numbers / 3) ** 1.5
