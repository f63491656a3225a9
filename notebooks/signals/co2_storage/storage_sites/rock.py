"""Rock that varies from place to place: permeability as a log-Gaussian field with a
vertical and a radial correlation length, and the porosity that goes with it.

The logarithm of permeability is Gaussian with covariance σ² c(Δz/l_z) c(Δr/l_r); a product,
so its square root is one small matrix for the rows and one for the rings: field = A_z ·
white noise · A_rᵀ, exact on any grid. Four kinds of rock:

    layered      every ring the same: c(Δr) = 1
    continuous   c(x) = exp(−x), rough from cell to cell
    smooth       c(x) = exp(−x²)
    facies       two rocks only, e.g. sand and shale: the sign of a continuous field

Porosity follows permeability, φ = 0.2 + 0.05 log₁₀(k / 100 mD), plus scatter of 0.01 with the
same correlation, between 0.05 and 0.35. A value is the one at the cell's centre: far out, where
rings are wider than l_r, a real ring would average much of the variation away.

Legend: Z rows, R rings.
"""

import numpy as np

KINDS = ("layered", "continuous", "smooth", "facies")
SLOWEST_MD, FASTEST_MD = 0.01, 10_000.0
POROSITY = (0.05, 0.35)


def permeability(
    grid, rng, mean_md=100.0, sigma=0.8, vertical_m=30.0, radial_m=2000.0, kind="continuous"
):
    """(Z, R) horizontal permeability in millidarcy, between 0.01 and 10,000. mean_md: the
    median of the field; sigma: standard deviation of ln k. ValueError for an unknown kind, a
    negative sigma or a length that is not positive."""
    if not (0 < mean_md < np.inf and 0 <= sigma < np.inf):
        raise ValueError(
            f"mean_md = {mean_md}, sigma = {sigma}: a positive median and a spread from 0 on"
        )
    field = mean_md * np.exp(sigma * gaussian(grid, rng, vertical_m, radial_m, kind))
    return field.clip(SLOWEST_MD, FASTEST_MD)


def porosity(grid, rng, permeability_ZR, vertical_m=30.0, radial_m=2000.0, kind="continuous"):
    """(Z, R) porosity that goes with a permeability, between 0.05 and 0.35."""
    scatter = 0.01 * gaussian(grid, rng, vertical_m, radial_m, kind)
    return (0.2 + 0.05 * np.log10(np.asarray(permeability_ZR) / 100) + scatter).clip(*POROSITY)


def gaussian(grid, rng, vertical_m, radial_m, kind="continuous"):
    """(Z, R) of mean 0 and variance 1 with the correlation of a kind of rock; `facies`
    gives −1 and 1."""
    if kind not in KINDS:
        raise ValueError(f"rock {kind!r}: the kinds are {', '.join(KINDS)}")
    for name, value in (("vertical_m", vertical_m), ("radial_m", radial_m)):
        if not 0 < value < np.inf:
            raise ValueError(
                f"{name} = {value}: a correlation length is a positive number of metres"
            )
    rows, rings = grid.shape
    power = 2 if kind == "smooth" else 1
    down = root(grid.depths_m, vertical_m, power)
    if kind == "layered":
        return np.repeat(down @ rng.standard_normal((rows, 1)), rings, axis=1)
    field = down @ rng.standard_normal((rows, rings)) @ root(grid.centres_m, radial_m, power).T
    return np.where(field > 0, 1.0, -1.0) if kind == "facies" else field


def root(places_m, length_m, power=1):
    """A with A·Aᵀ = exp(−|Δ/length|^power) between places (n,): lower triangular, (n, n)."""
    distance = np.abs(places_m[:, None] - places_m[None, :]) / length_m
    # squared exponentials are singular in double precision; 1e-9 is far below what the
    # field resolves
    return np.linalg.cholesky(np.exp(-(distance**power)) + 1e-9 * np.eye(len(places_m)))
