"""The recorded study of inference: many logs, each with a truth of its own, asked for it back.

    make study CHAPTERS=recsys/ecosystem STUDY=recovery

A seed draws a sensitivity from its prior and, of it, a log of clicks and slates alone. HMC,
Monte-Carlo EM, and plain maximum likelihood by gradient ascent answer. Recorded are how many
90 % intervals hold the truth, the mean error of each estimate, and how many users' likeliest
topics are their own, beside chance and beside what clicks alone say; the last in a longer log
of more users, too, where there is more to know.
"""

import hamiltonian
import latent_satisfaction as latent
import numpy as np
import torch
from array_backends import TorchBackend
from helpers import device
from helpers.study import Arm, Metric, Outcome, Part, Study, student
from scipy import stats

LEVEL = 0.9  # of the intervals that are put to the test
MIXED = 1.1  # an R-hat above it is of chains that have not mixed


def parts(seed, sizes):
    """A truth and its logs. Units are the names of the story's variables that a part holds."""
    backend = TorchBackend(5000 + seed, device.device(), torch.float64)
    truth = torch.sigmoid(latent.PRIOR[0] + latent.PRIOR[1] * backend.normal((1,)))
    found = {"sensitivity": Part(float(truth), ["population.sensitivity"])}
    for word, kind in (("", "log"), ("_long", "long")):
        steps, users = sizes[f"{kind}_steps"], sizes[f"{kind}_users"]
        log = latent.draw_log(steps, 1, users, backend, truth)
        clicks = {name: log[name] for name in latent.LOGGED}
        topics = log["user.intent"][0][0].argmax(-1).tolist()
        found[f"clicks{word}"] = Part(clicks, clicks)
        found[f"intents{word}"] = Part(topics, ["user.intent"])
    return found


def fit(job):
    """What an arm says of its log: a `value`, perhaps its ends, or each user's topic."""
    how = dict(job.arm.loss)
    return how.pop("by")(job, **how)


def sampled(job):
    """HMC's median, ends and R-hat of the sensitivity, each user's topic of most draws, and the
    share of users on whose intent the chains disagree.
    """
    users, size = job.train["user.choice"][0].shape[-1], job.sizes
    log, told = latent.repeated(job.train, size["chains"]), (size["draws"], size["warmup"])
    about, samples = latent.posterior(log, users, *told, seed=job.seed)
    level = torch.sigmoid(samples.draws[..., 0])
    shares = level.new_tensor([(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2])
    low, value, high = level.flatten().quantile(shares).tolist()
    intents = about.unpacked(samples.draws)["user.intent"]
    topics = intents.flatten(0, 1).argmax(-1).mode(0).values.tolist()
    worst = hamiltonian.split_r_hat(intents.flatten(2)).reshape(users, -1).amax(1)
    found = {"value": value, "ends": [low, high], "topics": topics}
    found |= {"unmixed": float((worst > MIXED).double().mean())}
    return found | {"r_hat": float(hamiltonian.split_r_hat(level[..., None]))}


def climbed(job, first=0, **how):
    """The mean of the second half of a path: of EM, or with a rate of gradient ascent."""
    log, users = latent.repeated(job.train, job.sizes["chains"]), job.sizes["log_users"]
    told = how | {"chains": job.sizes["chains"], "seed": first + job.seed}
    path = latent.expectation_maximisation(log, users, **told)
    return {"value": float(path[len(path) // 2 :].mean())}


def counted(job):
    """The topic of `sum_taken`: a baseline that knows clicks alone."""
    return {"topics": latent.sum_taken(job.train)[0].argmax(-1).tolist()}


def judge(made, truth, job):
    """The error of a value, the truth beside its interval; or the share of topics that fit."""
    if job.test.startswith("intents"):
        found = {"unmixed": made["unmixed"]} if "unmixed" in made else {}
        return found | {"topics": float(np.mean(np.equal(made["topics"], truth)))}
    found = {"bias": made["value"] - truth, "r_hat": [made["r_hat"]] if "r_hat" in made else []}
    return found | {"inside": [truth, *made["ends"]] if "ends" in made else []}


def extra(receipt, found):
    """None; records coverage with its binomial interval, R-hat, and topics beyond chance."""

    def column(what, part="sensitivity"):
        return np.array([one[part][what] for one in found["hidden"].values()])

    truth, low, high = column("inside").T
    hits = (low <= truth) & (truth <= high)
    ends = stats.binomtest(int(hits.sum()), len(hits)).proportion_ci(0.95, "wilson")
    told = 100 * ends.low, 100 * ends.high, len(hits), "share of logs, 95 % interval"
    receipt.record("study_hidden_coverage", 100 * hits.mean(), "%", *told, interval="95 %")
    receipt.curve("recovered", truth=truth, low=low, high=high)
    receipt.record("study_worst_r_hat", column("r_hat").max(), "R-hat")
    mean, *ends = student((100 * (column("topics", "intents") - 1 / latent.TOPICS)).tolist())
    told = *ends, len(hits), "mean over logs, 95 % interval"
    receipt.record("study_topics_beyond_chance", mean, "points", *told, interval="95 %")


def arm(by, train="clicks", test=("sensitivity",), seeds=None, **how):
    """Who answers, from what, and in how many steps."""
    return Arm(train=train, test=test, seeds=seeds, loss={"by": by} | how)


def beyond(words, *differs):
    """How many more users' topics draws name rightly than clicks alone."""
    arms = f"hidden{words}", f"clicks{words}"
    return Outcome(
        "topics", *arms, ("loss.by", *differs), part=f"intents{words}", unit="points"
    )


STUDY = Study(
    notebook="ecosystem",
    name="recovery",
    arms={
        "hidden": arm(sampled, test=("sensitivity", "intents")),
        "em": arm(climbed, iterations=10, moves=3),
        "likelihood": arm(climbed, iterations=20, moves=2, rate=0.5, first=100),
        "clicks": arm(counted, test=("intents",)),
        "hidden_long": arm(sampled, "clicks_long", ("intents_long",), 20),
        "clicks_long": arm(counted, "clicks_long", ("intents_long",), 20),
    },
    seeds=range(60),
    over="logs",
    added="the number of logs was raised from 40 to 60 after 40, other draws, had been seen",
    sizes={"log_users": 12, "log_steps": 8, "long_users": 40, "long_steps": 32}
    | {"chains": 3, "draws": 250, "warmup": 200},
    trial={"log_users": 4, "log_steps": 4, "long_users": 6, "long_steps": 5}
    | {"chains": 2, "draws": 6, "warmup": 4},
    processes=2,
    metrics={"bias": Metric("sensitivity")}
    | dict.fromkeys(("topics", "unmixed"), Metric("%", 100)),
    outcomes={
        "study_topics_beyond_clicks": beyond("", "test"),
        "study_long_topics_beyond_clicks": beyond("_long"),
    },
    parts=parts,
    fit=fit,
    judge=judge,
    extra=extra,
)
