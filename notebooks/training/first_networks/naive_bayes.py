"""Naive Bayes classifiers in three forms, equal to scikit-learn's.

The article names the classifier for "image processing and speech recognition". All three forms
apply Bayes' rule and treat the features as independent within a class:

    log p(c | x) = log π_c + Σ_d log p(x_d | c) − log Σ_c' exp(log π_c' + Σ_d log p(x_d | c'))

    Gaussian      x_d ~ N(μ_cd, σ²_cd + ε·max_d var(x_d)), ε = 1e-9
    multinomial   log p(x | c) = Σ_d x_d log θ_cd,  θ_cd = (n_cd + α) / (n_c + α D)
    Bernoulli     x_d is 0 or 1,  p(1 | c) = (n_cd + α) / (N_c + 2α)

(McCallum and Nigam, "A Comparison of Event Models for Naive Bayes Text Classification", 1998.)
Defaults are scikit-learn's. Sums of logarithms stand in place of products, because a product of
a few hundred small numbers is 0 in float64.

Parts of the data may be added one after the other: `partial_fit` keeps counts, means and sums
of squares, merged as by Chan, Golub and LeVeque (1979). Unlike scikit-learn's, the smoothing
of the Gaussian form is that of the largest variance of *all* data so far, so that parts give
what the whole gives; scikit-learn takes the variance of the last part.

Shapes: `N` samples, `D` features, `C` classes. Arrays are NumPy; what comes back is float64.
"""

import numpy as np


def log_sum_exp(terms_NC):
    """log Σ_c exp(terms), shape (N, 1): the largest term is taken out first, so no term that
    counts is lost to underflow.

        log_sum_exp(np.array([[-1000.0, -1000.0]]))    # [[-999.307]]: −1000 + log 2
    """
    largest = terms_NC.max(axis=1, keepdims=True)
    return largest + np.log(np.exp(terms_NC - largest).sum(axis=1, keepdims=True))


def log_posterior_reference(x_ND, mean_CD, var_CD, prior_C):
    """The Gaussian form by Bayes' rule as it is written, shape (N, C): the plainest loop.

    Products, no logarithms: right for a few features, 0/0 (nan) for many.
    """
    out = np.empty((len(x_ND), len(mean_CD)))
    with np.errstate(divide="ignore", invalid="ignore"):
        for n, x_D in enumerate(x_ND):
            for c, prior in enumerate(prior_C):
                p = prior
                for x, mean, var in zip(x_D, mean_CD[c], var_CD[c], strict=True):
                    p *= np.exp(-((x - mean) ** 2) / (2 * var)) / np.sqrt(2 * np.pi * var)
                out[n, c] = p
        return np.log(out / out.sum(axis=1, keepdims=True))


