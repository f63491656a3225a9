"""What can be said without showing anything to anybody: offline metrics on a log, and estimates
of what another policy would have earned on it.

For the estimates a log has N rounds: a context, one of A actions taken with the known chance
`propensities` (above 0), its reward. `policy` (N, A) are the new policy's chances in those
contexts, `actions` (N,) what was taken. With w = policy[action] / propensity:

    IPS   = mean(w r)               unbiased where the log may do all that the policy may do
    SNIPS = sum(w r) / sum(w)       a little bias, less variance (Swaminathan, Joachims 2015)
    DR    = mean(sum_a policy[a] q[a] + w (r - q[action]))        (Dudík et al. 2011)
    ESS   = sum(w)^2 / sum(w^2)     rounds of its own that the log is worth (Kish 1965)
"""

import item_network
import torch
from service_requests import need


def weights(propensities, policy, actions):
    """(N,) ratios of the new policy's chance to the log's, all inputs checked."""
    chance, policy, actions = _double(propensities), _double(policy), torch.as_tensor(actions)
    shapes = tuple(chance.shape), tuple(policy.shape), tuple(actions.shape)
    same = policy.ndim == 2 and chance.shape == actions.shape == policy.shape[:1]
    need(same, f"propensities (N,), policy (N, A), actions (N,) are needed, not {shapes}")
    need(len(actions), "the log is empty: 1 or more rounds are needed")
    fine = ((chance > 0) & (chance <= 1)).all()
    need(fine, "propensities are chances of what was done, above 0 and up to 1")
    fine = (policy >= 0).all() and ((policy.sum(1) - 1).abs() < 1e-6).all()
    need(fine, "each row of the policy must hold chances, 0 or more, that sum to 1")
    fine = actions.min() >= 0 and actions.max() < policy.shape[1]
    need(fine, f"actions must lie in 0 to {policy.shape[1] - 1}, the policy's columns")
    return policy.gather(1, actions.long()[:, None])[:, 0] / chance


def ips(rewards, propensities, policy, actions):
    """The mean reward that the policy would have had, by inverse propensities.

    >>> float(ips([1.0, 0.0], [0.5, 0.5], [[1.0, 0.0], [1.0, 0.0]], [0, 1]))
    1.0
    """
    w = weights(propensities, policy, actions)
    return (w * _rewards(rewards, w)).mean()


def snips(rewards, propensities, policy, actions):
    """The same with weights that sum to one; refused where no action of the log is taken."""
    w = weights(propensities, policy, actions)
    need(w.sum() > 0, "the policy never takes an action of the log, so no estimate is possible")
    return (w * _rewards(rewards, w)).sum() / w.sum()


def doubly_robust(rewards, propensities, policy, actions, model):
    """The model's rewards (N, A) under the policy, corrected by its errors on what was seen."""
    w, policy = weights(propensities, policy, actions), _double(policy)
    model, actions = _double(model), torch.as_tensor(actions).long()
    fine = model.shape == policy.shape and model.isfinite().all()
    need(fine, f"the model must hold finite rewards of shape {tuple(policy.shape)}")
    taken = model.gather(1, actions[:, None])[:, 0]
    return ((policy * model).sum(1) + w * (_rewards(rewards, w) - taken)).mean()


def effective_sample_size(propensities, policy, actions):
    """How many rounds of the policy's own would tell as much; N where policy and log agree."""
    w = weights(propensities, policy, actions)
    return w.sum() ** 2 / (w**2).sum() if w.sum() > 0 else w.sum()


def _double(values):
    """float64, on the way from a list too: its default would be float32."""
    return torch.as_tensor(values, dtype=torch.float64)


def _rewards(rewards, w):
    r = _double(rewards)
    fine = r.shape == w.shape and r.isfinite().all()
    need(fine, f"rewards must be finite, one a round, {tuple(w.shape)}, not {tuple(r.shape)}")
    return r


@torch.no_grad()
def offline_metrics(
    net, known, log, tested_U, weight=0.0, cold_I=None, hidden_I=None, generator=None
):
    """{"mrr_at_25", "precision_at_10", "coverage"} over the users of a mask.

    Nine tenths of a user's clicks are read, the last tenth is sought; who has fewer than ten is
    passed over, and what was read is not recommended again. Coverage is the share of the items
    (but the hidden ones) that stand in anybody's ten.
    """
    history, _ = item_network.sequences(log, len(tested_U))
    total = (history >= 0).sum(1)
    who = (tested_U & (total >= 10)).nonzero()[:, 0]
    need(len(who), "no tested user has 10 clicks or more, so there is nothing to measure on")
    read, clicks = (0.9 * total[who]).long(), history[who]
    phi = net.states(clicks, known.mean_IP)[torch.arange(len(who), device=who.device), read]
    found = item_network.scores(known, phi, weight, cold_I, generator)
    early = torch.arange(clicks.shape[1], device=who.device) < read[:, None]
    row, at = ((clicks >= 0) & early).nonzero(as_tuple=True)
    found[row, clicks[row, at]] = -torch.inf
    hidden_I = torch.zeros_like(found[0], dtype=torch.bool) if hidden_I is None else hidden_I
    found[:, hidden_I] = -torch.inf
    sought = torch.zeros_like(found, dtype=torch.bool)
    row, at = ((clicks >= 0) & ~early).nonzero(as_tuple=True)
    sought[row, clicks[row, at]] = True
    best = found.topk(min(25, int((~hidden_I).sum()))).indices
    hits = sought.gather(1, best).double()
    first = (hits / torch.arange(1, hits.shape[1] + 1, device=hits.device)).max(1).values
    covered = len(torch.unique(best[:, :10])) / int((~hidden_I).sum())
    precision = float(hits[:, :10].sum(1).mean() / 10)
    return {"mrr_at_25": float(first.mean()), "precision_at_10": precision, "coverage": covered}
