"""Directions and units of metrics that a file only names, such as ``exp_per_second``."""

from __future__ import annotations

import re

from model.measurements.benchmark_results import Direction

#: Tried in this order; the first match counts.
_DIRECTIONS = (
    (re.compile(r"per_(?:sec|second|min|minute|joule)\b|per_s\b|/s(?:ec)?\b|tps\b"),
     Direction.HIGHER),
    (re.compile(r"throughput|speed_?up|accuracy|bandwidth|flops\b|precision|recall|goodput|sqnr"),
     Direction.HIGHER),
    (re.compile(r"latency|ttft|tpot|itl\b|e2el|time\b|_time_|duration|memory|_rss\b|_vms\b|loss\b"
                r"|seconds?_per|(?:^|_)(?:ns|us|ms|s|sec|seconds|bytes|mb|gb)\b|wer\b|perplexity"),
     Direction.LOWER),
)  # fmt: skip
_UNITS = (
    (re.compile(r"tok(?:en)?s?(?:_throughput|_per_sec(?:ond)?|/s(?:ec)?|ps)\b"), "tokens/s"),
    (re.compile(r"(?:requests?|req)(?:_throughput|_per_sec(?:ond)?|/s(?:ec)?)\b"), "requests/s"),
    (re.compile(r"exp(?:amples)?_per_sec(?:ond)?\b"), "examples/s"),
    (re.compile(r"(?:images|img)(?:_per_sec(?:ond)?|/s(?:ec)?)\b"), "images/s"),
    (re.compile(r"gb(?:_per_sec(?:ond)?|/s(?:ec)?)\b"), "GB/s"),
    (re.compile(r"tflops\b"), "TFLOP/s"),
    (re.compile(r"speed_?up\b"), "x"),
    (re.compile(r"(?:^|_|\()ms\b"), "ms"),
    (re.compile(r"(?:^|_|\()us\b"), "us"),
    (re.compile(r"(?:^|_|\()ns\b"), "ns"),
    (re.compile(r"(?:^|_|\()(?:s|sec|seconds)\b"), "s"),
    (re.compile(r"bytes\b|_rss\b|_vms\b"), "bytes"),
    (re.compile(r"(?:^|_|\()mb\b"), "MB"),
    (re.compile(r"(?:^|_|\()gb\b"), "GB"),
    (re.compile(r"percent\b|\(%\)"), "%"),
)  # fmt: skip


def direction_of(name: str) -> Direction:
    """Which values of the metric ``name`` are better, or ``UNKNOWN``.

    >>> [str(direction_of(it)) for it in ("tokens_per_second", "p99_ttft_ms", "graph_breaks")]
    ['higher', 'lower', 'unknown']
    """
    text = name.lower()
    return next((it for pattern, it in _DIRECTIONS if pattern.search(text)), Direction.UNKNOWN)


def unit_of(name: str) -> str:
    """The unit in the name of a metric; empty if there is none.

    >>> unit_of("median_ttft_ms"), unit_of("requests_per_second"), unit_of("accuracy_top_1")
    ('ms', 'requests/s', '')
    """
    text = name.lower()
    return next((unit for pattern, unit in _UNITS if pattern.search(text)), "")


def is_rate_or_time(unit: str) -> bool:
    """Whether a value of zero in ``unit`` means that nothing was measured.

    >>> is_rate_or_time("tokens/s"), is_rate_or_time("bytes")
    (True, False)
    """
    return unit.endswith("/s") or unit in ("x", "s", "ms", "us", "ns")
