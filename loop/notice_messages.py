"""The messages of a notice: a JSON body for programs, and plain text for people."""

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC
from typing import Any

import orjson

from adviser.scoring.claim_texts import effect_text
from graph.record.events import Event, EventKind
from model.changes import ChangeEvent
from model.measurements.units import byte_size
from model.redaction import cut

#: Packages and changes that a text names; the event has all of them.
_NAMED = 20


def notice_body(event: Event) -> bytes:
    """The body of a webhook by Standard Webhooks: ``type``, ``timestamp`` and ``data``.

    ``docs/reference/webhooks.md`` describes the keys. The body is the same in every attempt.
    """
    body = {
        "type": event.kind.value,
        "timestamp": event.at.astimezone(UTC).isoformat(timespec="milliseconds"),
        "data": {
            "event_id": event.event_id,
            "subject": event.subject,
            "text": notice_text(event),
            "details": dict(event.data),
        },
    }
    return orjson.dumps(body)


def notice_title(event: Event) -> str:
    """The title of a message to people."""
    return f"Thoth: {_NOTICES[event.kind][0]}"


def notice_text(event: Event) -> str:
    """The event in one or two sentences, with its identifiers."""
    return _NOTICES[event.kind][1](cut(event.subject), event.data)


def _change_text(change_id: str, data: Mapping[str, Any]) -> str:
    before, after = _shown(data, "from_version"), _shown(data, "to_version")
    what = _shown(data, "package") if data.get("package") else f"Machine {_shown(data, 'host')}"
    subject = f"{what}, from {before} to {after}:"
    if data.get("event") == ChangeEvent.WITHDRAWN:
        text = (
            f"{subject} {_shown(data, 'indicator')} has not changed, more jobs show; the earlier"
            " change is withdrawn"
        )
    else:
        other = before if data.get("package") else ""
        subject = f"{what} {after} is" if other else subject
        difference, interval = _difference(data, other)
        text = f"{subject} {difference} in {_shown(data, 'indicator')}{_machine(data)}{interval}"
    text += f". Change: {change_id}"
    return f"{text}, about {_shown(data, 'refers_to')}." if data.get("refers_to") else f"{text}."


def _difference(data: Mapping[str, Any], other: str) -> tuple[str, str]:
    """The difference to ``other``, and its interval in parentheses if it is known."""
    observed = data.get("observed_percent", data.get("effect_percent"))
    interval = data.get("interval_percent")
    if not isinstance(observed, int | float):
        return f"{_shown(data, 'verdict')}{other and f' than {other}'}", ""
    low, high = interval if isinstance(interval, list) and len(interval) == 2 else (math.inf,) * 2
    difference, text = effect_text(observed, low, high, other)
    return difference, f" ({text})"


def _advice_text(project: str, data: Mapping[str, Any]) -> str:
    text = f"The advice for {project} has changed"
    steps = list(map(version_step, data.get("packages") or ()))
    text += f": {_listed(steps)}." if steps else "."
    if data.get("reason"):
        text += f" {_shown(data, 'reason')}"
    if data.get("indicators"):
        text += f" Measured with {_listed(map(cut, data['indicators']))}{_machine(data)}."
    if data.get("advice_id"):
        text += f" Advice: {_shown(data, 'advice_id')}."
    if changes := data.get("change_ids"):
        text += f" Changes: {_listed(map(cut, changes))}."
    return text


def _machine(data: Mapping[str, Any]) -> str:
    return f" on {_shown(data, 'hardware')}" if data.get("hardware") else ""


def version_step(package: Mapping[str, Any]) -> str:
    """The change of a package's version, such as ``numpy 2.0.2 → 2.3.5``."""
    name = _shown(package, "name")
    if package.get("from_version") is None:
        return f"{name} {_shown(package, 'to_version')} added"
    if package.get("to_version") is None:
        return f"{name} {_shown(package, 'from_version')} removed"
    return f"{name} {_shown(package, 'from_version')} → {_shown(package, 'to_version')}"


def _state_text(subject: str, data: Mapping[str, Any]) -> str:
    reason = f": {_shown(data, 'reason')}" if data.get("reason") else ""
    return f"{subject} has the state {_shown(data, 'state')}{reason}."


def _hash_text(index: str, data: Mapping[str, Any]) -> str:
    files = [
        f"{_shown(it, 'name')}=={_shown(it, 'version')} ({_shown(it, 'file')})"
        for it in data.get("files") or ()
    ]
    return (
        f"The index {index} offers files with other hashes than before: {_listed(files)}. "
        "Do not install them until you know why."
    )


def _night_text(subject: str, data: Mapping[str, Any]) -> str:
    problems = [
        f"{_shown(it, 'part')}: {_shown(it, 'reason')}" for it in data.get("problems") or ()
    ]
    host = f" on {_shown(data, 'host')}" if data.get("host") else ""
    return f"{_NIGHTS.get(subject, subject)}{host} has failed: {_listed(problems)}."


def _disk_text(place: str, data: Mapping[str, Any]) -> str:
    free, size = data.get("free_bytes"), data.get("size_bytes")
    if not isinstance(free, int) or not isinstance(size, int):
        return f"The disk of {place} is nearly full."
    return f"The disk of {place} is nearly full: {byte_size(free)} of {byte_size(size)} are free."


def _solved_text(subject: str, data: Mapping[str, Any]) -> str:
    if data.get("problem") == EventKind.DISK_FULL:
        return f"The disk of {subject} has space again."
    return f"{_NIGHTS.get(subject, subject)} works again."


def _shown(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    return "unknown" if value is None else cut(value)


def _listed(texts: Iterable[str]) -> str:
    listed = list(texts)
    more = len(listed) - _NAMED
    return ", ".join(listed[:_NAMED]) + (f" and {more} more" if more > 0 else "")


_NIGHTS = {"nightly": "The nightly run", "loop": "The night of the loop"}
#: The title of a notice, and the function that makes its text.
_NOTICES: Mapping[EventKind, tuple[str, Callable[[str, Mapping[str, Any]], str]]] = {
    EventKind.CHANGE_RECORDED: ("a change of speed", _change_text),
    EventKind.ADVICE_CHANGED: ("advice has changed", _advice_text),
    EventKind.RELEASE_GIVEN_UP: (
        "a release was given up",
        lambda release, data: f"{release} will not be settled: {_shown(data, 'reason')}.",
    ),
    EventKind.RELEASE_STATE: ("state of a release", _state_text),
    EventKind.PROJECT_STATE: ("state of a project", _state_text),
    EventKind.HASH_CHANGED: ("files have changed on an index", _hash_text),
    EventKind.NIGHT_FAILED: ("a night has failed", _night_text),
    EventKind.DISK_FULL: ("a disk is nearly full", _disk_text),
    EventKind.PROBLEM_SOLVED: ("a problem is solved", _solved_text),
    EventKind.TEST: (
        "a test",
        lambda target, _data: f"This is a test of {target}. Nothing has happened.",
    ),
}
