"""Train on a batch in parts that fit, with the gradient of the whole batch.

The mean loss of n samples is the sum over parts of (n_i / n) times the part's mean loss, and
the derivative is linear. So a part's loss is weighted by its share: dividing by the number of
parts is right only where all parts are of one size. A layer that mixes samples, such as batch
norm, breaks the equality: its mean and variance are the part's, not the batch's.
"""


def step(model, batches, loss):
    """The mean loss over all batches, a float; the gradient of that mean is left in each
    parameter's `grad`, in the place of an older one.

    batches: (x, y) pairs with the samples on axis 0. loss(prediction, y): their mean, a scalar.
    Memory: the activations of the largest part, not of the sum. No optimiser's step is made.
    Raises ValueError where nothing or an empty part comes.
    """
    batches = list(batches)
    sizes = [len(x) for x, _ in batches]
    if not sizes or min(sizes) < 1:
        raise ValueError(
            f"batches have {sizes} samples: allowed is one batch or more, each of one sample "
            "or more, since the mean over nothing is not a number"
        )
    model.zero_grad(set_to_none=True)
    total = 0.0
    for (x, y), size in zip(batches, sizes, strict=True):
        part = loss(model(x), y) * (size / sum(sizes))
        part.backward()
        total += part.item()
    return total
