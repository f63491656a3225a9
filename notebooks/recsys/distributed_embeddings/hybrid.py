"""Tables spread over processes by a plan, the rest of the network copied: hybrid parallelism.

    embeddings = DistributedEmbedding(plan)   # 1. instead of a list of tables
    average_gradients(model)                  # 2. before the optimiser's step
    broadcast(model)                          # 3. before the first step

A step moves ids to the devices that hold their tables, and vectors back:

    ids (and lengths)     all-to-all       lengths only where bags differ in length
    sums of rows          lookup           one call for each merged table
    vectors               all-to-all       their gradients go back the same way
    join                                   columns side by side, partial sums of rows added

Row slices answer ids of other slices with zeros, and the asking process adds the answers: a
reduce-scatter written as an all-to-all and a sum, with equal bytes, in the one exchange that
the other tables take. Optimisers keep their own state; nothing here moves it.
"""

import torch
from exchange import Traffic, agree, all_to_all, average, copy_from, vectors_to_all, world
from lookup import MergedLookup, checked, scattered
from torch import nn

FEW = 2**31  # rows that 32 bits can name


def index_type(plan, places):
    """The integers for ids: int32, half the bytes, where no device's table has too many rows.
    All devices count, since all have to speak alike.
    """
    rows = [table.rows for table in plan.tables]
    rows += [merged.rows + 1 for pieces in places for merged in plan.merged(pieces)]
    return torch.int32 if max(rows) < FEW else torch.int64