class _NaiveBayes:
    """What the three forms share: classes, priors, Bayes' rule.

    `classes` is known after the first fit: sorted, shape (C,). `priors`, if given, has a number
    for each class in that order, with sum 1; otherwise the shares of the training data count.
    """

    def __init__(self, priors=None):
        self.priors = None if priors is None else np.asarray(priors, dtype=np.float64)
        self.classes = None

    def fit(self, x, y):
        """Itself, after it has forgotten all and learned from `x` (N, D) and labels `y` (N,).

            GaussianNaiveBayes().fit([[0.0], [2.0]], [0, 1]).predict([[1.8]])    # [1]

        Raises ValueError for shapes that do not match, NaN, no samples, values that the form
        does not know, and priors that do not belong to the classes.
        """
        self.classes = None
        return self.partial_fit(x, y)

    def partial_fit(self, x, y, classes=None):
        """Itself, after it has learned from `x` and `y` beside all that it had before.

        The first call fixes the classes: `classes`, or those in `y`. A class without a sample
        so far has probability 0, whatever its prior. Cost: one pass over x. Raises ValueError
        as `fit` does, for a label that is no class, and for another number of features.
        """
        x, y = self._checked(x), np.asarray(y)
        if y.shape != (len(x),):
            raise ValueError(
                f"labels of shape {y.shape} for {len(x)} samples; one each is needed"
            )
        if not len(x):
            raise ValueError("no samples: one at least is needed to learn from")
        known = self.classes
        if known is None:
            known = np.unique(y if classes is None else classes)
        if unknown := sorted(set(y.tolist()) - set(known.tolist())):
            raise ValueError(f"labels {unknown[:5]} are no classes; known are {known.tolist()}")
        self._check_priors(known)
        if self.classes is None:
            self.classes = known
            self._begin(len(known), x.shape[1])
        elif x.shape[1] != self.features:
            raise ValueError(f"{x.shape[1]} features; the first part had {self.features}")
        hot_NC = (y[:, None] == known).astype(np.float64)
        self._add(x, hot_NC)
        self.counts_C = self.counts_C + hot_NC.sum(axis=0)
        return self

    def log_posterior(self, x):
        """The logarithm of each class's probability, normalised, shape (N, C), classes sorted.

        Raises ValueError before a fit, for input that the form does not know, where no class
        has both a prior and samples, and (Gaussian form) where a variance is 0.
        """
        if self.classes is None:
            raise ValueError("nothing was learned yet: call fit or partial_fit first")
        x = self._checked(x)
        if x.shape[1] != self.features:
            raise ValueError(f"{x.shape[1]} features; the training data had {self.features}")
        with np.errstate(divide="ignore"):  # log 0 is −inf: nothing is known of an empty class
            prior_C = np.log(np.where(self.counts_C > 0, self.class_priors(), 0))
        if np.isneginf(prior_C).all():
            raise ValueError(
                "no class is possible: those with samples have the prior 0, and the others "
                "have no samples yet; add samples, or give the seen classes a prior"
            )
        joint_NC = np.where(np.isneginf(prior_C), -np.inf, prior_C + self._log_likelihood(x))
        return joint_NC - log_sum_exp(joint_NC)

    def predict(self, x):
        """The most probable class of each sample, shape (N,)."""
        return self.classes[self.log_posterior(x).argmax(axis=1)]

    def class_priors(self):
        """The priors in use, shape (C,), sum 1."""
        return self.counts_C / self.counts_C.sum() if self.priors is None else self.priors

    def _begin(self, classes, features):
        self.features = features
        self.counts_C = np.zeros(classes)
        self.sums_CD = np.zeros((classes, features))

    def _check_priors(self, classes):
        p = self.priors
        if p is None:
            return
        if p.shape != classes.shape or not (p >= 0).all() or not np.isclose(p.sum(), 1):
            raise ValueError(
                f"priors {p.tolist()}; needed are {len(classes)} numbers from 0 with sum 1"
            )

    def _checked(self, x):
        x = np.asarray(x, dtype=np.float64)
        if x.ndim != 2 or not x.shape[1]:
            raise ValueError(f"samples of shape {x.shape}; (samples, features) is needed")
        if not np.isfinite(x).all():
            raise ValueError("samples hold NaN or infinity; a density has no value there")
        return x


