"""Units, and the operation counts that turn a duration into a rate."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

#: Ten petaFLOP per second: no single device has come near it in dense arithmetic
#: of 16 bits or more, so a rate above it is an error of the benchmark.
MAX_RATE_FLOP_PER_S = 1e16

FLOP_PER_GFLOP = 1e9
SECONDS_PER_MS = 1e-3
#: ``ru_maxrss`` is in KiB on Linux (getrusage(2)).
BYTES_PER_MAXRSS = 1024

#: MAD / median of a job's repetitions above which a job is unstable
#: (rule 2 of ``docs/statistics.md``).
WITHIN_JOB_LIMIT = 0.10


def within_job_spread(repetitions: Sequence[float]) -> float:
    """MAD / median of a job's repetitions, a dimensionless share of the median.

    The plain median absolute deviation, as the stability rule is stated; the factor that
    makes it comparable with a standard deviation is for estimates between jobs.

    :param repetitions: times or rates of one job, above zero; fewer than two give 0

    >>> within_job_spread([9.0, 10.0, 12.0])
    0.1
    """
    if len(repetitions) < 2:
        return 0.0
    middle = median(repetitions)
    return median(abs(value - middle) for value in repetitions) / middle


def matmul_operations(size: int, batch: int = 1) -> int:
    """Floating-point operations of ``batch`` products of two ``size`` × ``size`` matrices.

    Each of the n² results takes n multiplications and n − 1 additions: 2n³ − n².

    >>> matmul_operations(2)  # 8 multiplications, 4 additions
    12
    >>> matmul_operations(512)
    268173312
    """
    return batch * (2 * size**3 - size**2)


def matmul_operations_of_2019(size: int, batch: int) -> int:
    """What one historic script counted: n³ + b(n³ − n²), only the additions batched.

    >>> matmul_operations_of_2019(512, 40) / matmul_operations(512, 40)  # doctest: +ELLIPSIS
    0.512...
    """
    return size**3 + batch * (size**3 - size**2)