class DistributedEmbedding(nn.Module):
    """A module from `Bags` to a list of tensors (B, width), one for each input of the plan.

    `device`: of pieces that are not on the host. `check=False` leaves out the look at inputs,
    a pass over the ids and a small exchange. `.traffic` counts bytes. Tables start by `seed`,
    alike for every plan. ValueError where plan and group differ in their number of devices.
    """

    def __init__(self, plan, dtype=torch.float32, device="cpu", check=True, seed=0):
        super().__init__()
        self.plan, self.check, self.traffic = plan, check, Traffic()
        self.rank, self.world = world()
        if plan.devices != self.world:
            raise ValueError(
                f"the plan has {plan.devices} devices, the group {self.world}; they must agree"
            )
        places = [plan.on(one) for one in range(self.world)]
        about = dtype, torch.device(device), index_type(plan, [*places, plan.copies()])
        self.index = about[-1]
        self.shards = MergedLookup(plan, places[self.rank], self.world, *about, sparse=True)
        self.copies = MergedLookup(plan, plan.copies(), 1, *about, sparse=False)
        self.start(seed)
        self.wanted = [plan.wanted(own) for own in places]
        self.copied = [one for one, _ in plan.wanted(plan.copies())]

    @property
    def home(self):
        """The device of all that is not on the host."""
        return self.shards.home

    @property
    def dtype(self):
        """The kind of number of the weights."""
        return self.shards.dtype

    def forward(self, bags, model_parallel=False, batch=None):
        """The list of vectors (B, width) of each input.

        `bags` hold this process's samples of all inputs; or, `model_parallel`, all processes'
        samples (those of process 0 first) of the inputs that this device answers, in the order
        of `.wanted[rank]`: then no id travels. `batch`: all samples that came, for a device
        that answers nothing. ValueError on all processes for ids outside a table on one, or
        batches that differ.
        """
        batch = bags.batch if len(bags.lengths) else batch or 0
        if self.check:
            self._look(bags, model_parallel, batch)
        batch = batch // (self.world if model_parallel else 1)
        ids, lengths = self._turned(bags) if model_parallel else self._asked(bags, batch)
        if self.wanted[self.rank]:
            sent = self.shards(ids, lengths, batch).reshape(-1)
        else:  # nothing to say, but the way back is taken by all
            sent = torch.zeros(0, dtype=self.dtype, device=self.home, requires_grad=True)
        sizes = [sum(piece.cols for _, piece in pairs) * batch for pairs in self.wanted]
        got = vectors_to_all(sent, [sizes[self.rank]] * self.world, sizes, self.traffic)
        return self._joined(got, bags, batch)

    def _look(self, bags, model_parallel, batch):
        problem, inputs = None, range(len(self.plan.inputs))
        if model_parallel:
            inputs = [one for one, _ in self.wanted[self.rank]]
        try:
            if model_parallel and self.copied:
                raise ValueError(
                    "model-parallel inputs and copied tables: a copy needs its own samples"
                )
            checked(bags, [self.plan.tables[self.plan.inputs[one]].rows for one in inputs])
            if model_parallel and batch % self.world:
                raise ValueError(
                    f"{batch} samples of {self.world} processes: a multiple is needed"
                )
        except ValueError as error:
            problem = error
        agree(-1 if problem else batch, problem, self.home)

    def _asked(self, bags, batch):
        """(ids, lengths) of this device's pairs for all samples, as processes send them."""
        parts = bags.by_input()
        told = [[parts[one] for one, _ in pairs] for pairs in self.wanted]
        sent = torch.cat([bags.ids[:0], *(ids for own in told for ids in own)]).to(self.index)
        send = [sum(map(len, one)) for one in told]
        own = [one for one, _ in self.wanted[self.rank]]
        if bags.fixed:
            lengths = tuple(bags.lengths[one] for one in own)
            receive = [sum(lengths) * batch] * self.world
        else:
            order = [one for pairs in self.wanted for one, _ in pairs]
            sizes = [len(pairs) * batch for pairs in self.wanted]
            mine = [len(own) * batch] * self.world
            told = bags.lengths[order].int().reshape(-1)
            told = all_to_all(told, sizes, mine, self.traffic, "lengths")
            lengths = told.view(self.world, len(own), batch).long()
            receive = lengths.sum((1, 2)).tolist()
        return all_to_all(sent, send, receive, self.traffic, "ids"), lengths

    def _turned(self, bags):
        """The same from bags that hold all processes' samples, turned to process by process."""
        parts = [bags.ids[:0], *bags.by_input()]
        if bags.fixed:
            parts = [ids.view(self.world, -1) for ids in parts]
            return torch.cat(parts, 1).reshape(-1).to(self.index), bags.lengths
        lengths = bags.lengths.view(len(parts) - 1, self.world, -1)
        cut = [
            ids.split(own) for ids, own in zip(parts[1:], lengths.sum(2).tolist(), strict=True)
        ]
        turned = [one[process] for process in range(self.world) for one in cut]
        return torch.cat([parts[0], *turned]).to(self.index), lengths.transpose(
            0, 1
        ).contiguous()

    def _joined(self, got, bags, batch):
        """The vectors of each input from all its pieces."""
        found = [[] for _ in self.plan.inputs]
        pairs = [pair for pairs in self.wanted for pair in pairs]
        sizes = [piece.cols * batch for _, piece in pairs]
        for (one, piece), vectors in zip(pairs, got.split(sizes) if pairs else (), strict=True):
            found[one].append(
                vectors.view(batch, piece.cols)
            )  # in the devices' order, which is that of columns
        for one, vectors in zip(self.copied, self._own(bags, batch), strict=True):
            found[one].append(vectors)
        for one, parts in enumerate(found):
            rows = self.plan.inputs[one] in self.plan.row_sliced
            found[one] = (
                parts[0]
                if len(parts) == 1
                else torch.stack(parts).sum(0)
                if rows
                else torch.cat(parts, 1)
            )
        return found

    def _own(self, bags, batch):
        """The vectors of the inputs of copied tables, looked up at home."""
        if not self.copied:
            return []
        parts, own = bags.by_input(), self.copied
        lengths = (
            tuple(bags.lengths[one] for one in own) if bags.fixed else bags.lengths[None, own]
        )
        vectors = self.copies(
            torch.cat([parts[one] for one in own]).to(self.index), lengths, batch
        )
        widths = [self.plan.tables[self.plan.inputs[one]].width for one in own]
        return [
            part.view(batch, -1)
            for part in vectors[0].split([batch * width for width in widths])
        ]

    @torch.no_grad()
    def start(self, seed):
        """None; all weights anew, uniform in ± 1 / sqrt(table's width), each by its place."""
        for piece, rows in [*self.copies.places(), *self.shards.places()]:
            width = self.plan.tables[piece.table].width
            cols = torch.arange(piece.first_col, piece.first_col + piece.cols)
            for at in range(0, piece.rows, 2**16):
                block = rows[at : at + 2**16]
                first = torch.arange(len(block))[:, None] + piece.first_row + at
                shares = scattered(first * width + cols, seed * 1_000_003 + piece.table)
                block.copy_((2 * shares - 1) / width**0.5)

    @torch.no_grad()
    def get_weights(self, rows_at_once=2**16, keep=True):
        """All tables, whole, as CPU tensors; they travel in blocks of so many rows. All
        processes take part; `keep=False` keeps no more than a block, and gives None. `keep` may
        be a list of tensors to fill, such as those of memory-mapped files.
        """
        tables = keep or None
        if keep is True:
            tables = [torch.empty(t.rows, t.width, dtype=self.dtype) for t in self.plan.tables]
        for piece, rows in self.copies.places() if tables else ():
            tables[piece.table].copy_(rows)
        here = dict(self.shards.places())
        for piece in self.plan.pieces:
            for at in range(0, piece.rows, rows_at_once):
                shape = min(rows_at_once, piece.rows - at), piece.cols
                block = torch.empty(shape, dtype=self.dtype, device=self.home)
                if piece in here:
                    block.copy_(here[piece][at : at + rows_at_once])
                copy_from([block], piece.device)
                if tables:
                    _part(tables[piece.table], piece)[at : at + rows_at_once] = block.cpu()
        return tables

    @torch.no_grad()
    def set_weights(self, tables):
        """None; this process's pieces from whole tables; a `np.memmap` is read there alone."""
        shapes, wanted = (
            [tuple(t.shape) for t in tables],
            [(t.rows, t.width) for t in self.plan.tables],
        )
        if shapes != wanted:
            raise ValueError(f"tables of shapes {shapes} came; the plan's are {wanted}")
        for piece, rows in [*self.copies.places(), *self.shards.places()]:
            rows.copy_(torch.as_tensor(_part(tables[piece.table], piece)))


