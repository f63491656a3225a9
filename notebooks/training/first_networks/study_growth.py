"""The study: naive Bayes against a network, from ten pictures to a thousand.

    make study CHAPTERS=training/first_networks STUDY=growth

Ng and Jordan ("On Discriminative vs. Generative Classifiers", 2001) say that a generative
classifier comes to its own, higher error sooner: so it may lead on few samples and lose on
many. Their pair is naive Bayes and a regression; the network is the page's. Which pictures are
learned from, and which are tests, is drawn anew by each seed; those learned from are balanced,
a tenth of each digit, and the small sets lie in the large ones. The smoothing of `gaussian` is
chosen on 200 more pictures: a help that no other arm has.
"""

from typing import NamedTuple

import digit_network as dn
import digit_pictures as dp
import naive_bayes as nb
import numpy as np
from helpers.study import Arm, Metric, Outcome, Part, Study

SHOWN = (10, 20, 50, 100, 200, 500, 1000)
SMOOTHINGS = (1e-9, 1e-3, 1e-2, 0.1, 1.0)


class Recipe(NamedTuple):
    """Who learns: a form of naive Bayes, a regression (no hidden layer), or the network."""

    learner: str


LEARNERS = ("gaussian", "default", "multinomial", "bernoulli", "regression", "network")
CHOOSES = "gaussian"  # alone: its smoothing; `default` keeps scikit-learn's 1e-9
ARMS = {
    f"{learner}_{shown}": Arm(
        train=f"first_{shown}",
        choice="choice" if learner == CHOOSES else None,
        loss=Recipe(learner),
    )
    for learner in LEARNERS
    for shown in SHOWN
}


def balanced(digits, rng):
    """Positions in an order whose first 10·k hold each digit k times, as far as they reach."""
    order = rng.permutation(len(digits))
    rank = np.empty(len(digits), dtype=int)
    for digit in np.unique(digits):
        own = np.flatnonzero(digits[order] == digit)
        rank[own] = np.arange(len(own))
    return order[np.argsort(rank, kind="stable")]


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """Pictures to learn from (the first so many of an order), to choose on, to be judged on."""
    counts, digits = dp.load()
    learn, test = dp.split(digits, seed)
    own = learn[balanced(digits[learn], np.random.default_rng(seed))]

    def part(at):
        return Part((counts[at], digits[at]), at.tolist())

    found = {f"first_{shown}": part(own[:shown]) for shown in SHOWN}
    return found | {"choice": part(own[1000:]), "test": part(test)}


def share(answer, data) -> float:
    """The share of pictures that are answered rightly."""
    x, y = data
    return float((answer(x) == y).mean())


def fit(job):
    """A function from counts to digits, learned as the arm says."""
    x, y = job.train
    match job.arm.loss.learner:
        case "network":
            return network(x, y, job)
        case "regression":
            from sklearn.linear_model import LogisticRegression

            return scaled(LogisticRegression(max_iter=1000).fit(x / 16, y).predict)
        case "gaussian":
            tried = [nb.GaussianNaiveBayes(smoothing=s).fit(x, y).predict for s in SMOOTHINGS]
            return max(tried, key=lambda one: share(one, job.choice))
        case "default":
            return nb.GaussianNaiveBayes().fit(x, y).predict
        case "multinomial":
            return nb.MultinomialNaiveBayes().fit(x, y).predict
        case "bernoulli":
            return nb.BernoulliNaiveBayes(threshold=8).fit(x, y).predict


def network(x, y, job):
    """The page's network after the same number of steps, however many pictures there are."""
    batches = -(-len(x) // 32)
    new = dn.network(64, 32, 10, seed=job.seed)
    epochs = max(1, round(job.sizes["steps"] / batches))
    net, _ = dn.train(new, x / 16, y, epochs=epochs, seed=job.seed)
    return scaled(lambda z: dn.predict(net, z))


def scaled(answer):
    """An answer for counts, of one for counts divided by 16."""
    return lambda x: answer(x / 16)


def judge(made, data, job) -> dict:
    """The share of right answers."""
    return {"right": share(made, data)}


def lead(learner: str, less: str, shown: int) -> Outcome:
    """How far a learner is ahead of another after so many pictures."""
    differs = ["loss.learner"] + ["choice"] * (learner == CHOOSES)
    return Outcome("right", f"{learner}_{shown}", f"{less}_{shown}", differs)


STUDY = Study(
    notebook="first_networks",
    name="growth",
    arms=ARMS,
    seeds=range(20),
    sizes={"steps": 2000},
    trial={"steps": 20},
    metrics={"right": Metric("share")},
    parts=parts,
    fit=fit,
    judge=judge,
    outcomes={
        f"study_{learner}_lead_{shown}": lead(learner, "network", shown)
        for learner in ("gaussian", "multinomial")
        for shown in SHOWN
    }
    | {f"study_pair_lead_{shown}": lead("multinomial", "regression", shown) for shown in SHOWN},
    over="draws of pictures",
)
