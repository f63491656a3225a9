"""Off-policy estimates against obp and known answers; offline metrics; a real log.

`reference_estimates.json` holds what the library obp says of the logs of `reference_logs`. To
make it anew, in an environment of its own beside this book's requirements (obp asks for a
Python below 3.11, and runs on this one):

    pip install --no-deps --ignore-requires-python obp==0.5.7 pandas==2.3.3 seaborn
    python test_off_policy.py
"""

import json
import os
from dataclasses import replace
from pathlib import Path

import click_world
import item_network
import numpy as np
import off_policy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from item_network import Beliefs, Recipe

REFERENCE = Path(__file__).with_name("reference_estimates.json")
CASES = json.loads(REFERENCE.read_text("utf-8"))["cases"]


def reference_logs():
    """Logs whose chances differ from round to round, with a new policy and a model of rewards.

    In the first ones the model is noise. In the last it is one of obp's: a logistic regression
    on context and action, fitted to another log of the same world.
    """
    luck = np.random.default_rng(7)
    for rounds, actions in ((1, 2), (37, 3), (120, 5)):
        logging = 0.9 * luck.dirichlet(np.ones(actions), rounds) + 0.1 / actions
        policy = luck.dirichlet(np.ones(actions), rounds)
        chances = np.full((rounds, actions), 0.5)
        yield drawn(luck, logging, chances), policy, luck.random((rounds, actions))
    appeal, (pull, *habits) = luck.normal(size=4), luck.normal(size=(9, 3))
    old, new = np.array(habits).reshape(2, 3, 4)
    logs, contexts = [], luck.normal(size=(2, 300, 3))
    for context in contexts:
        chances = 1 / (1 + np.exp(-2 * (context @ pull)[:, None] - appeal))
        logs.append(drawn(luck, 0.9 * softmax(context @ old) + 0.025, chances))
    yield logs[1], softmax(contexts[1] @ new), fitted_by_obp(*logs[0][:2], *contexts)


def drawn(luck, logging, chances):
    """(rewards, actions, their chances) of one round for each row."""
    action = np.array([luck.choice(len(row), p=row) for row in logging])
    rows = np.arange(len(action))
    reward = luck.random(len(action)) < chances[rows, action]
    return reward.astype(float), action, logging[rows, action]


