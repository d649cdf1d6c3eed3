"""Answers of the tools of ``thoth mcp``, selected from documents of ``guard``, ``fix`` and ``why``.

An answer repeats no version of the question, which may not exist, and no free text of others, which
may contain instructions. Items that do not fit are left out whole and counted, because a shortened
sentence about a measurement could lose its interval.
"""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from model.text import printable

Document = Mapping[str, Any]
Keys = Mapping[str, Any]

#: Maximum size of an answer and of an item of its lists, in bytes; number of items of a list.
MOST_BYTES, _LONGEST_ITEM, _MOST_ITEMS = 2_000, 700, 12
_VULNERABILITY = dict.fromkeys(("name", "package", "id", "severity"))
#: A vulnerability that a VEX document closes, without the reason, which others may have written.
_CLOSED = {**_VULNERABILITY, "vex": {"status": None, "until": None}}
#: What is selected of a document: keys, and of objects, or lists of them, the keys below.
_GUARD: Keys = {
    "speed_only": None, "yanked": {"name": None}, "introduced": _VULNERABILITY,
    "proposals": {"package": None, "instead": None}, "missing": {"kind": None, "package": None},
    "unmeasured": None, "removed": _VULNERABILITY, "changes": {"name": None}, "closed": _CLOSED,
    "not_compared": None,
}  # fmt: skip
_FIX: Keys = {
    "changed": {"name": None, "new": None}, "slower": None, "fixed": {"id": None},
    "introduced": _VULNERABILITY, "proof": {"status": None},
    "remaining": {**_VULNERABILITY, "blocked_by": {"reasons": None, "unblocked_by": None}},
}  # fmt: skip
_WHY: Keys = {
    "name": None, "version": None, "path": None, "askers": None, "placing": {"message": None},
    "otherwise": {"outcome": None, "points": None}, "points": None, "measured": None,
    "changes": {"name": None, "advised": None, "forced": None},
}  # fmt: skip
#: Groups of ``thoth guard`` whose messages are about measurements.
_MEASURED = ("slower", "equivalent_or_faster", "measured_by_others")
_COMPARE = "thoth compare OLD NEW{python} --ingest -- COMMAND"
#: What supplies missing knowledge, by its kind.
_REMEDIES = {"metadata": "thoth guard OLD NEW{options} --fetch",
             "advisories": "thoth advisories sync", "releases": "thoth fix LOCK{options} --fetch",
             "verdict": _COMPARE, "measurement": _COMPARE}  # fmt: skip


def _settled_by(kinds: Iterable[str], options: Iterable[str]) -> list[str]:
    """The commands that supply missing knowledge, with the options of the question.

    >>> _settled_by(["metadata", "verdict"], ["--python=3.12", "--platform=win32"])
    ['thoth guard OLD NEW --python=3.12 --platform=win32 --fetch',\
 'thoth compare OLD NEW --python=3.12 --ingest -- COMMAND']
    """
    texts = [f" {shlex.quote(it)}" for it in options]
    named = {"options": "".join(texts),
             "python": "".join(it for it in texts if it.startswith(" --python="))}  # fmt: skip
    return list(dict.fromkeys(_REMEDIES[it].format(**named) for it in kinds))


def guard_answer(
    document: Document, *, by_speed: bool, options: Iterable[str] = ()
) -> dict[str, Any]:
    """The answer of ``thoth guard``.

    :param options: of the environment, which suggested commands repeat
    :param by_speed: whether the answer is *unknown* without a measurement; always if the command
        checked only speed
    """
    missing = {(it["kind"], it["package"]): it for it in document["missing"]}
    kinds = dict.fromkeys(kind for kind, _ in missing)
    kinds |= {"measurement": None} if document["unmeasured"] else {}
    outcome, by_speed = document["outcome"], by_speed or document["speed_only"]
    claims = [it for key in ("stacks", "claims", "shown") for it in document.get(key, ())]
    return {
        "answer": "unknown" if by_speed and kinds and outcome == "no_harm" else outcome,
        "measured": [
            {"package": it["package"], "group": group, "message": it["message"]}
            for group in _MEASURED for it in document["groups"].get(group, ())
        ],
        "claims": [it["claim_id"][:19] for it in claims][:4],
        "settled_by": _settled_by(kinds, options),
        **_selected({**document, "missing": missing.values()}, _GUARD),
    }  # fmt: skip


