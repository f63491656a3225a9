"""The recorded study of inference: many logs, each with a truth of its own, asked for it back.

    make study CHAPTERS=recsys/ecosystem STUDY=recovery

A seed draws a sensitivity from its prior, and two logs of it. One holds intents and
satisfaction: there the likelihood answers. The other holds clicks and slates alone: HMC,
Monte-Carlo EM, plain maximum likelihood by gradient ascent, and the joint maximum, which
counts one best explanation only. Recorded are how many 90 % intervals hold the truth, the mean
error of each estimate, and how many users' likeliest topics are their own, beside what clicks
alone say.
"""

import hamiltonian
import latent_satisfaction as latent
import numpy as np
import torch
from array_backends import TorchBackend
from helpers import device
from helpers.study import Arm, Metric, Outcome, Part, Study
from scipy import stats

LEVEL = 0.9  # of the intervals that are put to the test
WHOLE = (*latent.LOGGED, "user.intent", "user.satisfaction")
PAGE = {"hidden_topics": "topics_right", "clicks_topics": "topics_by_clicks"}  # its names


def parts(seed, sizes):
    """A truth and its logs. Units are the names of the story's variables that a part holds."""
    backend = TorchBackend(5000 + seed, device.device(), torch.float64)
    truth = torch.sigmoid(latent.PRIOR[0] + latent.PRIOR[1] * backend.normal((1,)))
    about = sizes["log_steps"], 1, sizes["log_users"], backend, truth
    whole, hidden = (latent.draw_log(*about, observed=known) for known in (True, False))
    whole = {name: whole[name] for name in WHOLE}
    clicks = {name: hidden[name] for name in latent.LOGGED}
    intents = hidden["user.intent"][0][0].argmax(-1).tolist()
    return {
        "whole": Part(whole, whole),
        "clicks": Part(clicks, clicks),
        "sensitivity": Part(float(truth), ["population.sensitivity"]),
        "intents": Part(intents, ["user.intent"]),
    }


def fit(job):
    """What an arm says of its log: a `value`, perhaps its ends, or each user's topic."""
    how = dict(job.arm.loss)
    return how.pop("by")(job, **how)


def newton(job):
    """The likeliest sensitivity of a log that holds all else, and its interval."""
    value, error = map(float, latent.likeliest(job.train, job.sizes["log_users"]))
    half = stats.norm.ppf((1 + LEVEL) / 2) * error
    return {"value": value, "ends": [value - half, value + half]}


def sampled(job):
    """The median, the ends and R-hat of HMC's draws; the topic of most draws for each user."""
    users, size = job.sizes["log_users"], job.sizes
    log, told = latent.repeated(job.train, size["chains"]), (size["draws"], size["warmup"])
    about, samples = latent.posterior(log, users, *told, seed=job.seed)
    level = torch.sigmoid(samples.draws[..., 0])
    shares = level.new_tensor([(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2])
    low, value, high = level.flatten().quantile(shares).tolist()
    topics = about.unpacked(samples.draws)["user.intent"].flatten(0, 1).argmax(-1)
    found = {"value": value, "ends": [low, high], "topics": topics.mode(0).values.tolist()}
    return found | {"r_hat": float(hamiltonian.split_r_hat(level[..., None]))}


def climbed(job, first=0, **how):
    """The mean of the second half of a path: of EM, or with a rate of gradient ascent."""
    log, users = latent.repeated(job.train, job.sizes["chains"]), job.sizes["log_users"]
    told = how | {"chains": job.sizes["chains"], "seed": first + job.seed}
    path = latent.expectation_maximisation(log, users, **told)
    return {"value": float(path[len(path) // 2 :].mean())}


def joint(job):
    """The sensitivity of the one best explanation."""
    hidden = latent.Hidden(latent.repeated(job.train, 1), job.sizes["log_users"])
    return {"value": float(torch.sigmoid(latent.jointly_likeliest(hidden)[0, 0]))}


def counted(job):
    """The topic of `sum_taken`: a baseline that knows clicks alone."""
    return {"topics": latent.sum_taken(job.train)[0].argmax(-1).tolist()}


def judge(made, truth, job):
    """The error of a value, the truth beside its interval; or the share of topics that fit."""
    if job.test == "intents":
        return {"topics": float(np.mean(np.equal(made["topics"], truth)))}
    found = {"bias": made["value"] - truth, "r_hat": [made["r_hat"]] if "r_hat" in made else []}
    return found | {"inside": [truth, *made["ends"]] if "ends" in made else []}


def extra(receipt, found):
    """None; records coverage with its binomial interval, R-hat, the page's names of topics."""

    def column(arm, what):
        return np.array([one["sensitivity"][what] for one in found[arm].values()])

    for name in ("observed", "hidden"):
        truth, low, high = column(name, "inside").T
        hits = (low <= truth) & (truth <= high)
        ends = stats.binomtest(int(hits.sum()), len(hits)).proportion_ci(0.95, "wilson")
        told = 100 * ends.low, 100 * ends.high, len(hits), "share of logs, 95 % interval"
        receipt.record(f"study_{name}_coverage", 100 * hits.mean(), "%", *told, interval="95 %")
    receipt.curve("recovered", truth=truth, low=low, high=high)  # of the hidden ones
    receipt.record("study_worst_r_hat", column("hidden", "r_hat").max(), "R-hat")
    for name, page in PAGE.items():
        receipt.metrics[f"study_{page}"] = receipt.metrics.pop(f"study_{name}")


def arm(by, train="clicks", test=("sensitivity",), **how):
    """Who answers, from what, and in how many steps."""
    return Arm(train=train, test=test, loss={"by": by} | how)


STUDY = Study(
    notebook="ecosystem",
    name="recovery",
    arms={
        "observed": arm(newton, "whole"),
        "hidden": arm(sampled, test=("sensitivity", "intents")),
        "em": arm(climbed, iterations=10, moves=3),
        "likelihood": arm(climbed, iterations=20, moves=2, rate=0.5, first=100),
        "joint": arm(joint),
        "clicks": arm(counted, test=("intents",)),
    },
    seeds=range(60),
    over="logs",
    added="the number of logs was raised from 40 to 60 after 40, other draws, had been seen",
    sizes={"chains": 3, "log_users": 12, "log_steps": 8, "draws": 250, "warmup": 200},
    trial={"chains": 2, "log_users": 4, "log_steps": 4, "draws": 6, "warmup": 4},
    metrics={"bias": Metric("sensitivity"), "topics": Metric("%", 100)},
    outcomes={
        "study_topics_beyond_clicks": Outcome(
            "topics", "hidden", "clicks", ("loss.by", "test"), part="intents", unit="points"
        )
    },
    parts=parts,
    fit=fit,
    judge=judge,
    extra=extra,
)
