"""Time steps and Newton's method for a batch of cases, each at its own time with its own step.

All cases share one loop. In each turn a case takes a Newton iteration, or has converged and
takes its step, or has failed and starts its step anew with a third of the length. So nobody
waits for the slowest case, and the batch shrinks when one reaches the last report time.

A step is at most a tenth of the time already passed, because everything spreads about as √t.
Changes of saturation are limited to 0.2 an iteration (Appleyard's chop).

Legend: B cases, P phases (0 brine, 1 CO₂), Z rows, R rings, T report times.
"""

import torch

from . import equations
from .grid import BAR, DAY_S
from .linear import solve_banded

CHOP = 0.2  # largest change of saturation in one Newton iteration
PRESSURE_CHOP_PA = 5e6
NEWTON_LIMIT = 12
EASY = 8  # a step that took no more iterations than this may be doubled
TOLERANCE = 1e-5  # largest residual, as a share of the brine that fills a cell's pores
BALANCE_TOLERANCE = 1e-7  # the residuals' sum, as a share of the CO₂ injected in the step
ROUNDING = 2.0**-52
FIRST_STEP_S = 0.05 * DAY_S
SMALLEST_STEP_S = 1.0
STEP_FRACTION = 0.1


class Run:
    """A batch under way. `cases` are the numbers of those not yet at the end; the `_out`
    tensors and `balance`, `steps`, `iterations` are for the whole batch."""

    def __init__(self, aquifer, grid, step_fraction):
        batch, rows, rings = aquifer.pore_volume.shape
        self.aquifer, self.step_fraction = aquifer, step_fraction
        new = aquifer.pore_volume.new_zeros
        self.reports = aquifer.pore_volume.new_tensor(grid.times_days) * DAY_S  # float64
        self.saturation_out = new(batch, len(self.reports), rows, rings)
        self.pressure_out = torch.zeros_like(self.saturation_out)
        self.bottom_out, self.balance = new(batch, len(self.reports)), new(batch, 2)
        self.cases = torch.arange(batch)
        self.steps, self.iterations = torch.zeros_like(self.cases), torch.zeros_like(self.cases)
        self.tried, self.reported = torch.zeros_like(self.cases), torch.zeros_like(self.cases)
        self.now, self.dt = new(batch), new(batch) + FIRST_STEP_S
        self.pressure = aquifer.start[..., None].expand(-1, -1, rings).clone()
        self.saturation = torch.zeros_like(self.pressure)
        self.kept = (self.pressure.clone(), self.saturation.clone())
        state = equations.phases(aquifer, self.pressure, self.saturation)
        self.before = equations.masses(aquifer, state, self.pressure, self.saturation)[0]
        self.began = self.before.sum((2, 3)).T  # (B, P) kg
        self.left = torch.zeros_like(self.began)

    def iterate(self):
        """One turn of the loop for every case still under way."""
        system = equations.assemble(
            self.aquifer, self.pressure, self.saturation, self.before, self.dt
        )
        full = self.aquifer.pore_volume * self.aquifer.brine_density[..., None]
        worst = (system.residual / full[:, None]).abs().amax((1, 2, 3))
        # brine of 1e15 kg in all can be summed no better than to a few hundred grams
        imbalance = system.residual.sum((2, 3)).abs()
        allowed = BALANCE_TOLERANCE * (self.aquifer.rate * self.dt)[:, None]
        allowed = allowed + ROUNDING * system.held.sum((2, 3)).T
        good = (worst < TOLERANCE) & (imbalance < allowed).all(1) & (self.tried > 0)
        failed = ~good & ((self.tried >= NEWTON_LIMIT) | ~worst.isfinite())
        onward = (~good & ~failed).nonzero()[:, 0]
        if len(onward):
            self.newton(onward, system)
        if failed.any():
            self.start_anew(failed)
        if good.any():
            self.accept(good, system)

    def newton(self, onward, system):
        """Improve pressure and saturation of the cases `onward` (their places in the batch)."""
        change = solve_banded(system.matrix.take(onward), -system.residual[onward])
        step = change[:, 0].clamp(-PRESSURE_CHOP_PA, PRESSURE_CHOP_PA)
        saturation = (self.saturation[onward] + change[:, 1].clamp(-CHOP, CHOP)).clamp_(min=0)
        self.pressure[onward] += step
        limit = self.aquifer.largest[onward].view(-1, 1, 1)
        self.saturation[onward] = torch.minimum(saturation, limit)
        self.tried[onward] += 1
        self.iterations[self.cases[onward]] += 1

    def start_anew(self, failed):
        """Back to the last accepted state, with a third of the step."""
        self.dt = torch.where(failed, self.dt / 3, self.dt)
        now = (self.pressure, self.saturation)
        self.pressure, self.saturation = _chosen(failed, self.kept, now)
        self.tried[failed] = 0
        if (self.dt < SMALLEST_STEP_S).any():
            raise ArithmeticError(
                f"case {int(self.cases[self.dt.argmin()])} of the batch: Newton's method fails "
                f"even in steps of {SMALLEST_STEP_S} s; the rate may be too large for this rock"
            )

    def accept(self, good, system):
        """Take the step of the cases `good`, report where it is due, choose the next step."""
        self.now = torch.where(good, self.now + self.dt, self.now)
        self.left += torch.where(good[:, None], system.left, 0.0)
        self.before = torch.where(good.view(1, -1, 1, 1), system.held, self.before)
        self.kept = _chosen(good, (self.pressure, self.saturation), self.kept)
        self.steps[self.cases[good]] += 1
        due = good & (self.now >= self.reports[self.reported] * (1 - 1e-12))
        self.report(due.nonzero()[:, 0], system.bottom)
        growth = torch.where(self.tried <= EASY, 2.0, 1.0)
        longest = (self.now * self.step_fraction).clamp(min=FIRST_STEP_S)
        longest = torch.minimum(self.dt * growth, longest)
        ahead = self.reports[self.reported.clamp(max=len(self.reports) - 1)] - self.now
        # equal steps up to the next report, so that none is a short rest
        self.dt = torch.where(good, ahead / (ahead / longest).ceil().clamp(min=1), self.dt)
        self.tried[good] = 0
        done = self.reported >= len(self.reports)
        if done.any():
            self.leave(done)

    def report(self, due, bottom):
        """Keep the fields of the cases `due` for their next report time."""
        cases, at = self.cases[due], self.reported[due]
        start = self.aquifer.start
        self.saturation_out[cases, at] = self.saturation[due]
        self.pressure_out[cases, at] = (self.pressure - start[..., None])[due] / BAR
        top_row = (self.aquifer.well_index > 0).int().argmax(1, keepdim=True)
        self.bottom_out[cases, at] = ((bottom - start.gather(1, top_row)[:, 0]) / BAR)[due]
        self.reported[due] += 1

    def leave(self, done):
        """Drop the cases that are done from the batch, and keep their mass balance."""
        injected = self.aquifer.rate * self.now
        gained = self.before.sum((2, 3)).T - self.began + self.left
        gained[:, 1] -= injected
        self.balance[self.cases[done]] = (gained.abs() / injected[:, None])[done]
        stay = (~done).nonzero()[:, 0]
        self.aquifer, self.before = self.aquifer.take(stay), self.before[:, stay]
        self.kept = tuple(kept[stay] for kept in self.kept)
        for name in ("cases", "now", "dt", "tried", "reported", "began", "left"):
            setattr(self, name, getattr(self, name)[stay])
        self.pressure, self.saturation = self.pressure[stay], self.saturation[stay]


def _chosen(which, first, second):
    """Pairs of (B, Z, R) tensors, case by case from the first or the second."""
    mask = which.view(-1, 1, 1)
    return tuple(torch.where(mask, a, b) for a, b in zip(first, second, strict=True))
