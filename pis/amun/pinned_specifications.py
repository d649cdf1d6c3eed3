"""Makes specifications from requirements: the newest releases that meet them, with hashes."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from model.packages.identity import DEFAULT_INDEX
from pis.amun.installer import BuildLog, LineCallback, installer_environment, run_installer
from pis.amun.locks import Lock, pipfile_lock_of, read_requirements
from pis.amun.schema import InvalidSpecification, SpecificationProblem
from pis.amun.specification import load_specification
from pis.temporary_folders import scratch_folder

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
    on_line: LineCallback | None = None,
) -> dict[str, Any]:
    """Make a specification that runs a script on a stack that meets ``requirements``.

    The stack includes all dependencies, as wheels for this platform.

    :param script: name of an indicator, or the text of a script
    :param requirements: such as ``numpy==2.1.0``
    :param python_version: such as ``3.11``; by default, that of the running interpreter
    :param index: name of the only index to use
    :param indexes: configured indexes, name to URL
    :param on_line: called with each line of the installer's output
    :raises InvalidSpecification: for invalid requirements, with all problems
    :raises BuildFailed: if the index has no such stack, or does not answer
    """
    parsed = _requirements(requirements)
    python = python_version or f"{sys.version_info.major}.{sys.version_info.minor}"
    lock = _locked(parsed, python, index, dict(indexes or {}), on_line)
    specification = {
        "script": script,
        **({"parameters": dict(parameters)} if parameters else {}),
        "python": {
            "requirements": {
                "packages": {canonicalize_name(it.name): _pipfile_entry(it) for it in parsed},
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
    requirements, problems = [], []
    for text in texts:
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            problems.append(SpecificationProblem(text, str(error).partition("\n")[0]))
            continue
        if requirement.url:
            problems.append(
                SpecificationProblem(text, "only releases of a package index can be pinned")
            )
        requirements.append(requirement)
    if problems:
        raise InvalidSpecification(problems)
    return requirements


def _pipfile_entry(requirement: Requirement) -> Any:
    """Return the entry of a requirement in a Pipfile."""
    version = str(requirement.specifier) or "*"
    extras, marker = sorted(requirement.extras), requirement.marker
    if not extras and marker is None:
        return version
    entry = {"version": version, "extras": extras, "markers": str(marker) if marker else ""}
    return {key: value for key, value in entry.items() if value}


def _locked(
    requirements: Sequence[Requirement],
    python: str,
    index: str,
    indexes: dict[str, str],
    on_line: LineCallback | None,
) -> Lock:
    if index != DEFAULT_INDEX and index not in indexes:
        known = ", ".join([DEFAULT_INDEX, *sorted(indexes)])
        message = f"{index!r} is not configured: use one of {known}"
        raise InvalidSpecification([SpecificationProblem("index", message)])
    with scratch_folder("uv") as folder:
        text = "".join(f"{requirement}\n" for requirement in requirements)
        (folder / "requirements.in").write_text(text, encoding="utf-8")
        arguments = [*_COMPILE, "--python-version", python, "requirements.in"]
        environment = installer_environment(index, indexes)
        text = run_installer(arguments, environment, folder, BuildLog(on_line))
    lock, problems = read_requirements(text, "the lock", python)
    if problems:
        raise InvalidSpecification(problems)
    packages = tuple(replace(package, index=index) for package in lock.packages)
    return Lock(packages, python)
