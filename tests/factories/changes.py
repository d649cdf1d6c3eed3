"""A change of performance, as the list of changes has it."""

from typing import Any

from model.changes import ChangeEvent, ChangeKind, PerformanceChange

_VALUES: dict[str, Any] = {
    "kind": ChangeKind.RELEASE, "event": ChangeEvent.ANNOUNCED, "refers_to": None,
    "package": "numpy", "host": None, "from_version": "2.0.2", "to_version": "2.3.5",
    "from_stack": "a", "to_stack": "b", "indicator": "conv2d", "parameters": {}, "device": None,
    "comparison_key": "c", "python_version": "3.11", "hardware_digest": "sha256:d",
    "hardware_label": "Xeon", "verdict": "faster", "effect_pct": 16.2, "observed_pct": 16.5,
    "interval_low_pct": 14.0, "interval_high_pct": 18.0, "delta_pct": 5.0, "jobs": 10,
    "baseline_jobs": 10, "comparisons": 1, "look": 1, "seen_at": None, "rule": "1",
}  # fmt: skip


def change_of_numpy(change_id: str, **fields: Any) -> PerformanceChange:
    """An announced change by a release that is faster, with other fields."""
    return PerformanceChange(change_id=change_id, **_VALUES | fields)
