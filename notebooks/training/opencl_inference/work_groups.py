"""Work-group sizes of a grid: two rules that guess one, and the list that a tuner tries.

The article says that a well chosen size was up to 50 % faster than the average one.
TensorFlow Lite's GPU delegate (sources under Apache-2.0,
`lite/delegates/gpu/common/task/work_group_picking.cc` and `workgroup_selection.cc`, read for
their rules) has these:

- `fast`: z is 8, 4 or 2 where one divides the grid's z, else its biggest divisor up to 8; x
  is half the grid's, rounded up; y fills what is left.
- `conv_fast`: z is the plain biggest divisor up to 16 (64 on Adreno GPUs but the 3xx), x
  times y is at most min(256, limit) / z; a y that is the whole of an even grid's is halved.
- `candidates`: every triple of divisors with 32 items or more; on a grid that has none, small
  corner cases.

Where a limit is below the divisor that a rule takes, theirs divides by zero; here z stops at
the limit. A grid is (x, y, z): width times batch, height times depth, slices of four
channels.
"""

from itertools import product

DEFAULT = (8, 4, 1)  # what the delegate starts without any tuning
LEAST_ITEMS = 32  # fewer leave the lanes of a phone's GPU idle
CORNER = 4  # the largest side, and the largest number of groups an axis, of a corner case


def fast(grid, max_size):
    """One work-group size (x, y, z) for kernels other than convolutions, at once.

        fast((56, 56, 6), 256)    # (28, 4, 2)

    `max_size` is the most items that the kernel may have in a group. Raises ValueError unless
    the grid has three sizes and all four numbers are whole and at least 1.
    """
    width, height, slices = _checked(grid, max_size)
    z = _preferred_divisor(slices, min(8, max_size))
    plane = max_size // z
    x = min(-(-width // 2), plane)
    return x, min(plane // x, height), z


def conv_fast(grid, max_size, max_z=16):
    """One work-group size (x, y, z) for a convolution, at once.

        conv_fast((56, 56, 6), 256)    # (42, 1, 6)

    `max_z` is 16, or 64 on Adreno GPUs but the 3xx. Raises ValueError as `fast` does.
    """
    width, height, slices = _checked(grid, max_size)
    most = min(256, max_size)
    z = _biggest_divisor(slices, min(_whole(max_z, "max_z"), most))
    plane = most // z
    x = min(width, plane)
    y = min(plane // x, height)
    return x, height // 2 if y == height and height % 2 == 0 else y, z


def candidates(grid, max_size, max_sides=None):
    """The sizes that an exhaustive tuner tries: a list of triples, none twice.

        candidates((4, 4, 2), 64)    # [(4, 4, 2)]
        candidates((1, 1, 1), 64)    # [(1, 1, 1)]

    All divide the grid. `max_sides` are the device's limits an axis, (x, y, z); None sets none.
    Never empty. Raises ValueError as `fast` does.
    """
    grid = _checked(grid, max_size)
    sides = _checked(max_sides or (max_size,) * 3, max_size)
    triples = product(*(_divisors(n, side) for n, side in zip(grid, sides, strict=True)))
    found = [t for t in triples if LEAST_ITEMS <= items(t) <= max_size]
    return found or _corner_cases(grid, max_size, sides)


def shortlist(grid, max_size):
    """A few sizes that differ in shape, for a tuner with little time: a list, none twice.

        shortlist((56, 56, 6), 256)    # [(8, 4, 1), (28, 4, 2), (42, 1, 6), (56, 1, 1), ...]

    The default, both rules, a row, two rows, a square, all slices of a point. Raises ValueError
    as `fast` does.
    """
    width, height, slices = _checked(grid, max_size)
    shapes = [DEFAULT, fast(grid, max_size), conv_fast(grid, max_size), (width, 1, 1)]
    shapes += [
        (width, min(2, height), 1),
        (8, 8, 1),
        (1, 1, slices),
        (1, min(8, height), slices),
    ]
    return [one for one in dict.fromkeys(shapes) if items(one) <= max_size] or [(1, 1, 1)]


def aligned(grid, group):
    """The grid (x, y, z) that is launched: each axis rounded up to a multiple of the group's.

        aligned((7, 7, 3), (4, 4, 1))    # (8, 8, 3)

    The kernel returns at once where an item lies outside of the true grid.
    """
    return tuple(-(-n // size) * size for n, size in zip(grid, group, strict=True))


def checked_group(group, max_size):
    """The work-group size as three whole numbers. Raises ValueError beyond the limit."""
    group = _checked(group, max_size)
    if items(group) > max_size:
        raise ValueError(f"a group of {group} has {items(group)} items; {max_size} are allowed")
    return group


def items(sizes):
    """How many work items a size (x, y, z) holds."""
    return sizes[0] * sizes[1] * sizes[2]


def _corner_cases(grid, max_size, sides):
    few_groups = product(*({-(-n // parts) for parts in range(1, CORNER + 1)} for n in grid))
    small_groups = product(range(1, CORNER + 1), repeat=3)
    allowed = {
        t
        for t in (*few_groups, *small_groups)
        if items(t) <= max_size
        and all(
            size <= side and n % size == 0 for size, side, n in zip(t, sides, grid, strict=True)
        )
    }
    return sorted(allowed)


def _divisors(number, most):
    return [d for d in range(1, min(number, most) + 1) if number % d == 0]


def _biggest_divisor(number, most):
    return _divisors(number, most)[-1]


def _preferred_divisor(number, most):
    preferred = (d for d in (8, 4, 2) if d <= most and number % d == 0)
    return next(preferred, None) or _biggest_divisor(number, most)


def _checked(grid, max_size):
    grid = tuple(grid)
    if len(grid) != 3:
        raise ValueError(f"the grid is {grid}; three sizes (x, y, z) are allowed")
    _whole(max_size, "max_size")
    return tuple(_whole(n, "a side of the grid") for n in grid)


def _whole(number, name):
    if isinstance(number, bool) or not hasattr(number, "__index__") or number < 1:
        raise ValueError(
            f"{name} is {number!r}; a whole number from 1 on is allowed, since it counts items"
        )
    return int(number)
