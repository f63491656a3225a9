"""Who stores and solves what in a sharded fit, and the bytes that follow from it.

Shapes: `P` processes; a batch has places for items and owners, as in `dense_batching`.
"""

from dense_batching import dense_batches
from link_graph import both_ways, histories_of

IDS = 4  # bytes of an item's number on the way


def shard_size(count, processes):
    """The rows of a shard: one more than fit evenly, so that every row has a place."""
    return count // processes + 1


def slices_of(processes, rows, cols, job):
    """For each process the histories of its rows and of its columns."""
    sides = [histories_of(*ends[:2], ends[2][0]) for ends in both_ways(rows, cols, job.shape)]
    return [[side[rank::processes] for side in sides] for rank in range(processes)]


def pass_bytes(processes, batches, places, owners, factors):
    """The bytes that one process sends in a pass of `batches` batches, each of `places` item
    places and `owners` owners.

    Rings: an all-gather of n bytes a process sends (P - 1) n, an all-reduce of n bytes 2 (P -
    1) / P n. The gather sums P times `places` vectors, the scatter carries `owners` rows and
    their numbers, the Gramian is summed once.
    """
    gathered = places * IDS + owners * (factors * 4 + IDS)
    reduced = batches * processes * places * factors * 4 + factors * factors * 4
    return (processes - 1) * (batches * gathered + 2 * reduced // processes)


def predicted_bytes(processes, rows, cols, job):
    """The bytes that each process will send in the whole fit, from the links alone."""
    settings, total = job.settings, 0
    for side in zip(*slices_of(processes, rows, cols, job), strict=True):
        dense = [dense_batches(own, settings.length) for own in side]
        size = max(one.enough(settings.batch) for one in dense)
        made = [one.batches(size) for one in dense]
        most = max(map(len, made))
        owners = max((len(batch.owners_U) for own in made for batch in own), default=1)
        about = most, size * settings.length, owners, job.items.shape[1]
        total += pass_bytes(processes, *about)
    return job.iterations * total
