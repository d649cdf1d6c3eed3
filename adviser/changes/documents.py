"""Changes as sentences and as JSON, the same for the command, the API and the feeds."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from adviser.scoring.claim_texts import effect_text
from adviser.stack_comparison import short_digest
from model.changes import ChangeEvent, ChangeKind, PerformanceChange, RecordedChange
from model.json_documents import as_json_time
from model.packages.bundled_libraries import CONTEXT


def change_title(change: PerformanceChange) -> str:
    """What changed, in one line."""
    size, _ = _effect(change)
    if change.kind is ChangeKind.RELEASE:
        subject = f"{change.package} {change.from_version} → {change.to_version}"
    else:
        subject = f"Machine {change.host or 'unknown'}"
    if change.event is ChangeEvent.WITHDRAWN:
        return f"{subject}: no longer a difference in {change.indicator} (withdrawn)"
    suffix = "" if change.event is ChangeEvent.ANNOUNCED else f" ({change.event.value})"
    return f"{subject}: {size} in {change.indicator}{suffix}"


def change_text(change: PerformanceChange) -> str:
    """The evidence of a change, in one paragraph."""
    parameters = ", ".join(f"{key} {change.parameters[key]}" for key in sorted(change.parameters))
    measured = f"{change.indicator} ({parameters})" if parameters else change.indicator
    _, interval = _effect(change)
    counts = f"{change.baseline_jobs} and {change.jobs}"
    if change.kind is ChangeKind.RELEASE:
        stacks = f"{short_digest(change.from_stack)} and {short_digest(change.to_stack)}"
        basis = f"{counts} jobs of stacks {stacks}, which differ in {change.package} only"
    else:
        basis = f"{counts} runs of stack {short_digest(change.from_stack)}"
    bundled = change.bundled if isinstance(change, RecordedChange) else None
    context = f" {bundled} ({CONTEXT})." if bundled else ""
    refers = f" This entry refers to {change.refers_to}." if change.refers_to else ""
    return (
        f"{change_title(change)} ({interval}), from {basis}. Measured with {measured} on"
        f" {change.hardware_label}.{context}{refers}"
    )


def _effect(change: PerformanceChange) -> tuple[str, str]:
    return effect_text(change.observed_pct, change.interval_low_pct, change.interval_high_pct)


def change_document(change: RecordedChange) -> dict[str, Any]:
    """A change as JSON values."""
    values = {field.name: getattr(change, field.name) for field in fields(change)}
    return {
        **values,
        "kind": change.kind.value,
        "event": change.event.value,
        "parameters": dict(change.parameters),
        "seen_at": as_json_time(change.seen_at),
        "recorded_at": as_json_time(change.recorded_at),
        "title": change_title(change),
    }
