"""Specifications made from a wish: the newest releases that fit, pinned with their hashes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from common.packages import DEFAULT_INDEX
from pis.amun.indexes import installer_environment
from pis.amun.installer import BuildLog, Say, run_installer
from pis.amun.locks import Lock, pipfile_lock_of, read_requirements
from pis.amun.schema import InvalidSpecification, SpecificationProblem
from pis.amun.specification import load_specification
from pis.scratch import scratch_folder

_COMPILE = (
    "pip", "compile", "--generate-hashes", "--only-binary", ":all:", "--no-header",
    "--no-annotate", "--quiet",
)  # fmt: skip


def pinned_specification(
    script: str,
    requirements: Sequence[str],
    python_version: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    *,
    index: str = DEFAULT_INDEX,
    indexes: Mapping[str, str] | None = None,
    say: Say | None = None,
) -> dict[str, Any]:
    """A specification of a script on a stack that fulfils ``requirements``.

    Everything that they need is locked, too, from wheels for this platform.

    :param script: name of an indicator, or the text of a script
    :param requirements: such as ``numpy==2.1.0``
    :param python_version: such as ``3.11``; the running interpreter's if unset
    :param index: the name of the only index that is asked
    :param indexes: configured indexes, name to URL
    :raises InvalidSpecification: naming what cannot be used
    :raises BuildFailed: if the index has no such stack, or does not answer
    """
    wanted = _requirements(requirements)
    python = python_version or f"{sys.version_info.major}.{sys.version_info.minor}"
    lock = _locked(wanted, python, index, dict(indexes or {}), say)
    specification = {
        "script": script,
        **({"parameters": dict(parameters)} if parameters else {}),
        "python": {
            "requirements": {
                "packages": {canonicalize_name(it.name): _wanted(it) for it in wanted},
                "requires": {"python_version": python},
            },
            "requirements_locked": pipfile_lock_of(lock),
        },
    }
    checked = load_specification(specification, indexes)
    if not checked.parameters:
        return specification
    return {**specification, "parameters": dict(checked.parameters)}


def _requirements(texts: Sequence[str]) -> list[Requirement]:
    read, problems = [], []
    for text in texts:
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            problems.append(SpecificationProblem(text, str(error).partition("\n")[0]))
            continue
        if requirement.url:
            problems.append(
                SpecificationProblem(text, "only releases that an index serves can be pinned")
            )
        read.append(requirement)
    if problems:
        raise InvalidSpecification(problems)
    return read


def _wanted(requirement: Requirement) -> Any:
    """A requirement as a Pipfile has it."""
    version = str(requirement.specifier) or "*"
    extras, marker = sorted(requirement.extras), requirement.marker
    if not extras and marker is None:
        return version
    entry = {"version": version, "extras": extras, "markers": str(marker) if marker else ""}
    return {key: value for key, value in entry.items() if value}


def _locked(
    wanted: Sequence[Requirement],
    python: str,
    index: str,
    indexes: dict[str, str],
    say: Say | None,
) -> Lock:
    if index != DEFAULT_INDEX and index not in indexes:
        known = ", ".join([DEFAULT_INDEX, *sorted(indexes)])
        words = f"{index!r} is not configured here (there are: {known})"
        raise InvalidSpecification([SpecificationProblem("index", words)])
    with scratch_folder("uv") as folder:
        (folder / "wanted.txt").write_text("".join(f"{it}\n" for it in wanted), encoding="utf-8")
        arguments = [*_COMPILE, "--python-version", python, "wanted.txt"]
        environment = installer_environment(index, indexes)
        text = run_installer(arguments, environment, folder, BuildLog(say))
    lock, problems = read_requirements(text, "the lock", python)
    if problems:
        raise InvalidSpecification(problems)
    packages = tuple(package.served_by(index) for package in lock.packages)
    return Lock(packages, python)
