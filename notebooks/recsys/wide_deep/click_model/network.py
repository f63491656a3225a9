"""The Wide & Deep model.

Article: "Accelerating the Wide & Deep Model Workflow from 25 Hours to 10 Minutes Using NVIDIA
GPUs" (NVIDIA Technical Blog, 29 April 2021); the idea is Cheng et al. 2016, arXiv:1606.07792.

    p = σ(wide + deep)
    wide = b + w_num·x + Σ_c W_c[index_c] + Σ_h Σ_k W_h[index_hk]      one weight per bucket
    deep = MLP(concat(E_c[index_c], Σ_k E_h[index_hk], x))             5 × 1024, ReLU, dropout

We keep the published sizes (91,777,245 parameters) but not its 32 tables: features of the same
width share one, each behind its own offset, so that one gather serves them all. A bucket beyond
a feature's own would read its neighbour's rows, so buckets are checked.

Shapes: `B` rows, `C` categorical features, `H` multi-hot features of `K` slots (bucket 0 is an
empty slot), `F` numbers, `D` width of the embedded row; of a table `N` rows of width `D`.
"""

from dataclasses import dataclass
from itertools import accumulate

import torch
from click_features import spec
from torch import nn
from torch.nn import functional

PARTS = ("both", "wide", "deep")


@dataclass(frozen=True)
class Sizes:
    """Buckets and embedding widths of all features, and the deep part's layers.

    >>> Sizes.published().scaled(buckets=0.01, dims=1 / 8, hidden=(64, 64)).dims[:5]
    (16, 16, 16, 16, 8)
    """

    buckets: tuple
    dims: tuple
    hot_buckets: tuple
    hot_dims: tuple
    numbers: int = 13
    hidden: tuple = (1024,) * 5

    def __post_init__(self):
        pairs = ((self.buckets, self.dims), (self.hot_buckets, self.hot_dims))
        if any(len(many) != len(dims) for many, dims in pairs):
            raise ValueError(f"each feature needs buckets and a width; they are {pairs}")
        counts = (*self.buckets, *self.dims, *self.hot_buckets, *self.hot_dims, *self.hidden)
        if min(counts, default=0) < 1 or self.numbers < 0:
            raise ValueError(f"sizes count from 1, numbers from 0; they are {self}")

    @staticmethod
    def published():
        """The sizes of the article's model, in the order of the features table: 91,777,245
        parameters, 367 MB in float32.
        """
        many, hot = spec.BUCKETS, spec.HOT_BUCKETS
        return Sizes(
            tuple(many.values()),
            tuple(spec.DIMS[key] for key in many),
            tuple(hot.values()),
            tuple(spec.HOT_DIMS[name] for name in hot),
            len(spec.NUMBERS),
        )

    def scaled(self, buckets=1.0, dims=1.0, hidden=None):
        """These sizes with so many times the buckets (2 at least) and widths (1 at least)."""

        def grown(values, times, least):
            return tuple(max(least, round(n * times)) for n in values)

        return Sizes(
            grown(self.buckets, buckets, 2),
            grown(self.dims, dims, 1),
            grown(self.hot_buckets, buckets, 2),
            grown(self.hot_dims, dims, 1),
            self.numbers,
            tuple(hidden or self.hidden),
        )


def look_up(weight, at, sparse=False):
    """Rows (*at.shape, D) of weight (N, D).

    On a CPU the dense gradient of `index_select` costs a fraction of `embedding`'s; on a GPU
    its atomic additions would queue up at the few rows of small features.
    """
    if sparse or weight.is_cuda:
        return functional.embedding(at, weight, sparse=sparse)
    return weight.index_select(0, at.flatten()).reshape(*at.shape, weight.shape[1])