def softmax(values):
    shares = np.exp(values - values.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


def fitted_by_obp(reward, action, context, other):
    """What obp's model of that log expects in other contexts, for each action."""
    from obp.ope import RegressionModel
    from sklearn.linear_model import LogisticRegression

    model = RegressionModel(n_actions=4, base_model=LogisticRegression(C=10.0))
    model.fit(context=context, action=action, reward=reward)
    return model.predict(context=other)[:, :, 0]


def main():
    """Ask obp, and write the file."""
    from obp import ope

    cases = []
    for (reward, action, chance), policy, model in reference_logs():
        chance, policy, model = (np.round(one, 6) for one in (chance, policy, model))
        policy[:, -1] = 1 - policy[:, :-1].sum(1)
        about = {"reward": reward, "action": action, "pscore": chance}
        about["action_dist"] = policy[:, :, None]
        robust = about | {"estimated_rewards_by_reg_model": model[:, :, None]}
        found = {
            "ips": ope.InverseProbabilityWeighting().estimate_policy_value(**about),
            "snips": ope.SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(
                **about
            ),
            "doubly_robust": ope.DoublyRobust().estimate_policy_value(**robust),
        }
        case = {"rewards": reward, "propensities": chance, "policy": policy, "actions": action}
        case = {
            name: np.round(one, 6).tolist() for name, one in (case | {"model": model}).items()
        }
        cases.append(case | {"obp": {name: float(value) for name, value in found.items()}})
    REFERENCE.write_text(json.dumps({"cases": cases}) + "\n", encoding="utf-8")


def arguments(case):
    return case["rewards"], case["propensities"], case["policy"], case["actions"]


def test_the_reference_s_chances_vary_and_its_last_model_is_a_real_one():
    assert [len(case["rewards"]) for case in CASES] == [1, 37, 120, 300]
    for case in CASES:
        assert len(set(case["propensities"])) > 0.9 * len(case["rewards"])
    model, rewards = torch.tensor(CASES[-1]["model"]), torch.tensor(CASES[-1]["rewards"])
    taken = model.gather(1, torch.tensor(CASES[-1]["actions"])[:, None])[:, 0]
    assert ((taken - rewards) ** 2).mean() < 0.9 * rewards.var()  # it tells more than the mean


@pytest.mark.parametrize("case", CASES)
def test_estimates_are_those_of_obp(case):
    found = {
        "ips": off_policy.ips(*arguments(case)),
        "snips": off_policy.snips(*arguments(case)),
        "doubly_robust": off_policy.doubly_robust(*arguments(case), case["model"]),
    }
    for name, wanted in case["obp"].items():
        assert abs(float(found[name]) - wanted) < 1e-9, name


def test_the_logs_own_policy_is_its_mean_and_worth_all_rounds():
    policy = torch.tensor([[0.25, 0.75]]).expand(4, 2)
    actions, rewards = [0, 1, 1, 0], [1.0, 0.0, 1.0, 1.0]
    chance = [0.25, 0.75, 0.75, 0.25]
    for estimate in (off_policy.ips, off_policy.snips):
        assert float(estimate(rewards, chance, policy, actions)) == 0.75
    assert float(off_policy.effective_sample_size(chance, policy, actions)) == 4


def test_a_right_model_makes_the_robust_estimate_exact_whatever_the_chances():
    model, policy = [[0.2, 0.9], [0.4, 0.1]], [[0.5, 0.5], [1.0, 0.0]]
    args = [0.9, 0.4], [0.3, 0.01], policy, [1, 0]
    assert abs(float(off_policy.doubly_robust(*args, model)) - (0.55 + 0.4) / 2) < 1e-7


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_snips_stays_within_the_rewards_and_moves_with_them(seed):
    luck = torch.Generator().manual_seed(seed)
    policy = torch.softmax(torch.randn(20, 3, generator=luck).double(), 1)
    actions = torch.randint(0, 3, (20,), generator=luck)
    chance = 0.05 + 0.9 * torch.rand(20, generator=luck)
    rewards = torch.rand(20, generator=luck).double()
    found = off_policy.snips(rewards, chance, policy, actions)
    assert rewards.min() <= found <= rewards.max()
    shifted = off_policy.snips(rewards + 5, chance, policy, actions)
    assert abs(float(shifted - found) - 5) < 1e-9


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"propensities": [0.0, 0.5]}, "propensities are chances"),
        ({"propensities": [1.5, 0.5]}, "propensities are chances"),
        ({"propensities": [float("nan"), 0.5]}, "propensities are chances"),
        ({"propensities": [0.5]}, "are needed, not"),
        ({"policy": [[0.5, 0.6], [1.0, 0.0]]}, "sum to 1"),
        ({"policy": [[-0.5, 1.5], [1.0, 0.0]]}, "sum to 1"),
        ({"actions": [0, 2]}, "actions must lie in 0 to 1"),
        ({"actions": [-1, 0]}, "actions must lie in 0 to 1"),
        ({"rewards": [float("inf"), 0.0]}, "rewards must be finite"),
        ({"rewards": [1.0]}, "one a round"),
    ],
)
def test_logs_without_a_meaning_are_refused(changes, says):
    good = {"rewards": [1.0, 0.0], "propensities": [0.5, 0.5]}
    good |= {"policy": [[0.5, 0.5], [1.0, 0.0]], "actions": [0, 1]}
    with pytest.raises(ValueError, match=says):
        off_policy.ips(**(good | changes))


def test_no_overlap_an_empty_log_and_a_bad_model_are_refused():
    with pytest.raises(ValueError, match="never takes"):
        off_policy.snips([1.0], [0.5], [[0.0, 1.0]], [0])
    with pytest.raises(ValueError, match="empty"):
        off_policy.ips([], [], torch.zeros(0, 2), [])
    with pytest.raises(ValueError, match="finite rewards of shape"):
        off_policy.doubly_robust([1.0], [0.5], [[0.5, 0.5]], [0], [[1.0]])


def bandit_log(name):
    """(items, clicks, chances) of a file of the Open Bandit Dataset. Its licence is not
    confirmed: it is no part of the book, and nothing of it is shown. The column of chances is
    `propensity_score`; the data's description calls it action_prob."""
    folder = os.environ.get("REBUILT_DATA_MIRROR")
    path = Path(folder or ".") / "open_bandit" / name
    if not folder or not path.is_file():
        pytest.skip("no Open Bandit file in the mirror")
    with open(path, encoding="utf-8") as file:
        head = file.readline().rstrip().split(",")
        columns = [head.index(name) for name in ("item_id", "click", "propensity_score")]
        item, click, chance = np.genfromtxt(file, delimiter=",", usecols=columns).T
    return torch.tensor(item).long(), torch.tensor(click), torch.tensor(chance)


