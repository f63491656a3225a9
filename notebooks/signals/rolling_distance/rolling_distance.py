"""Rolling distances: how far a short query is from every window of a long stream.

Article: "Aligning Time Series at the Speed of Light" (rapidAligner, NVIDIA). Three lock-step
measures, all *squared*: `sdist` compares raw values, `mdist` removes each window's mean,
`zdist` also divides by its standard deviation. With q0 = q - mean(q), C_j = sum_i q0_i
s_(j+i), and mean mu_j and squared deviation V_j = sum_i (s_(j+i) - mu_j)^2 of the window that
starts at j:

    mdist_j = |q0|^2 + V_j - 2 C_j        sdist_j = mdist_j + M (mu_j - mu_q)^2
    zdist_j = 2 M (1 - C_j / sqrt(|q0|^2 V_j))

We differ from the article's library in four ways. C comes from short overlapping blocks
(overlap-save; Stockham 1966) that stay in cache, not from one FFT of the whole stream. Each
block is centred on its own mean, which changes neither C nor V, so that a large offset costs
no digits. Sums run inside a block, in float64, so that a float32 stream of any length keeps
accurate statistics. Windows where rounding could still matter (near-copies of the query, quiet
windows beside a loud outlier) are found by an error bound and computed again by direct
differences.

Legend: B blocks, L block length, N stream length, M query length, K queries, J = L - M + 1
windows per block, W windows.
"""

import torch
from match_ranking import Matches, top_matches
from overlap_save import block_length, compiles, empty, over_blocks, query_spectrum
from stream_inputs import as_tensor, check_lengths, normalise, queries_of

__all__ = ["Matches", "finish", "mdist", "rolling_mean_std", "sdist", "top_matches", "zdist"]

# query length from which `auto` takes the FFT: where the two modes took equally long on a quiet
# machine: compiled float32 between 96 and 112 on one core and on two, float64 80 to 112
CROSSOVER = {
    "compiled": {torch.float64: 96, torch.float32: 112},
    "torch": {torch.float64: 40, torch.float32: 40},
}
# a squared distance (or energy) that rounding may put off by more than this share is
# computed again, directly
EXACT_TO = {torch.float32: 2e-3, torch.float64: 1e-8}
POINTS_AT_ONCE = 1 << 20  # of windows computed again directly


def sdist(query, stream, mode="auto"):
    """Squared Euclidean distance of `query` to every window of `stream`, shape (N-M+1,).

    >>> sdist(np.array([1.0, 2.0]), np.array([1.0, 2.0, 4.0]))
    array([0., 5.])

    query (M,), or (K, M) for many at once, giving (K, N-M+1); stream (N,); both NumPy arrays,
    torch tensors or anything with DLPack, on one device. The result is NumPy's if the stream
    is, else a tensor, of its device and dtype: float32 or float64; integers count as float64,
    half floats as float32. A window that touches a NaN or infinite sample gets infinity. mode:
    `naive` costs O(N M), `fft` O(N log M), `auto` picks by M; beyond the result, memory is
    bounded.

    Raises ValueError for an empty or non-finite query, M > N, another number of axes, two
    devices, another mode.
    """
    return _distances("sdist", query, stream, mode)


def mdist(query, stream, mode="auto"):
    """Squared Euclidean distance after both sides lose their mean, shape (N-M+1,); arguments
    as `sdist`.

    >>> mdist(np.array([1.0, 2.0]), np.array([11.0, 12.0, 14.0])).round(6)
    array([0. , 0.5])
    """
    return _distances("mdist", query, stream, mode)


def zdist(query, stream, mode="auto"):
    """Squared Euclidean distance after both sides are z-normalised (ddof 0), shape (N-M+1,);
    arguments as `sdist`.

    >>> zdist(np.array([1.0, 2.0, 1.0]), np.array([10.0, 30.0, 10.0, 10.0])).round(6)
    array([0., 9.])

    Lies between 0 and 4 M. A constant window or query has no shape: it normalises to zeros, so
    that the distance is M to anything else and 0 to another constant.
    """
    return _distances("zdist", query, stream, mode)


def rolling_mean_std(stream, window):
    """Mean and population standard deviation of every window: two arrays of shape
    (N-window+1,).

    >>> [x.tolist() for x in rolling_mean_std(np.array([1.0, 3.0, 3.0]), 2)]
    [[2.0, 3.0], [1.0, 0.0]]

    The statistics inside `zdist`: accurate in float32 whatever the offset and the length of
    the stream. A window with a non-finite sample gets infinity. The rest as `sdist`.
    """
    stream_N, dtype, give_back = as_tensor(stream, "stream")
    check_lengths(window, len(stream_N))
    mean_W, std_W = empty(2, len(stream_N) - window + 1, dtype=dtype, device=stream_N.device)

    def fill(first, block):
        _part(mean_W, first, block).copy_(block.mean_BJ())
        _part(std_W, first, block).copy_((block.energy_BJ / window).sqrt_())
        doubtful_BJ = block.energy_error_B1 > EXACT_TO[torch.float64] * block.energy_BJ
        for at_W, windows_WM in _chosen(stream_N, block, first, doubtful_BJ):
            std_W[at_W] = windows_WM.std(1, correction=0).to(dtype)
        for out_W in (mean_W, std_W) if block.lost_BJ is not None else ():
            _part(out_W, first, block).masked_fill_(block.lost_BJ, torch.inf)

    over_blocks(fill, stream_N, window, dtype)
    return give_back(mean_W), give_back(std_W)