def look_up_sum(weight, at, sparse=False, fused=None):
    """Sums (*at.shape[:-1], D) of rows of weight (N, D) over at's last axis, row 0 left out.

    fused: in one kernel, which holds no single rows; None does so on a GPU.
    """
    if weight.is_cuda if fused is None else fused:
        flat = at.reshape(-1, at.shape[-1])
        rows = functional.embedding_bag(flat, weight, mode="sum", padding_idx=0, sparse=sparse)
        return rows.reshape(*at.shape[:-1], weight.shape[1])
    return (look_up(weight, at, sparse) * (at != 0)[..., None]).sum(-2)


def glorot_normal(rows, columns):
    """(rows, columns) normal, cut at two deviations, of variance 2 / (rows + columns)."""
    deviation = (2 / (rows + columns)) ** 0.5 / 0.87962566103423978  # the cut takes this
    return nn.init.trunc_normal_(
        torch.empty(rows, columns), 0, deviation, -2 * deviation, 2 * deviation
    )


def linear(width, size):
    """An affine layer with Keras's start: Glorot uniform weights, bias 0."""
    layer = nn.Linear(width, size)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class Tables(nn.Module):
    """Embeddings (B, D) of one bucket per feature: features of one width share a table.

    >>> Tables((300, 4, 20), (8, 3, 8))(torch.tensor([[299, 0, 19]])).shape
    torch.Size([1, 19])

    The result is sorted by width, widest first, and by feature within. With slots (B, C, K) a
    feature's embedding is the sum over its slots, bucket 0 adding nothing.
    """

    def __init__(self, buckets, dims, sparse=False):
        super().__init__()
        self.features, self.weights = [], nn.ParameterList()
        self.sparse, self.width = sparse, sum(dims)
        for number, dim in enumerate(sorted(set(dims), reverse=True)):
            own = [c for c, width in enumerate(dims) if width == dim]
            sizes = [buckets[c] for c in own]
            self.features.append(own)
            offsets = torch.tensor([0, *accumulate(sizes)][:-1])
            self.register_buffer(f"offsets_{number}", offsets, persistent=False)
            self.weights.append(torch.cat([glorot_normal(size, dim) for size in sizes]))

    def forward(self, index):
        found = []
        for number, weight in enumerate(self.weights):
            own, offsets = self.features[number], getattr(self, f"offsets_{number}")
            at = index if len(own) == index.shape[1] else index[:, own]
            if index.dim() == 2:
                rows = look_up(weight, at + offsets, self.sparse)
            else:
                # all empty slots point at row 0, which is an empty slot's own
                at = torch.where(at == 0, 0, at + offsets[:, None])
                rows = look_up_sum(weight, at, self.sparse)
            found.append(rows.reshape(len(index), len(own) * weight.shape[1]))
        return torch.cat(found, 1) if found else torch.empty(len(index), 0, device=index.device)


class Wide(nn.Module):
    """Logits (B,) linear in the features: one weight per bucket and number, and a bias.

    All weights start at 0; all buckets lie in one table, which is read in one sum. Its row 0 is
    the empty slot of the first multi-hot feature.
    """

    def __init__(self, sizes, sparse=False):
        super().__init__()
        starts = [0, *accumulate((*sizes.hot_buckets, *sizes.buckets))]
        hot = len(sizes.hot_buckets)
        hot_offsets = torch.tensor(starts[:hot], dtype=torch.long)
        self.register_buffer("hot_offsets", hot_offsets, persistent=False)
        self.register_buffer("offsets", torch.tensor(starts[hot:-1]), persistent=False)
        self.weight, self.sparse = nn.Parameter(torch.zeros(starts[-1], 1)), sparse
        self.numbers = nn.Parameter(torch.zeros(sizes.numbers))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, categories, multi_hot, numbers):
        hot = torch.where(multi_hot == 0, 0, multi_hot + self.hot_offsets[:, None])
        at = torch.cat([categories + self.offsets, hot.flatten(1)], 1)
        if not len(self.hot_offsets):  # then row 0 is a category's
            linear = look_up(self.weight, at, self.sparse).sum(1)
        else:
            linear = look_up_sum(self.weight, at, self.sparse)
        # not a matrix product, which autocast would round
        return linear[:, 0] + (numbers * self.numbers).sum(1) + self.bias


