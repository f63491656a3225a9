"""How many machines and how much network a class needs.

python room/planner.py --seats 24 --memory-gb 8              every seat has a laptop of 8 GB
python room/planner.py --seats 24 --memory-gb 64 --cores 16  the seats share servers of 64 GB and 16 cores

Standard library only. The sizes are those of this bundle; the memory is what the hungriest chapter asks for.
"""

import argparse
import math
import sys

SYSTEM_BYTES = 2e9  # left to the system of each machine
CORES_A_SEAT = 2  # what the chapters are measured on


def plan(bundle, seats, memory_gb, cores, minutes):
    """The answer as a dict: seats a machine, machines, bytes to copy, Mbit/s to copy them in `minutes`.

    Raises ValueError for numbers that are not positive, and for a machine too small for one seat.
    """
    for name, value in {"seats": seats, "memory_gb": memory_gb, "cores": cores, "minutes": minutes}.items():
        if not value > 0:
            raise ValueError(f"{name} is {value}; it must be above 0")
    by_memory = int((memory_gb * 1e9 - SYSTEM_BYTES) // bundle["memory_bytes"])
    by_cores = int(cores // CORES_A_SEAT)
    if by_memory < 1:
        least = (bundle["memory_bytes"] + SYSTEM_BYTES) / 1e9
        raise ValueError(
            f"{memory_gb:g} GB are too little for one seat: {least:.1f} GB are needed, the system included"
        )
    a_machine = max(1, min(by_memory, by_cores))
    machines = math.ceil(seats / a_machine)
    copied = machines * bundle["zip_bytes"]
    return {
        "seats_a_machine": a_machine,
        "machines": machines,
        "limit": "memory" if by_memory <= by_cores else "cores",
        "bytes": copied,
        "mbit_per_s": copied * 8 / 1e6 / (minutes * 60),
    }


def main():
    """The exit status."""
    from room_check import facts

    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seats", type=int, required=True)
    options.add_argument("--memory-gb", type=float, default=8, help="of each machine (default: %(default)s)")
    options.add_argument("--cores", type=int, default=4, help="of each machine (default: %(default)s)")
    options.add_argument("--minutes", type=float, default=15, help="for copying the bundle (default: %(default)s)")
    given, bundle = options.parse_args(), facts()
    try:
        found = plan(bundle, given.seats, given.memory_gb, given.cores, given.minutes)
    except ValueError as error:
        print(f"planner: {error}", file=sys.stderr)
        return 2
    each, machines, limit = found["seats_a_machine"], found["machines"], found["limit"]
    print(f"{given.seats} seats: {machines} machine{'s' * (machines > 1)}, {each} seat{'s' * (each > 1)} each.")
    memory, disk = bundle["memory_bytes"] / 1e9, bundle["installed_bytes"] / 1e9
    print(f"Each seat takes {memory:.1f} GB of memory and {CORES_A_SEAT} cores; {limit} set the limit.")
    print(f"Disk: {disk:.1f} GB a machine.")
    print(f"Network: {found['bytes'] / 1e9:.1f} GB in all;", end=" ")
    print(f"{found['mbit_per_s']:.0f} Mbit/s copy it in {given.minutes:g} minutes.")
    print("Or carry the zip on a few memory sticks: the workshop itself needs no network.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