class GaussianNaiveBayes(_NaiveBayes):
    """Each feature is normal within a class. `smoothing` times the largest variance of a
    feature is added to all variances, so a constant pixel has a width, too."""

    def __init__(self, priors=None, smoothing=1e-9):
        super().__init__(priors)
        if not smoothing >= 0:
            raise ValueError(f"smoothing {smoothing}; a share from 0 is allowed")
        self.smoothing = smoothing

    def means(self):
        """The mean of each feature in each class, shape (C, D); 0 where a class is empty."""
        return self._means_CD.copy()

    def variances(self):
        """The smoothed variances, shape (C, D). Raises ValueError where one is 0."""
        count_C1 = np.maximum(self.counts_C, 1)[:, None]
        total, mean_D = (
            self.counts_C.sum(),
            self.counts_C @ self._means_CD / self.counts_C.sum(),
        )
        between_D = self.counts_C @ (self._means_CD - mean_D) ** 2
        var_D = (self._squares_CD.sum(axis=0) + between_D) / total
        var_CD = self._squares_CD / count_C1 + self.smoothing * var_D.max()
        if not (var_CD[self.counts_C > 0] > 0).all():
            raise ValueError(
                "a variance is 0: all samples are alike, or smoothing is 0; a density needs a "
                "width, so give varied samples and a smoothing above 0"
            )
        return np.where(self.counts_C[:, None] > 0, var_CD, 1.0)

    def _begin(self, classes, features):
        super()._begin(classes, features)
        self._means_CD, self._squares_CD = np.zeros((2, classes, features))

    def _add(self, x, hot_NC):
        new_C1, old_C1 = hot_NC.sum(axis=0)[:, None], self.counts_C[:, None]
        mean_CD = hot_NC.T @ x / np.maximum(new_C1, 1)
        squares_CD = hot_NC.T @ (x - hot_NC @ mean_CD) ** 2
        both_C1 = np.maximum(new_C1 + old_C1, 1)
        apart_CD = (mean_CD - self._means_CD) * (new_C1 > 0)
        self._squares_CD = (
            self._squares_CD + squares_CD + apart_CD**2 * new_C1 * old_C1 / both_C1
        )
        self._means_CD = self._means_CD + apart_CD * new_C1 / both_C1

    def _log_likelihood(self, x):
        out_NC = np.empty((len(x), len(self.classes)))
        for c, (mean_D, var_D) in enumerate(
            zip(self._means_CD, self.variances(), strict=True)
        ):  # a class at a time: (N, D) of memory, not (N, C, D)
            out_NC[:, c] = -0.5 * (
                np.log(2 * np.pi * var_D).sum() + ((x - mean_D) ** 2 / var_D).sum(axis=1)
            )
        return out_NC


class _Counting(_NaiveBayes):
    """The forms that count. `alpha` is added to each count, so that what was never seen in a
    class is improbable there and not impossible."""

    def __init__(self, priors=None, alpha=1.0):
        super().__init__(priors)
        if not alpha > 0:
            raise ValueError(
                f"alpha {alpha}; a number above 0 is needed, or log 0 would follow"
            )
        self.alpha = alpha

    def _add(self, x, hot_NC):
        self.sums_CD = self.sums_CD + hot_NC.T @ x


class MultinomialNaiveBayes(_Counting):
    """Features are counts, such as ink in a block of pixels: numbers from 0."""

    def log_shares(self):
        """log θ, shape (C, D): the share of each feature in all counts of its class."""
        counts_CD = self.sums_CD + self.alpha
        return np.log(counts_CD) - np.log(counts_CD.sum(axis=1, keepdims=True))

    def _log_likelihood(self, x):
        return x @ self.log_shares().T

    def _checked(self, x):
        x = super()._checked(x)
        if (x < 0).any():
            raise ValueError(f"a count of {x.min():g}; counts are 0 or more")
        return x


class BernoulliNaiveBayes(_Counting):
    """Features are there or not: what is above `threshold` is 1, all else 0."""

    def __init__(self, priors=None, alpha=1.0, threshold=0.0):
        super().__init__(priors, alpha)
        self.threshold = threshold

    def rates(self):
        """p(x_d = 1 | c), shape (C, D), smoothed."""
        return (self.sums_CD + self.alpha) / (self.counts_C[:, None] + 2 * self.alpha)

    def _log_likelihood(self, x):
        on_CD, off_CD = np.log(self.rates()), np.log1p(-self.rates())
        return x @ (on_CD - off_CD).T + off_CD.sum(axis=1)

    def _checked(self, x):
        return (super()._checked(x) > self.threshold).astype(np.float64)
