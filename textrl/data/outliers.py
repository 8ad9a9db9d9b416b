"""Rewards far beyond all others: most often a mistake, and values are lost to a single one."""

import numpy as np
from numpy.typing import NDArray

FAR = 1_000
"""How many times the usual spread is too far."""
LARGEST_REWARD = 1e15
"""Values are learned by squares in single precision, which end at 3e38."""


def outliers(values: NDArray[np.floating]) -> NDArray[np.int64]:
    """Where a value is FAR times the usual spread away from the median.

    The usual spread: the middle half's, or the middle size of what is not 0, whichever is larger:
    where success is rare, the middle half are all 0.
    """
    values = values.astype(np.float64)
    paid = np.abs(values[values != 0])
    if not len(paid):
        return np.empty(0, dtype=np.int64)
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    usual = max(high - low, float(np.quantile(paid, 0.5, method="lower")))
    # A single one among zeros is far from nothing that is usual but, at such a size, from sense.
    is_far = (np.abs(values - middle) > FAR * usual) | (np.abs(values) > LARGEST_REWARD)
    return np.flatnonzero(is_far)


def remark_on(values: NDArray[np.floating], where: str, what: str) -> str:
    """A warning of the first outlier; "" = there is none.

    where: what a row is called, with {} for the place of one in values; what: what the values are.
    """
    far = outliers(values)
    if not len(far):
        return ""
    first, others = int(far[0]), len(far) - 1
    more = f" (and {others:,} more)" if others else ""
    middle = np.median(values)
    return (
        f"warning: {where.format(first)}{more}: {what} of {values[first]:g}, where the middle one"
        f" is {middle:g}: values are lost to it; check it, or remove the row"
    )