def fix_answer(document: Document, options: Iterable[str] = ()) -> dict[str, Any]:
    """The first fix of ``thoth fix``; *unknown* if no smallest fix was found in time.

    So is a lock of which no package is known.

    :param options: of the environment, which suggested commands repeat
    """
    fix: Document = next(iter(document["fixes"]), {})
    late = document["open"] and not fix.get("proof") and document["conflict"] is None
    remaining, read = fix.get("remaining", document["open"]), document["advisories_as_of"]
    vulnerable = document["open"] or document["closed"] or document["not_counted"]
    unheard_of = not vulnerable and len(document["unknown"]) == document["packages"]
    unread = unheard_of or (remaining and document.get("unread"))
    answer = "remains" if remaining else "fixable" if document["open"] else "nothing_open"
    known = read and not (late or unread)
    answers = {"answer": answer if known else "unknown", "advisories_as_of": read}
    missing = {"advisories": not read, "releases": unread}
    # No index has these versions of the lock.
    unheard = {fix["versions"].get(it, "\0") for it in document["unknown"]} if fix else set()
    selected = {"remaining": _selected(remaining, _FIX["remaining"]), **_selected(fix, _FIX)}
    for blocker in (it.get("blocked_by") or {} for it in selected["remaining"]):
        for key, texts in blocker.items():
            blocker[key] = [it for it in texts if not any(out in it for out in unheard)][:3]
    settled_by = _settled_by([it for it in missing if missing[it]], options)
    return {**answers, "settled_by": settled_by, **selected,
            "unknown": document["unknown"], "not_looked_at": document["not_looked_at"],
            "closed": _selected(document.get("closed", ()), _CLOSED)}  # fmt: skip


def why_answer(document: Document, specifier: str) -> dict[str, Any]:
    """The answer of ``thoth why``, or of ``thoth why-not`` for a question with this specifier."""
    steps = (document["conflict"] or {"steps": ()})["steps"]
    because = [it["message"] for it in steps if it["specifier"] != specifier]
    absent = "no_stack" if document.get("no_stack") else "not_in_stack"
    presence = "in_stack" if document.get("version") else absent
    answer = document.get("outcome", presence)
    return {"answer": answer, "because": because, **_selected(document, _WHY)}


def unknown_answer(settled_by: str) -> dict[str, Any]:
    """The answer to a question that cannot be examined."""
    return {"answer": "unknown", "settled_by": [settled_by]}


def answer_within(answer: Document, most: int = MOST_BYTES) -> str:
    """An answer as JSON of fewer than ``most`` bytes; ``left_out`` counts omitted items.

    >>> answer_within({"answer": "harm", "changes": ["a" * 30, "b"], "yanked": []}, 60)
    '{"answer":"harm","changes":["b"],"left_out":1}'
    """
    shown = {key: it for key, it in _printable(answer).items() if it not in ("", [], {})}
    lists = {key: it for key, it in shown.items() if isinstance(it, list)}
    left_out = sum(map(len, lists.values()))
    longest = min(_LONGEST_ITEM, most // 2)
    for items in lists.values():
        items[:] = [it for it in items if len(orjson.dumps(it)) < longest][:_MOST_ITEMS]
    while True:
        count = left_out - sum(map(len, lists.values()))
        kept = {key: it for key, it in shown.items() if it != []}
        text = orjson.dumps({**kept, **({"left_out": count} if count else {})})
        if len(text) < most or not any(lists.values()):
            return text.decode()
        max(lists.values(), key=lambda it: len(orjson.dumps(it))).pop()


def _selected(value: Any, keys: Keys | None) -> Any:
    """The selected keys of an object, or of each object of a list; anything else as it is."""
    if keys is None or value is None:
        return value
    if isinstance(value, Mapping):
        return {key: _selected(value[key], below) for key, below in keys.items() if key in value}
    return [_selected(it, keys) for it in value]


def _printable(value: Any) -> Any:
    """A copy whose texts have no control characters; keys without a value are left out."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {key: _printable(it) for key, it in value.items() if it is not None}
    return [*map(_printable, value)] if isinstance(value, list | tuple) else value
