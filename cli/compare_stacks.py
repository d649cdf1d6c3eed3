"""The stacks that ``thoth compare`` measures: what a person named, resolved once."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from adviser.answering.index_stacks import NoValidStack
from adviser.planned_comparison import ComparedStack
from adviser.projects.pyproject import has_requirements
from cli.bisect_measurer import StackPinner, pins_of
from cli.project_files import names_file, read_lock_file, read_project
from common.formats.locks.entries import LockEntry, LockSelection
from common.settings import Settings
from model.errors import InvalidArgument, InvalidFile
from model.packages.environments import environment
from model.text import first_few, printable
from pis.amun.locks import Lock, pipfile_lock_of
from pis.amun.specification import load_specification, packages_of
from pis.amun.specification_files import read_specification
from pis.catalogue import indicator_of

#: Name of the file in a folder of a comparison that keeps the question and the resolved stacks.
STATE_NAME = "compare.json"
#: Versions of a resolved stack, by name.
Pins = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Subject:
    """What a person named on the command line.

    :param requirements: of a requirement; empty for a lock or a specification
    :param lock: the packages that a lock installs here
    :param left_out: entries of the lock from other sources than an index, or without a version
    :param document: of a specification
    """

    text: str
    requirements: tuple[str, ...] = ()
    lock: tuple[LockEntry, ...] = ()
    left_out: tuple[str, ...] = ()
    document: Mapping[str, Any] | None = None

    @property
    def identity(self) -> Any:
        """What identifies it: the requirements, or the content of the file."""
        return list(self.requirements) or self.pins or self.document

    @property
    def pins(self) -> dict[str, str]:
        """The version of each package of a lock."""
        return {it.name: it.version for it in self.lock}

    def locked_part(self, pinner: StackPinner) -> dict[str, Any] | None:
        """The part ``python`` of a specification; ``None`` if the lock lacks a hash."""
        if not all(it.hashes for it in self.lock):
            return None
        names = {url: name for name, url in pinner.indexes.items()}
        packages = tuple(
            replace(it, marker=None, index=names.get(it.index or "", pinner.index))
            for it in self.lock
        )
        python = pinner.python_version or f"{sys.version_info.major}.{sys.version_info.minor}"
        lock = pipfile_lock_of(Lock(packages, python))
        return {
            "requirements": {"packages": {}, "requires": {"python_version": python}},
            "requirements_locked": lock,
        }


def subject_of(text: str, python_version: str | None, selection: LockSelection) -> Subject:
    """A requirement, a lock or a specification.

    :param selection: what of a lock counts
    :raises InvalidArgument: if the text is no requirement, lock or specification
    :raises InvalidFile: for a lock that cannot be used
    :raises InvalidSpecification: for an invalid specification
    """
    if text.endswith(".json"):
        return Subject(text, document=read_specification(text))
    if names_file(text):
        markers = environment(python_version).markers
        lock = read_lock_file(Path(text), selection, markers)
        others = tuple(it.what for it in lock.elsewhere)
        return Subject(text, lock=tuple(lock.packages(markers).values()), left_out=others)
    return Subject(text, (_requirement(text),))


def _requirement(text: str) -> str:
    try:
        parsed = Requirement(text)
    except InvalidRequirement as error:
        message = f"{text!r} is no file, and no requirement: {str(error).splitlines()[0]}"
        raise InvalidArgument(message) from None
    if parsed.url:
        raise InvalidArgument(f"{text!r}: give a requirement without an address")
    return text


def pinned_versions(subject: Subject) -> dict[str, str]:
    """The versions that a subject names, without resolving anything.

    :raises InvalidArgument: for a specification, or a requirement that pins no version
    """
    if subject.lock:
        return subject.pins
    versions: dict[str, str] = {}
    for parsed in map(Requirement, subject.requirements):
        pins = [it.version for it in parsed.specifier if it.operator in {"==", "==="}]
        if len(parsed.specifier) == len(pins) == 1 and "*" not in pins[0]:
            versions[canonicalize_name(parsed.name)] = pins[0]
    if not versions:
        raise InvalidArgument(
            f"{subject.text!r} names no version", hint="write numpy==2.1.0, or name a lock"
        )
    return versions


def project_requirements(folder: Path) -> list[str]:
    """Requirements of the ``pyproject.toml`` in a folder, also those for development.

    Commands such as pytest are installed for development. Empty without a ``pyproject.toml``.

    :raises InvalidArgument: if the file cannot be read
    """
    path = folder / "pyproject.toml"
    try:
        if not path.is_file() or not has_requirements(tomllib.loads(path.read_text("utf-8"))):
            return []
        project = read_project(path)
    except (OSError, ValueError, InvalidFile) as error:
        raise InvalidArgument(f"{path}: {error}", hint="--no-project leaves it out") from None
    return [it.text for it in (*project.requirements, *project.dev)]


def resolved_stacks(
    pinner: StackPinner,
    subjects: Sequence[Subject],
    others: Sequence[str],
    variables: Sequence[Mapping[str, str]],
    state: dict[str, Any],
) -> tuple[list[ComparedStack], list[dict[str, Any]]]:
    """The stacks, and the part ``python`` of the specification of each.

    :param others: further requirements of every stack
    :param state: keeps the versions of resolved requirements
    :raises NoValidStack: if a subject cannot be installed
    """
    required = [it for it in subjects if it.requirements]
    if required and "resolved" not in state:
        sides = [[*it.requirements, *others] for it in required]
        names = {
            canonicalize_name(Requirement(it).name) for side in required for it in side.requirements
        }
        state["resolved"] = held_equal(pinner.stacks.best, sides, names)
        pinner.folder.write_state(state)
    resolved = iter(state.get("resolved", ()))
    stacks, parts = [], []
    for letter, subject, own in zip(ascii_uppercase, subjects, variables, strict=False):
        if subject.document is not None:
            checked = load_specification(subject.document, pinner.indexes)
            part = checked.document["python"]
        else:
            part = subject.locked_part(pinner) if subject.lock else None
            if part is None:
                pins = next(resolved) if subject.requirements else subject.pins
                specification, reason = pinner.exact_specification(pins)
                if specification is None:
                    raise NoValidStack(f"{subject.text}: cannot be installed: {printable(reason)}")
                part = specification["python"]
        stacks.append(ComparedStack(letter, subject.text, pins_of({"python": part}), own))
        parts.append(part)
    return stacks, parts


def held_equal(
    best: Callable[[Sequence[str]], dict[str, str]],
    sides: Sequence[Sequence[str]],
    compared: Collection[str],
) -> list[dict[str, str]]:
    """Resolve several lists of requirements so that other packages differ as little as possible.

    :param best: resolves requirements
    :param compared: normalised names of the packages that may differ
    :raises NoValidStack: if one of them has no stack
    """
    alone = [best(side) for side in sides]
    for chosen in alone:
        held = {it: version for it, version in chosen.items() if it not in compared}
        try:
            return [best([*side, *_pinned(held)]) for side in sides]
        except NoValidStack:
            continue
    first = alone[0]
    return [
        first,
        *(_nearest(best, side, own, first) for side, own in zip(sides[1:], alone[1:], strict=True)),
    ]


def _nearest(
    best: Callable[[Sequence[str]], dict[str, str]], side: Sequence[str], own: Pins, first: Pins
) -> dict[str, str]:
    """The stack of a side with as many versions of the first stack as fit, tried by name."""
    stack, kept = dict(own), dict[str, str]()
    for name in sorted(own.keys() & first.keys()):
        if stack.get(name) == first[name]:
            continue
        try:
            stack = best([*side, *_pinned({**kept, name: first[name]})])
            kept[name] = first[name]
        except NoValidStack:
            continue
    return stack


def _pinned(pins: Pins) -> list[str]:
    return [f"{name}=={version}" for name, version in sorted(pins.items())]


def indicator_fields(settings: Settings, stacks: Sequence[ComparedStack]) -> list[dict[str, Any]]:
    """Script and parameters of the indicators that measure a package that differs.

    :raises InvalidArgument: if there is none
    """
    from loop.stacks import indicator_named  # slow, and needed only here

    moved = {name for it in stacks for name in it.moved(stacks[0])}
    fields = [
        {"script": it.name, "parameters": {**it.parameters, "framework": framework}}
        for it in map(indicator_named, settings.loop_indicators)
        for framework in indicator_of(it.name).frameworks
        if moved.intersection(packages_of(framework))
    ]
    if not fields:
        names = first_few(sorted(moved), 5) or "stacks that are equal"
        raise InvalidArgument(f"no indicator measures {names}: give a command behind --")
    return fields


def changed_series(folder: Path, question: Mapping[str, Any]) -> str | None:
    """Which files changed since an earlier comparison of the same stacks, if there was one.

    :param folder: of this comparison
    """
    files = dict(question.get("files", {}))
    for path in sorted(folder.parent.glob(f"*/{STATE_NAME}")):
        earlier = _question_in(path)
        if path.parent != folder and {**earlier, "files": {}} == {**question, "files": {}}:
            before = dict(earlier.get("files", {}))
            names = sorted(
                it for it in files.keys() | before.keys() if files.get(it) != before.get(it)
            )
            if not names:
                continue
            return (
                f"{first_few(names, 3)} changed since an earlier comparison, so this is another"
                " series: the jobs of that comparison are not used"
            )
    return None


def _question_in(path: Path) -> dict[str, Any]:
    """The question of an earlier comparison; empty if the file cannot be read."""
    try:
        question = json.loads(path.read_text(encoding="utf-8"))["question"]
    except (OSError, ValueError, LookupError, TypeError):
        return {}
    return question if isinstance(question, dict) else {}