class Deep(nn.Module):
    """Logits (B,) of an MLP over embeddings and numbers: ReLU and dropout after each layer."""

    def __init__(self, sizes, dropout=0.1, sparse=False):
        super().__init__()
        self.tables = Tables(sizes.buckets, sizes.dims, sparse)
        self.hot = Tables(sizes.hot_buckets, sizes.hot_dims, sparse)
        layers, width = [], self.tables.width + self.hot.width + sizes.numbers
        for size in sizes.hidden:
            layers += [linear(width, size), nn.ReLU(), nn.Dropout(dropout)]
            width = size
        self.layers, self.last = nn.Sequential(*layers), linear(width, 1)

    def forward(self, categories, multi_hot, numbers):
        row = torch.cat([self.tables(categories), self.hot(multi_hot), numbers], 1)
        row = self.layers(row)
        # a logit of 8 bits would tie ads that differ, so the last layer stays in full precision
        with torch.autocast(row.device.type, enabled=False):
            return self.last(row.to(self.last.weight.dtype))[:, 0]


class WideDeep(nn.Module):
    """Logits (B,) of a click: the sum of a linear and a deep part.

    >>> model = WideDeep(Sizes.published().scaled(0.01, 0.125, hidden=(64, 64)))
    >>> model(categories, multi_hot, numbers)       # (B, C), (B, H, K) int64, (B, F) float

    parts: "both", "wide" or "deep". sparse: gradients of the tables hold only the rows that a
    batch touched. Weights are drawn from torch's generator as Keras does it. Raises ValueError
    for wrong shapes and, on a CPU, for buckets outside a feature's own (`check` does it
    anywhere). Source: the article's figure 1; buckets and widths as in its repository.
    """

    def __init__(self, sizes, parts="both", dropout=0.1, sparse=False):
        super().__init__()
        if parts not in PARTS:
            raise ValueError(f"parts={parts!r}; allowed are {PARTS}")
        self.sizes, self.parts, self.sparse = sizes, parts, sparse
        self.wide = Wide(sizes, sparse) if parts != "deep" else None
        self.deep = Deep(sizes, dropout, sparse) if parts != "wide" else None

    def forward(self, categories, multi_hot, numbers):
        if categories.device.type == "cpu" and not torch.compiler.is_compiling():
            self.check(categories, multi_hot, numbers)
        parts = [part for part in (self.wide, self.deep) if part is not None]
        return sum(part(categories, multi_hot, numbers) for part in parts)

    def check(self, categories, multi_hot, numbers):
        """None; raises ValueError where shapes or buckets are not this model's."""
        sizes = self.sizes
        wanted = {"categories": len(sizes.buckets), "multi_hot": len(sizes.hot_buckets)}
        for name, found, count in (
            ("categories", categories, wanted["categories"]),
            ("multi_hot", multi_hot, wanted["multi_hot"]),
            ("numbers", numbers, sizes.numbers),
        ):
            axes = 3 if name == "multi_hot" else 2
            if found.dim() != axes or found.shape[1] != count or len(found) != len(numbers):
                raise ValueError(
                    f"{name} has shape {tuple(found.shape)}; {len(numbers)} rows of {count} "
                    f"features in {axes} axes are needed"
                )
        _check_buckets("categories", categories, sizes.buckets)
        _check_buckets("multi_hot", multi_hot.transpose(1, 2).flatten(0, 1), sizes.hot_buckets)


def _check_buckets(name, index, buckets):
    if not index.numel():
        return
    low, high = index.aminmax(dim=0)
    bad = (low < 0) | (high >= torch.tensor(buckets, device=index.device))
    if bad.any():
        at = int(bad.nonzero()[0, 0])
        raise ValueError(
            f"{name}: feature {at} has buckets {int(low[at])} to {int(high[at])}; "
            f"allowed are 0 to {buckets[at] - 1}"
        )