def test_on_a_real_log_with_varied_chances_the_estimates_are_the_plain_sums():
    """The model is each item's click rate in another real log, which was shown at random."""
    item, click, chance = bandit_log("bts_men.csv")
    assert len(chance.unique()) > 30 and chance.min() > 0
    count = int(item.max()) + 1
    other, clicked, same = bandit_log("random_men.csv")
    assert len(same.unique()) == 1
    looks, hits = (torch.bincount(other, w, count) for w in (None, clicked))
    model = (hits + clicked.mean()) / (looks + 1)
    shares = torch.softmax(300 * model, 0)
    args = click, chance, shares.expand(len(item), -1), item
    w = shares[item] / chance
    rounds, total = len(item), float((w * click).sum())
    naive = total / rounds, total / float(w.sum())
    naive += (float(shares @ model) + float((w * (click - model[item])).sum()) / rounds,)
    naive += (float(w.sum() ** 2 / (w**2).sum()),)
    found = off_policy.ips(*args), off_policy.snips(*args)
    found += (off_policy.doubly_robust(*args, model.expand(rounds, -1)),)
    found += (off_policy.effective_sample_size(*args[1:]),)
    for one, wanted in zip(found, naive, strict=True):
        assert abs(float(one) - wanted) < 1e-9 * max(1, wanted)


def ranked_by_number(items):
    """A network whose scores are the items' numbers, lowest first, for everybody."""
    net = item_network.ItemNetwork(torch.zeros(items, 2), 3)
    mean = torch.zeros(items, 4)
    mean[:, -1] = -torch.arange(items, dtype=torch.float32)
    eye = torch.eye(4).expand(items, -1, -1)
    return net, Beliefs(mean, eye, eye, torch.ones(4))


def clicks_of_one_user(clicked):
    items = torch.tensor(clicked)[:, None]
    user = torch.zeros(len(clicked), dtype=torch.long)
    hours, yes = torch.arange(len(clicked)).float(), torch.ones_like(items, dtype=torch.bool)
    return click_world.SlateLog(user, hours, items, torch.zeros_like(items), yes)


def test_offline_metrics_have_their_known_values():
    """Nine clicks are read, and the tenth stands third of what is left."""
    net, known = ranked_by_number(40)
    log = clicks_of_one_user([20, 21, 22, 23, 24, 25, 26, 0, 1, 4])
    found = off_policy.offline_metrics(net, known, log, torch.tensor([True]))
    assert abs(found["mrr_at_25"] - 1 / 3) < 1e-9  # items 2 and 3 stand before 4
    assert abs(found["precision_at_10"] - 0.1) < 1e-9
    assert abs(found["coverage"] - 10 / 40) < 1e-9


def test_only_the_tested_users_are_judged():
    """The other one, whom the network was trained on, would halve the mean and be covered."""
    net, known = ranked_by_number(40)
    one, other = (clicks_of_one_user([*range(20, 27), 0, 1, last]) for last in (4, 39))
    other.user_S[:] = 1
    both, who = click_world.join([one, other]), torch.tensor([True, False])
    alone = off_policy.offline_metrics(net, known, one, who)
    assert alone == off_policy.offline_metrics(net, known, both, who)
    assert abs(alone["mrr_at_25"] - 1 / 3) < 1e-9


def test_hidden_items_are_not_recommended_and_cold_ones_cannot_score():
    net, known = ranked_by_number(40)
    log, one = clicks_of_one_user([*range(20, 29), 4]), torch.tensor([True])
    hidden = torch.arange(40) < 4
    found = off_policy.offline_metrics(net, known, log, one, hidden_I=hidden)
    assert found["mrr_at_25"] == 1
    cold = torch.arange(40) >= 30
    wide = replace(known, covariance_IPP=4e4 * known.covariance_IPP)
    drop = [
        off_policy.offline_metrics(
            net, wide, log, one, weight, cold, generator=torch.Generator().manual_seed(0),
        )["mrr_at_25"]
        for weight in (0.0, 1.0)
    ]  # fmt: skip
    assert drop[1] < drop[0]


def test_users_with_few_clicks_are_passed_over():
    net, known = ranked_by_number(5)
    with pytest.raises(ValueError, match="10 clicks"):
        off_policy.offline_metrics(net, known, clicks_of_one_user([1, 2]), torch.tensor([True]))


def test_the_estimates_follow_the_device_of_their_inputs():
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    case = [torch.tensor(part, device="cuda") for part in arguments(CASES[1])]
    assert off_policy.ips(*case).is_cuda


def test_the_recipe_of_the_page_trains_without_the_tested_users():
    world = click_world.draw(9, users=40, warm=40, cold=2, each_day=0)
    log, tested = click_world.history(world), torch.arange(40) < 8
    rest = log.rows(~tested[log.user_S])
    recipe = Recipe(width=4, steps=10)
    net = item_network.train(rest, world.genres_IG, 40, recipe)
    known = item_network.beliefs(net, rest, 40, recipe)
    found = off_policy.offline_metrics(net, known, log, tested)
    assert all(0 <= value <= 1 for value in found.values())


if __name__ == "__main__":
    main()