def _part(table, piece):
    """A piece's rectangle of its whole table, as a view."""
    return table[piece.first_row :][
        : piece.rows, piece.first_col : piece.first_col + piece.cols
    ]


def _layers(model):
    return [layer for layer in model.modules() if isinstance(layer, DistributedEmbedding)]


def sharded(model):
    """The parameters that only this process has, by their `id`."""
    return {
        id(weight): weight for layer in _layers(model) for weight in layer.shards.parameters()
    }


def average_gradients(model):
    """None; the gradients become those of the mean loss over all processes' samples.

    What every process has is averaged, in one exchange. A piece of a table has collected those
    of all samples, but each process's loss is a mean over its own: the sum is P times too big.
    """
    local, layers = sharded(model), _layers(model)
    shared = [w for w in model.parameters() if id(w) not in local and w.requires_grad]
    for weight in shared:
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)  # all processes must bring the same tensors
    if world()[1] > 1 and any(weight.grad.is_sparse for weight in shared):
        raise ValueError(
            "a sparse gradient outside the layer: make it dense, or plan its table"
        )
    average([weight.grad for weight in shared], layers[0].traffic if layers else None)
    for weight in local.values():
        if weight.grad is not None:
            weight.grad /= world()[1]


def broadcast(model):
    """None; all processes get process 0's copy of all but the pieces of tables."""
    local = sharded(model)
    copy_from(
        [weight.data for weight in model.parameters() if id(weight) not in local]
        + list(model.buffers())
    )
