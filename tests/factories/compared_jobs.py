"""Jobs of stacks that ``thoth compare`` measures, with planted rates."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from adviser.planned_comparison import LOOK_BLOCKS, PlannedLook, judge_look
from model.measurements.evidence import MeasuredObservation, Reading, Series
from model.measurements.units import Unit

_START = datetime(2026, 1, 1, tzinfo=UTC)


def observations(
    log_rates: Sequence[Sequence[float]], benchmark: str = "bench"
) -> list[MeasuredObservation]:
    """The jobs of one benchmark: a row for each stack, a column for each block."""
    series = Series(
        f"sha256:{benchmark}", "command", "1f" * 32, {"benchmark": benchmark}, None,
        Unit.RUNS_PER_SECOND, "sha256:host", "3.11",
    )  # fmt: skip
    return [
        MeasuredObservation(
            series,
            Reading(
                f"{letter}{block}", 0, letter, letter, f"{letter}{block}", math.exp(rate), None,
                "host", f"run:{block}", _START + timedelta(seconds=block),
            ),
            "a machine", f"stack {letter}", None,
        )
        for letter, row in zip("ABCDEF", log_rates, strict=False)
        for block, rate in enumerate(row)
    ]  # fmt: skip


def settled_look(log_rates: Sequence[Sequence[float]], most: int = len(LOOK_BLOCKS)) -> PlannedLook:
    """The look at which all is settled, or the last one."""
    look: PlannedLook | None = None
    for number, blocks in enumerate(LOOK_BLOCKS[:most]):
        rows = [row[:blocks] for row in log_rates]
        look = judge_look([observations(rows)], number, blocks, 1.0, look)
        if look.settled:
            break
    assert look is not None
    return look
