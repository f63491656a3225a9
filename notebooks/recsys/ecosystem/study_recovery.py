"""The recorded study of inference: many logs, each with a truth of its own, asked for it back.

    python study_recovery.py --threads 1    # from the slice's folder; about ten minutes

Each log is drawn with a sensitivity from its prior. With intents and satisfaction in the log
the likelihood answers; with both hidden HMC, Monte-Carlo EM, plain maximum likelihood by
gradient ascent, and the joint maximum, which counts one best explanation only. Recorded are how
many 90 % intervals hold the truth, and the mean error of each estimate. Sizes were fixed before
the first log was drawn.
"""

import hamiltonian
import latent_satisfaction as latent
import numpy as np
import torch
from array_backends import TorchBackend
from scipy import stats
from study_ecosystem import begun, record_interval

Z90 = stats.norm.ppf(0.95)


def recovery(batch, given, where):
    """{measure: [a number for each experiment]} of a batch of logs with their own truths."""
    backend = TorchBackend(5000 + batch, where, torch.float64)
    worlds, users, steps = given.experiments, given.log_users, given.log_steps
    logit = latent.PRIOR[0] + latent.PRIOR[1] * backend.normal((worlds,))
    truth = torch.sigmoid(logit)
    full = latent.draw_log(steps, worlds, users, backend, truth, observed=True)
    value, error = latent.likeliest(full, users)
    found = {"truth": truth, "observed_value": value, "observed_error": error}
    hidden = latent.draw_log(steps, worlds, users, backend, truth)
    log = latent.repeated(hidden, given.chains)
    about, samples = latent.posterior(log, users, given.draws, given.warmup, seed=batch)
    drawn = torch.sigmoid(samples.draws[..., 0]).reshape(given.draws, worlds, given.chains)
    flat = drawn.transpose(0, 1).reshape(worlds, -1)
    ends = torch.tensor([0.05, 0.5, 0.95], dtype=flat.dtype, device=flat.device)
    low, middle, high = flat.quantile(ends, 1)
    found |= {"hidden_low": low, "hidden_value": middle, "hidden_high": high}
    found["r_hat"] = torch.cat(
        [hamiltonian.split_r_hat(drawn[:, one, :, None]) for one in range(worlds)]
    )
    found |= likeliest_topics(about, samples.draws, hidden, given)
    path = latent.expectation_maximisation(log, users, chains=given.chains, seed=batch)
    found["em_value"] = path[len(path) // 2 :].mean(0)
    told = {"iterations": 20, "moves": 2, "seed": 100 + batch, "rate": 0.5}
    path = latent.expectation_maximisation(log, users, chains=given.chains, **told)
    found["likelihood_value"] = path[len(path) // 2 :].mean(0)
    joint = latent.jointly_likeliest(latent.Hidden(latent.repeated(hidden, 1), users))
    found["joint_value"] = torch.sigmoid(joint[:, 0])
    return {name: one.cpu().tolist() for name, one in found.items()}


def likeliest_topics(about, draws, record, given):
    """How often the likeliest of the topics is a user's own, by log.

    The topic of most draws, against the topic of `sum_taken`: a baseline that knows clicks
    alone.
    """
    truth = record["user.intent"][0]
    shape = (given.draws, len(truth), given.chains, *truth.shape[1:])
    flat = about.unpacked(draws)["user.intent"].reshape(shape).transpose(1, 2).flatten(0, 1)
    clicks = latent.sum_taken(record).argmax(-1)
    found = {"draws": flat.argmax(-1).mode(0).values, "clicks": clicks}
    right = {name: one == truth.argmax(-1) for name, one in found.items()}
    return {f"topic_{name}": one.double().mean(1) for name, one in right.items()}


def record_recovery(receipt, batches):
    """None; coverage with its binomial interval, errors, and likeliest topics."""
    told = {name: np.concatenate([one[name] for one in batches]) for name in batches[0]}
    truth, count = told["truth"], len(told["truth"])
    inside = {
        "observed": np.abs(told["observed_value"] - truth) <= Z90 * told["observed_error"]
    }
    inside["hidden"] = (told["hidden_low"] <= truth) & (truth <= told["hidden_high"])
    for name, hits in inside.items():
        ends = stats.binomtest(int(hits.sum()), count).proportion_ci(0.95, "wilson")
        low, high = 100 * ends.low, 100 * ends.high
        receipt.record(f"study_{name}_coverage", 100 * hits.mean(), "%", low, high, count)
    receipt.record("study_worst_r_hat", float(told["r_hat"].max()), "R-hat")
    for name in ("em", "likelihood", "joint", "hidden", "observed"):
        record_interval(receipt, f"{name}_bias", told[f"{name}_value"] - truth, "sensitivity")
    draws, clicks = 100 * told["topic_draws"], 100 * told["topic_clicks"]
    record_interval(receipt, "topics_right", draws, "%")
    record_interval(receipt, "topics_by_clicks", clicks, "%")
    record_interval(receipt, "topics_beyond_clicks", draws - clicks, "points")
    columns = {"truth": truth, "low": told["hidden_low"], "high": told["hidden_high"]}
    receipt.curve("recovered", **{name: one.tolist() for name, one in columns.items()})


def main():
    """Measure batch by batch, and write the receipt."""
    sizes = {"batches": 3, "experiments": 20, "chains": 3, "log_users": 12, "log_steps": 8}
    given, receipt = begun(__doc__, sizes | {"draws": 250, "warmup": 200})
    found = []
    for batch in range(given.batches):
        found.append(recovery(batch, given, given.tier.device))
        print(f"batch {batch}: done", flush=True)
    record_recovery(receipt, found)
    print(receipt.write("recovery"))


if __name__ == "__main__":
    main()
