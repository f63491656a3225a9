"""A perceptron, and a network with one hidden layer whose backward pass is written out.

The article's tutorial trains "a neural network model from scratch". Here scratch means NumPy:

    forward    z = x W₁ + b₁,  h = max(z, 0),  s = h W₂ + b₂,  p = softmax(s)
    loss       L = −mean_n log p_n[y_n]                          (cross-entropy)
    backward   δ_s = (p − onehot(y)) / N,  ∂W₂ = hᵀ δ_s,  ∂b₂ = Σ_n δ_s
               δ_z = (δ_s W₂ᵀ) · [z > 0],  ∂W₁ = xᵀ δ_z,  ∂b₁ = Σ_n δ_z
    step       W ← W − rate · ∂W

(Rumelhart, Hinton and Williams, "Learning representations by back-propagating errors", 1986;
the perceptron's rule: Rosenblatt, 1958.) `gradient_error` holds the backward pass against
central differences of the loss, in float64.

Shapes: `N` samples, `D` inputs, `H` hidden units, `C` classes.
"""

import numpy as np

NAMES = ("w1_DH", "b1_H", "w2_HC", "b2_C")


def perceptron(x_ND, y_N, epochs=20):
    """(weights (D,), bias, mistakes): Rosenblatt's rule on labels 0 and 1, in order.

        perceptron([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 0, 0, 1])    # AND: mistakes end at 0

    `mistakes` lists how many samples of each epoch were answered wrongly; it stops after the
    first epoch without one. Raises ValueError for other labels.
    """
    x_ND, y_N = _labelled(x_ND, y_N, classes=2)
    weights_D, bias, mistakes = np.zeros(x_ND.shape[1]), 0.0, []
    for _ in range(epochs):
        wrong = 0
        for x_D, y in zip(x_ND, y_N, strict=True):
            error = y - (x_D @ weights_D + bias > 0)  # 1, 0 or −1
            weights_D, bias, wrong = weights_D + error * x_D, bias + error, wrong + abs(error)
        mistakes.append(int(wrong))
        if not wrong:
            break
    return weights_D, float(bias), mistakes


def network(inputs, hidden, classes, seed=0):
    """The four arrays of a new network, a dict, float64: weights normal with variance
    2 / inputs (He et al., 2015: a ReLU passes half), biases 0. Raises ValueError for a size
    below 1."""
    if min(inputs, hidden, classes) < 1:
        raise ValueError(f"{inputs} inputs, {hidden} hidden, {classes} classes; each needs one")
    rng = np.random.default_rng(seed)
    w1_DH = rng.normal(size=(inputs, hidden)) * np.sqrt(2 / inputs)
    w2_HC = rng.normal(size=(hidden, classes)) * np.sqrt(2 / hidden)
    return dict(zip(NAMES, (w1_DH, np.zeros(hidden), w2_HC, np.zeros(classes)), strict=True))


def forward(net, x_ND):
    """(hidden (N, H), log-probabilities (N, C)) of a network for samples.

    Raises ValueError where the samples do not fit its inputs.
    """
    x_ND = np.asarray(x_ND)
    if x_ND.ndim != 2 or x_ND.shape[1] != len(net["w1_DH"]):
        raise ValueError(f"samples of shape {x_ND.shape}; (N, {len(net['w1_DH'])}) is needed")
    hidden_NH = np.maximum(x_ND @ net["w1_DH"] + net["b1_H"], 0)
    scores_NC = hidden_NH @ net["w2_HC"] + net["b2_C"]
    scores_NC = scores_NC - scores_NC.max(axis=1, keepdims=True)  # exp may not overflow
    return hidden_NH, scores_NC - np.log(np.exp(scores_NC).sum(axis=1, keepdims=True))


def backward(net, x_ND, y_N):
    """(loss, gradients): the mean cross-entropy of classes `y_N` (0 to C−1), and its derivative
    by each array of the network, a dict of the same shapes."""
    x_ND, y_N = _labelled(x_ND, y_N, classes=len(net["b2_C"]))
    hidden_NH, log_p_NC = forward(net, x_ND)
    rows = np.arange(len(y_N))
    loss = -log_p_NC[rows, y_N].mean()
    delta_NC = np.exp(log_p_NC)
    delta_NC[rows, y_N] -= 1
    delta_NC /= len(y_N)
    delta_NH = (delta_NC @ net["w2_HC"].T) * (hidden_NH > 0)
    slopes = x_ND.T @ delta_NH, delta_NH.sum(0), hidden_NH.T @ delta_NC, delta_NC.sum(0)
    return float(loss), dict(zip(NAMES, slopes, strict=True))


def gradient_error(net, x_ND, y_N, step=1e-6):
    """The largest relative difference between the backward pass and central differences of the
    loss, over all weights: |a − b| / max(1e-6, |a| + |b|). Two forward passes a weight."""
    _, slopes = backward(net, x_ND, y_N)
    worst = 0.0
    for name, slope in slopes.items():
        for at in np.ndindex(slope.shape):
            losses = []
            for sign in (1, -1):
                moved = {key: value.copy() for key, value in net.items()}
                moved[name][at] += sign * step
                losses.append(backward(moved, x_ND, y_N)[0])
            found = (losses[0] - losses[1]) / (2 * step)
            scale = max(1e-6, abs(found) + abs(slope[at]))
            worst = max(worst, abs(found - slope[at]) / scale)
    return worst


def train(net, x_ND, y_N, epochs=40, rate=0.1, batch=32, seed=0):
    """(network, losses): the network after stochastic gradient descent, and the mean loss of
    each epoch. The one that came is not changed. Samples are shuffled before each epoch.

    Raises ValueError for sizes below 1, no samples, and labels that are no classes.
    """
    if min(epochs, batch) < 1 or not rate > 0:
        raise ValueError(f"epochs {epochs}, batch {batch}, rate {rate}: all must be positive")
    net = {name: value.copy() for name, value in net.items()}
    rng, losses = np.random.default_rng(seed), []
    x_ND, y_N = _labelled(x_ND, y_N, classes=len(net["b2_C"]))
    for _ in range(epochs):
        order, total = rng.permutation(len(x_ND)), 0.0
        for start in range(0, len(order), batch):
            picked = order[start : start + batch]
            loss, slopes = backward(net, x_ND[picked], y_N[picked])
            total += loss * len(picked)
            for name, slope in slopes.items():
                net[name] -= rate * slope
        losses.append(total / len(order))
    return net, losses


def predict(net, x_ND):
    """The class of each sample, shape (N,)."""
    return forward(net, x_ND)[1].argmax(axis=1)


def _labelled(x_ND, y_N, classes):
    """Samples and labels as arrays; ValueError unless each sample has a whole label from 0."""
    x_ND, y_N = np.asarray(x_ND), np.asarray(y_N)
    if x_ND.ndim != 2 or y_N.shape != (len(x_ND),) or not np.isin(y_N, range(classes)).all():
        raise ValueError(
            f"samples {x_ND.shape}, labels {y_N.shape}; (N, D) and N labels from 0 to "
            f"{classes - 1} are needed"
        )
    if not len(y_N):
        raise ValueError("no samples; one at least is needed")
    return x_ND, y_N
