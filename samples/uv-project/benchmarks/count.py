"""Counts the customers of two periods with a million orders each."""

import numpy as np
from shop import customers_of_both

first, second = np.random.default_rng(1).integers(0, 50_000, (2, 1_000_000))
for _ in range(5):
    customers_of_both(first, second)