def _distances(measure, query, stream, mode):
    stream_N, dtype, give_back = as_tensor(stream, "stream")
    queries, single = queries_of(query, stream_N.device, dtype)
    window, total = len(queries[0].raw_M), len(stream_N)
    check_lengths(window, total)
    if mode not in ("auto", "naive", "fft"):
        raise ValueError(f'mode must be "auto", "naive" or "fft", got {mode!r}')
    passes = "compiled" if compiles(stream_N.device) else "torch"
    use_fft = mode == "fft" or (mode == "auto" and window >= CROSSOVER[passes][dtype])
    out_KW = empty(len(queries), total - window + 1, dtype=dtype, device=stream_N.device)
    length = block_length(total, window)
    factors = [query_spectrum(q.unit_M, length) for q in queries] if use_fft else []

    def fill(first, block):
        spectrum = block.spectrum() if use_fft else None
        for k, q in enumerate(queries):
            if use_fft:
                dots = block.correlate(spectrum, factors[k])
            else:
                dots = block.correlate_directly(q.unit_M)
            if finish(measure, q, block, dots, _part(out_KW[k], first, block)):
                _repair(measure, q, block, stream_N, first, out_KW[k])

    over_blocks(fill, stream_N, window, dtype)
    return give_back(out_KW[0] if single else out_KW)


def finish(measure, q, block, dots_BL, out_BJ):
    """Whether rounding may have put off a window too far; fills in squared distances, from dot
    products with the unit query, by the equations at the top."""
    window, dots_BJ = block.window, dots_BL[:, : out_BJ.shape[1]]
    limit_B1 = _error(measure, q, block, block.least_B1) / EXACT_TO[out_BJ.dtype]
    if block.flat_BJ is not None:
        dots_BJ.masked_fill_(block.flat_BJ, 0.0)
    if block.compiled:
        doubt = block.finish_compiled(measure, q, limit_B1, dots_BL, out_BJ)
    elif measure == "zdist":
        out_BJ.copy_(block.energy_BJ).rsqrt_().mul_(dots_BJ).mul_(-2 * window)
        out_BJ.add_(2 * window)
    else:
        wide_BJ = (dots_BJ.double() * (-2 * q.norm)).add_(block.energy_BJ).add_(q.norm**2)
        if measure == "sdist":
            offset_BJ = block.mean_BJ().sub_(q.mean)
            wide_BJ.addcmul_(offset_BJ, offset_BJ, value=window)
        out_BJ.copy_(wide_BJ)
    if measure == "zdist" and q.norm == 0:
        out_BJ.fill_(window)
    if measure == "zdist" and block.flat_BJ is not None:
        out_BJ.masked_fill_(block.flat_BJ, 0.0 if q.norm == 0 else window)
    if block.lost_BJ is not None:
        out_BJ.masked_fill_(block.lost_BJ, torch.inf)
    return doubt if block.compiled else not (limit_B1 <= out_BJ.amin(1, keepdim=True)).all()


def _repair(measure, q, block, stream_N, first, out_W):
    """Compute again, by direct differences, the windows of `block` that rounding may have put
    off too far."""
    found_BJ = _part(out_W, first, block)
    error_BJ = _error(measure, q, block, block.energy_BJ)
    doubtful_BJ = ~(error_BJ <= EXACT_TO[out_W.dtype] * found_BJ)
    for at_W, windows_WM in _chosen(stream_N, block, first, doubtful_BJ):
        difference_WM = normalise(measure, windows_WM) - normalise(measure, q.raw_M)
        out_W[at_W] = difference_WM.square_().sum(1).to(out_W.dtype)


def _error(measure, q, block, energy):
    """How far off rounding may put the squared distance of windows with this energy."""
    if measure == "zdist":
        share = block.dot_error_B1 / energy.sqrt() + block.energy_error_B1 / (2 * energy)
        return 2 * block.window * share
    return 2 * q.norm * block.dot_error_B1 + block.energy_error_B1 + 0 * energy


def _chosen(stream_N, block, first, mask_BJ):
    """Positions and float64 windows (W, M) of the marked windows, a bounded number at once;
    without the flat ones, which are exact already, and the lost."""
    for known_BJ in (block.flat_BJ, block.lost_BJ):
        mask_BJ = mask_BJ if known_BJ is None else mask_BJ & ~known_BJ
    at_W, count = first + mask_BJ.reshape(-1).nonzero().view(-1), POINTS_AT_ONCE // block.window
    for some_W in at_W.split(max(1, count)) if len(at_W) else ():
        yield some_W, stream_N.unfold(0, block.window, 1)[some_W].double()


def _part(out_W, first, block):
    """The stretch of the result that a group of blocks fills, shaped (B, J)."""
    blocks_B, windows_J = block.shape_BJ
    return out_W[first : first + blocks_B * windows_J].view(blocks_B, windows_J)
