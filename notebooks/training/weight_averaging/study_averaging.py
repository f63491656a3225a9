"""The recorded study: methods of averaging, with the same budget of epochs and several seeds.

    python study_averaging.py --seeds 5 --images 10000 --epochs 24

For each seed three runs of SGD and one of Adam, and from their weights:

    sgd           the last weights of a run whose rate decays to a hundredth
    asgd          the equal average of that run's weights after every step of its last quarter (Polyak and Ruppert)
    swa           the equal average at the ends of the last quarter's epochs, at a high constant rate; batch norms recomputed
    swa_last, swa_average   the same weights with the last model's batch-norm statistics, and with averaged ones
    ema           the exponential average (0.99 per step) of the decaying run
    ema_high      the same of the run with the high rate
    fge_mean, fge_ensemble  the average of three ends of cycles, and the average of their three predictions
    adam, adam_swa          the same two schedules with Adam

A receipt `data/receipts/weight_averaging/study_averaging.json` holds each method's mean and every seed.
"""

import argparse
import statistics
from dataclasses import replace

import torch
from averaging import WeightAverage, recompute_batch_norm
from fashion_images import draw, load, moments
from helpers import data, device, receipts
from predictive_scores import scores
from small_resnet import SmallResNet
from small_training import Recipe, logits_of, train

EMA_DECAY = 0.99  # per step; the memory is then a hundred steps long
FGE_SAMPLES = 3
ADAM = {"optimiser": "adam", "rate": 2e-3, "high": 1e-3, "decay": 1e-2}
METHODS = ("sgd", "asgd", "ema", "swa", "swa_last", "swa_average", "ema_high", "fge_mean", "fge_ensemble", "adam", "adam_swa")


class Study:
    """The data of a study and what every run of it does alike."""

    def __init__(self, train_set, test_set, recipe, width):
        self.train_set, self.test_set, self.recipe, self.width = train_set, test_set, recipe, width
        self.mean, self.std = moments(train_set)

    def network(self, seed):
        """The network that the seed draws."""
        torch.manual_seed(seed)
        return SmallResNet(self.width).to(self.train_set.labels_N.device)

    def batches(self):
        """The training set in batches, unshuffled, as the batch norms read it."""
        index = torch.arange(len(self.train_set), device=self.train_set.labels_N.device)
        return (self.train_set.at(part, self.mean, self.std)[0] for part in index.split(500))

    def probabilities(self, model, images=None):
        """The model's probabilities (N, K) on the test images, or others."""
        return logits_of(model.eval(), self.test_set if images is None else images, self.mean, self.std).softmax(1)

    def refreshed(self, model):
        """The model with batch norms of its own, in place."""
        recompute_batch_norm(model, self.batches())
        return model

    def run(self, seed, recipe, averages_at_epoch=(), averages_at_step=(), **more):
        """A run by the recipe whose weights go into the averages from its `start` on; the `Run`."""
        model, steps = self.network(seed), len(self.train_set) // recipe.batch

        def at_epoch(epoch, model):
            for average in averages_at_epoch if epoch > recipe.start else ():
                average.update(model)

        def at_step(step, model):
            for average in averages_at_step if step >= recipe.start * steps else ():
                average.update(model)

        return train(model, self.train_set, recipe, self.mean, self.std, seed=seed, at_epoch=at_epoch, at_step=at_step, **more)


def decaying(study, seed):
    """The run whose rate decays, and two averages over its steps: {method: probabilities}."""
    first = study.network(seed)
    asgd, ema = WeightAverage(first), WeightAverage(first, EMA_DECAY)
    run = study.run(seed, study.recipe, averages_at_step=(asgd, ema))
    found = {"asgd": study.refreshed(asgd.model), "ema": study.refreshed(ema.model), "sgd": run.model}
    return {name: study.probabilities(model) for name, model in found.items()}


def constant(study, seed, recipe, prefix="swa"):
    """The run that keeps a high rate: SWA with three kinds of statistics, EMA: {method: probabilities}."""
    first = study.network(seed)
    last, blended, ema = WeightAverage(first), WeightAverage(first, buffers="average"), WeightAverage(first, EMA_DECAY)
    study.run(seed, recipe, averages_at_epoch=(last, blended), averages_at_step=(ema,))
    found = {f"{prefix}_last": study.probabilities(last.model), f"{prefix}_average": study.probabilities(blended.model)}
    found["ema_high"] = study.probabilities(study.refreshed(ema.model))
    return found | {prefix: study.probabilities(study.refreshed(last.model))}


def cycles(study, seed):
    """The cyclical run: the average of three ends of cycles, and of their predictions: {method: probabilities}."""
    recipe = replace(study.recipe, schedule="cyclical")
    average, answers = WeightAverage(study.network(seed)), []
    ends = {recipe.epochs - number * recipe.cycle for number in range(FGE_SAMPLES)}

    def at_epoch(epoch, model):
        if epoch in ends:
            average.update(model)
            answers.append(study.probabilities(model))

    train(study.network(seed), study.train_set, recipe, study.mean, study.std, seed=seed, at_epoch=at_epoch)
    return {"fge_ensemble": torch.stack(answers).mean(0), "fge_mean": study.probabilities(study.refreshed(average.model))}


def adam(study, seed):
    """Adam with the decaying rate, and its average at a high one: {method: probabilities}."""
    recipe, first = replace(study.recipe, **ADAM), study.network(seed)
    found = {"adam": study.probabilities(study.run(seed, recipe).model)}
    average = WeightAverage(first)
    study.run(seed, replace(recipe, schedule="swa"), averages_at_epoch=(average,))
    return found | {"adam_swa": study.probabilities(study.refreshed(average.model))}


def measured(study, seed):
    """{method: Scores} of one seed."""
    found = decaying(study, seed) | constant(study, seed, replace(study.recipe, schedule="swa"))
    found |= cycles(study, seed) | adam(study, seed)
    return {name: scores(found[name], study.test_set.labels_N) for name in METHODS}


def main(argv=None):
    """Train, measure, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--threads", type=int, default=device.cores())
    given = parser.parse_args(argv)
    torch.set_num_threads(given.threads)
    where, folder = device.get(), data.fetch("fashion_mnist")
    recipe = Recipe(epochs=given.epochs, start=given.epochs * 3 // 4)
    study = Study(draw(load(folder, "train", where), given.images), load(folder, "t10k", where), recipe, given.width)
    receipt = receipts.start("weight_averaging", device.tier(), given.threads)
    receipt.sizes(seeds=given.seeds, images=given.images, epochs=given.epochs, width=given.width)
    found = [measured(study, seed) for seed in range(given.seeds)]
    for name in METHODS:
        for field, unit, factor in (("accuracy", "%", 100), ("nll", "nat", 1), ("ece", "%", 100)):
            values = [factor * getattr(one[name], field) for one in found]
            receipt.record(f"study_{name}_{field}", statistics.mean(values), unit, min(values), max(values), len(values))
    print(receipt.write("study_averaging"))


if __name__ == "__main__":
    main()
