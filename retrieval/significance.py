"""How sure a difference is."""

import numpy as np


def mean_interval(values: np.ndarray, *, resamples: int = 2000, seed: int = 0) -> tuple[float, float]:
    """95 % percentile bootstrap interval of the mean of per-question values `(n_questions,)`.

    Given the differences of two retrievers over the same questions it is the paired bootstrap (Sakai 2006). Values that
    are all equal have an interval of no width.
    """
    from scipy.stats import bootstrap  # takes as long to import as all the rest of a page

    if len(values) < 2 or np.ptp(values) == 0:
        mean = float(values.mean())
        return mean, mean
    rng = np.random.default_rng(seed)
    result = bootstrap((values,), np.mean, n_resamples=resamples, method="percentile", batch=100, rng=rng)
    return float(result.confidence_interval.low), float(result.confidence_interval.high)
