"""How pages write values: numbers, percentages, times, digests and units."""

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from markupsafe import Markup, escape

from adviser.scoring.sample_needs import Need, settling_text
from adviser.stacks_document import differing_text
from model.measurements.job_stability import disturbed_jobs, exclusion_text, left_out_text
from model.measurements.units import DECIMAL_PREFIXES, DISPLAY_UNITS, byte_size
from model.text import counted, step_text
from pis.catalogue import summaries

#: Multiples of the units of rates.
_MULTIPLES = {unit.value: it for unit, it in DISPLAY_UNITS.items()}
#: What follows the prefix, by unit.
_PREFIXED = {"FLOP": "FLOP"}


def number(value: float | None, digits: int = 3) -> str:
    """A number with thousands separators, and at most ``digits`` significant ones if it has a part.

    >>> number(1652), number(0.12345), number(12345.678), number(None)
    ('1,652', '0.123', '12,346', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, int) or abs(value) >= 10**digits:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def percent(value: float | None, digits: int = 1) -> str:
    """A signed percentage.

    >>> percent(15.23), percent(-3.0), percent(None)
    ('+15.2 %', '-3.0 %', '–')
    """
    return "–" if value is None else f"{value:+.{digits}f} %"


def share(value: float | None) -> str:
    """A share as a percentage without sign.

    >>> share(0.951), share(None)
    ('95.1 %', '–')
    """
    return "–" if value is None else f"{value * 100:.1f} %"


def quantity(value: float | None, unit: str | None = None, digits: int = 3) -> str:
    """A value with its unit; rates in the multiple that commands and reports use.

    :param digits: as for :func:`number`

    >>> quantity(9.42e10, "FLOP/s"), quantity(8.7e8, "FLOP/s"), quantity(1.2345e13, "FLOP/s")
    ('94.2 GFLOPS', '0.87 GFLOPS', '12,345 GFLOPS')
    >>> quantity(12.0, "images/s"), quantity(3.2e6, "FLOP"), quantity(None, "s")
    ('12 images/s', '3.2 MFLOP', '–')
    """
    if value is None:
        return "–"
    factor, prefixed = prefixed_unit(value, unit or "")
    return f"{number(value if factor == 1 else value / factor, digits)} {prefixed}".rstrip()


def prefixed_unit(value: float, unit: str) -> tuple[float, str]:
    """The factor and the unit in which a value of this size is written.

    >>> prefixed_unit(9.42e10, "FLOP/s"), prefixed_unit(12_000.0, "images/s")
    ((1000000000.0, 'GFLOPS'), (1.0, 'images/s'))
    """
    if unit in _MULTIPLES:
        return _MULTIPLES[unit].factor, _MULTIPLES[unit].name
    if name := _PREFIXED.get(unit):
        for factor, prefix in DECIMAL_PREFIXES:
            if abs(value) >= factor:
                return factor, f"{prefix}{name}"
    return 1, unit


def digest(value: str | None, length: int = 12) -> str:
    """The first characters of a digest, without the algorithm.

    >>> digest("sha256:1f2e3d4c5b6a79880f1e2d3c"), digest(None)
    ('1f2e3d4c5b6a', '–')
    """
    return "–" if value is None else value.removeprefix("sha256:")[:length]


def moment(value: str | datetime | None) -> str:
    """A time in UTC, to the minute.

    >>> moment("2026-11-23T13:41:25.940629+00:00"), moment(None)
    ('2026-11-23 13:41 UTC', 'never')
    """
    if value is None:
        return "never"
    time = datetime.fromisoformat(value) if isinstance(value, str) else value
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def day(value: str | datetime | None) -> str:
    """The day of a time in UTC.

    >>> day("2026-11-23T13:41:25+00:00")
    '2026-11-23'
    """
    return "–" if value is None else moment(value)[:10]


def duration(seconds: float | None) -> str:
    """A duration in the unit that fits its size.

    >>> duration(0.31), duration(61), duration(7300), duration(200000), duration(None)
    ('0.31 s', '61 s', '2.0 h', '2.3 days', '–')
    """
    if seconds is None:
        return "–"
    if seconds < 100:
        return f"{number(seconds, 2)} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"


def since(end: str | datetime, start: str | datetime) -> str:
    """The duration between two times.

    >>> since("2026-11-23T13:41:25+00:00", "2026-11-23T13:41:04+00:00")
    '21 s'
    """
    ends = [datetime.fromisoformat(it) if isinstance(it, str) else it for it in (start, end)]
    return duration((ends[1] - ends[0]).total_seconds())


def size(value: float | None) -> str:
    """A number of bytes with a decimal prefix.

    >>> size(9_421_337), size(120), size(None)
    ('9.42 MB', '120 bytes', '–')
    """
    return "–" if value is None else byte_size(value)


def visible(value: object) -> str:
    """Text from outside, with control and direction characters made visible.

    >>> visible("a\\x1b[31mb\\u202ec")
    'a\\\\x1b[31mb\\\\u202ec'
    """
    text = str(value)
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cf", "Cs"}:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def visible_text(value: object) -> object:
    """The form of a value in a template: all characters of plain text are visible.

    Templates call it for every value, as Jinja's ``finalize``.
    """
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return visible(value) if is_text else value


def words(text: str) -> Markup:
    """Render plain text as HTML; text between backticks becomes code.

    >>> words("`limit` is < 10")
    Markup('<code>limit</code> is &lt; 10')
    """
    parts = map(escape, visible(text).split("`"))
    return Markup().join(
        Markup("<code>{}</code>").format(it) if number % 2 else it
        for number, it in enumerate(parts)
    )


def parameters(value: Mapping[str, Any] | None) -> str:
    """Parameters of an indicator in one line.

    >>> parameters({"matrix_size": 512, "dtype": "float32"})
    'dtype=float32, matrix_size=512'
    """
    return ", ".join(f"{name}={item}" for name, item in sorted((value or {}).items()))


def missing(comparison: Mapping[str, Any], left_out: Mapping[str, int]) -> str:
    """The jobs that an undetermined comparison lacks, in the words of ``thoth stacks``.

    :param left_out: number of jobs that it leaves out, by reason

    >>> missing({"needs": "jobs", "hosts": 1, "jobs_missing": 0, "baseline_jobs_missing": 2,
    ...          "pairs": 7, "job_s": 45.0}, {})
    '2 more of the baseline, about 90 seconds'
    """
    ends = {it: comparison.get(it) for it in ("interval_low_pct", "interval_high_pct")}
    values = {key: math.inf if end is None else end for key, end in ends.items()}
    needs = comparison["needs"] and Need(comparison["needs"])
    still_open = SimpleNamespace(**{**comparison, **values, "needs": needs})
    disturbed = 0 if comparison["pairs"] else disturbed_jobs(left_out)
    return settling_text(still_open, disturbed, command=None)


def hardware_text(value: Mapping[str, Any]) -> str:
    """The names of hardware, each once; names that a longer name contains are left out.

    >>> hardware_text({"label": "AMD EPYC, 2 CPUs", "model": "AMD EPYC", "cores": 2})
    'AMD EPYC, 2 CPUs'
    >>> hardware_text({"accelerator": "Tesla V100", "description": "Tesla V100"})
    'Tesla V100'
    """
    names = dict.fromkeys(it for _, it in sorted(value.items()) if isinstance(it, str))
    return ", ".join(it for it in names if not any(it != one and it in one for one in names))


def indicator_summary(name: str) -> str:
    """The summary of a bundled indicator; empty for other scripts.

    >>> indicator_summary("PiConv2D"), indicator_summary("PiMine")
    ('Convolution of images: rate of its operations.', '')
    """
    return summaries().get(name, "")


def differing(packages: Sequence[Mapping[str, Any]]) -> str:
    """The first packages that differ from the baseline, and how many more there are.

    >>> differing([{"name": "numpy", "baseline_version": "2.2.6", "version": "2.3.5"}])
    'numpy 2.2.6 → 2.3.5'
    """
    return differing_text(packages, 5)


def counted_jobs(stack: Mapping[str, Any]) -> str:
    """The number of jobs of a stack, and how many of them count if a rule leaves some out.

    >>> counted_jobs({"jobs": 10, "unstable": ["steal"]})
    '9 of 10'
    """
    left_out = len(stack["unstable"])
    return (
        f"{number(stack['jobs'] - left_out)} of {number(stack['jobs'])}"
        if left_out
        else number(stack["jobs"])
    )


def exclusions(reasons: Iterable[str]) -> str:
    """How many jobs are left out for each reason, in words.

    >>> exclusions(["steal", "spread", "steal"])
    '2 with stolen CPU time, 1 with scattered repetitions'
    """
    return left_out_text(Counter(reasons))


#: Filters of templates by name.
FILTERS: Mapping[str, Callable[..., str]] = {
    "number": number, "percent": percent, "share": share, "quantity": quantity, "digest": digest,
    "moment": moment, "day": day, "parameters": parameters,
    "duration": duration, "since": since, "size": size, "step_text": step_text, "counted": counted,
    "missing": missing, "differing": differing, "counted_jobs": counted_jobs,
    "exclusions": exclusions, "exclusion": exclusion_text, "indicator_summary": indicator_summary,
    "hardware_text": hardware_text, "words": words,
}  # fmt: skip
