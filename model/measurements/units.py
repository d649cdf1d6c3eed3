"""Units of rates, plausible ranges, and operation counts that turn a duration into a rate."""

import math
from dataclasses import dataclass
from enum import StrEnum

from model.errors import Reason

#: Variables that set the number of threads of numeric libraries; part of a hardware class.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

#: Parameters of the bundled indicators and of historic scripts. Each is a property in the graph.
#: All others are only in the JSON text of all parameters, because a store keeps property names
#: forever and documents may contain any number of them.
PARAMETERS = (
    "array_mib", "batch", "cell", "channels", "classes", "data_format", "dilation", "dtype",
    "epochs", "filter_height", "filter_input_channels", "filter_width", "form", "frames", "heads",
    "hidden_size", "image_size", "images", "input_channels", "input_height", "input_size",
    "input_width", "k", "latency_bound_ms", "layers", "m", "matrix_size", "mini_batch", "mode",
    "model", "module", "most", "n", "operation", "output_channels", "padding", "pass", "phase",
    "queries", "reps", "scenario", "score", "seed", "sequence_length", "strides", "target",
    "threads", "transposes", "vocabulary", "width",
)  # fmt: skip

#: Decimal prefixes of units, largest first.
DECIMAL_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))

SECONDS_PER_MS = 1e-3
#: ``ru_maxrss`` is in KiB on Linux (getrusage(2)).
BYTES_PER_MAXRSS = 1024


def byte_size(value: float) -> str:
    """A number of bytes with three digits and a decimal prefix.

    >>> byte_size(9_421_337), byte_size(999_900), byte_size(120)
    ('9.42 MB', '1 MB', '120 bytes')
    """
    for factor, prefix in DECIMAL_PREFIXES:
        if value >= 0.9995 * factor:
            return f"{value / factor:.3g} {prefix}B"
    return f"{value} bytes"


class Unit(StrEnum):
    """Unit of a rate. The record uses these units; documents and tables use multiples."""

    FLOP_PER_SECOND = "FLOP/s"
    #: Operations on integers.
    OP_PER_SECOND = "OP/s"
    BYTES_PER_SECOND = "B/s"
    IMAGES_PER_SECOND = "images/s"
    TOKENS_PER_SECOND = "tokens/s"
    #: Starts of a process that imports the library.
    IMPORTS_PER_SECOND = "imports/s"
    #: Samples of queries, as LoadGen counts them.
    SAMPLES_PER_SECOND = "samples/s"
    #: Whole runs of a task, such as a training or a benchmark; of a long one mostly below one.
    RUNS_PER_SECOND = "runs/s"


@dataclass(frozen=True, slots=True)
class Multiple:
    """A multiple of a unit, used in documents and tables: ``GFLOPS`` is 1e9 FLOP/s."""

    name: str
    factor: float


#: The multiple in which each unit is displayed.
DISPLAY_UNITS: dict[Unit, Multiple] = {
    Unit.FLOP_PER_SECOND: Multiple("GFLOPS", 1e9),
    Unit.OP_PER_SECOND: Multiple("GOPS", 1e9),
    Unit.BYTES_PER_SECOND: Multiple("GB/s", 1e9),
    Unit.IMAGES_PER_SECOND: Multiple("images/s", 1.0),
    Unit.TOKENS_PER_SECOND: Multiple("tokens/s", 1.0),
    Unit.IMPORTS_PER_SECOND: Multiple("imports/s", 1.0),
    Unit.SAMPLES_PER_SECOND: Multiple("samples/s", 1.0),
    Unit.RUNS_PER_SECOND: Multiple("runs/s", 1.0),
}
#: Unit by the name of its multiple.
UNITS: dict[str, Unit] = {multiple.name: unit for unit, multiple in DISPLAY_UNITS.items()}

#: A rate above these limits is an error of the benchmark. No single device comes near ten
#: petaFLOP per second in dense arithmetic of 16 bits or more; the fastest memory moves about
#: 1e13 B/s, and caches ten times that. Images and tokens are four orders of magnitude above what
#: small networks reach on one device, and no import takes only a microsecond. Runs are of any task,
#: also of one that takes nanoseconds.
MAX_RATES: dict[Unit, float] = {
    Unit.FLOP_PER_SECOND: 1e16,
    Unit.OP_PER_SECOND: 1e16,
    Unit.BYTES_PER_SECOND: 1e15,
    Unit.IMAGES_PER_SECOND: 1e10,
    Unit.TOKENS_PER_SECOND: 1e11,
    Unit.IMPORTS_PER_SECOND: 1e6,
    Unit.SAMPLES_PER_SECOND: 1e10,
    Unit.RUNS_PER_SECOND: 1e15,
}
#: Ten years. No benchmark takes longer; a value in the wrong unit may.
MAX_ELAPSED_MS = 3.2e11


def rate_fault(rate: float, unit: Unit) -> tuple[Reason, str] | None:
    """Reason code and message if no device can reach ``rate``; ``None`` if it is plausible.

    :param rate: in ``unit``, not in a multiple of it

    >>> rate_fault(2e12, Unit.FLOP_PER_SECOND) is None
    True
    >>> rate_fault(0.0, Unit.FLOP_PER_SECOND)[1]
    'a rate of zero'
    """
    if rate < 0:
        return Reason.RATE_NEGATIVE, f"a rate of {rate:g} {unit}"
    if rate == 0:
        return Reason.RATE_ZERO, "a rate of zero"
    if not math.isfinite(rate):
        return Reason.RATE_OVERFLOW, f"a rate too large for a number of {unit}"
    if rate > MAX_RATES[unit]:
        message = f"{rate:g} {unit} is more than any device reaches ({MAX_RATES[unit]:g})"
        return Reason.RATE_IMPLAUSIBLE, message
    return None


def duration_fault(duration_ms: float) -> str | None:
    """Message if a duration in milliseconds is implausible, else ``None``."""
    if not 0 <= duration_ms <= MAX_ELAPSED_MS:
        return f"{duration_ms!r} is not within 0 … {MAX_ELAPSED_MS:g}"
    return None if duration_ms * SECONDS_PER_MS > 0 else "took no time at all"


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
    """The operation count of a historic script, which batched only the additions: n³ + b(n³ − n²).

    >>> matmul_operations_of_2019(512, 40) / matmul_operations(512, 40)  # doctest: +ELLIPSIS
    0.512...
    """
    return size**3 + batch * (size**3 - size**2)
