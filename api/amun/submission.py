"""A submitted specification: checked by the executor's own parser, accepted, found again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

from flask import Response, request

from adviser.projects.indexes import public_text, public_values
from api import analyses
from api.authentication import token
from api.credential_removal import public_file
from api.errors import ApiError, ProblemType, not_found
from api.jobs.inspections import folder_of, order_of
from api.jobs.queue import QueueJob, QueueName
from api.project_files import (
    address_problem,
    list_problem,
    toml_problem,
)
from api.service import service
from common import __version__
from common.errors import InvalidFile
from graph.record.analyses import (
    Analysis,
    AnalysisKind,
    NewAnalysis,
    analysis_of,
)
from pis.amun.inspect import inspections_of
from pis.amun.launchers import Inspection
from pis.amun.schema import InvalidSpecification, SpecificationProblem
from pis.amun.specification import load_specification

#: What people and tools call variables that hold a secret; `TOKENIZERS_PARALLELISM` is none.
_SECRET = re.compile(
    r"(?:\A|_)(?:TOKEN|SECRETS?|PASS|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|AUTH|COOKIE|"
    r"(?:API|ACCESS|PRIVATE|SECRET|AUTH|SIGNING|ENCRYPTION|ACCOUNT)_?KEY)(?:_|\Z)",
    re.IGNORECASE,
)
#: Texts of a lock, by the names that a project's files have.
_LOCKS = {"requirements_txt": "requirements.txt", "pylock_toml": "pylock.toml"}
#: What is measured is what was sent, to the letter.
_KEPT_AS_THEY_ARE = frozenset({"script", "files"})


def refuse_secrets(value: Mapping[str, Any]) -> None:
    """Refuse variables that hold secrets, and a lock that takes too long to read.

    A run without the secret would be another run, and with it the secret would be kept.

    :raises InvalidSpecification: naming the fields, and nothing of their values
    """
    if problems := [*_of_environment(value.get("environment")), *_of_lock(value.get("python"))]:
        raise InvalidSpecification(problems)


def public_specification(value: Mapping[str, Any]) -> dict[str, Any]:
    """A specification as it is kept: indexes are read by what is configured for them here."""
    public = {k: v if k in _KEPT_AS_THEY_ARE else public_values(v) for k, v in value.items()}
    if isinstance(python := value.get("python"), Mapping):
        texts = {k: python[k] for k in _LOCKS if isinstance(python.get(k), str)}
        locks = {key: public_file(_LOCKS[key], text) for key, text in texts.items()}
        public["python"] = public["python"] | locks
    return public


def _of_environment(variables: Any) -> Iterator[SpecificationProblem]:
    for number, it in enumerate(variables if isinstance(variables, list) else ()):
        name, content = (it.get("name"), it.get("value")) if isinstance(it, Mapping) else ("", "")
        at = f"environment[{number}]"
        if isinstance(name, str) and _SECRET.search(name) and content:
            words = f"{name[:80]} holds a secret, and specifications are kept and shown"
            yield SpecificationProblem(at, f"{words}: leave it out")
        elif isinstance(content, str) and public_text(content) != content:
            words = "an address with credentials, and specifications are kept and shown"
            yield SpecificationProblem(f"{at}.value", f"{words}: take them out")


def _of_lock(python: Any) -> Iterator[SpecificationProblem]:
    given = python if isinstance(python, Mapping) else {}
    for key, problem in (("requirements_txt", list_problem), ("pylock_toml", toml_problem)):
        if not isinstance(text := given.get(key), str):
            continue
        wrong = problem([text]) or address_problem([text])
        if wrong is None and key == "requirements_txt":
            wrong = _hidden(text)
        if wrong is not None:
            yield SpecificationProblem(f"python.{key}", wrong)


def _hidden(requirements: str) -> str | None:
    try:
        public_file(_LOCKS["requirements_txt"], requirements)
    except InvalidFile as error:
        return f"{error.message}: {error.hint}"
    return None


PREFIX = "/amun/api/v1"
#: What one request may keep the machine busy with: all jobs at their longest.
MAX_TOTAL_S = 86_400.0
_LAUNCHER = "local"


def versioned(response: Response) -> Response:
    """With the service's version, errors too."""
    if request.path.startswith(f"{PREFIX}/"):
        response.headers["X-Amun-Version"] = __version__
    return response


def public(value: dict[str, Any]) -> dict[str, Any]:
    """A specification as it is kept, shown and run: without passwords.

    :raises ApiError: 400 with every problem by the path of its field
    """
    try:
        refuse_secrets(value)
    except InvalidSpecification as error:
        raise _refused(error) from error
    return public_specification(value)


def checked(value: dict[str, Any], submission: str) -> Inspection:
    """The inspection that a specification makes; nothing that it names is fetched.

    :param value: that :func:`public` gave
    :param submission: random, so that the same specification may be measured again
    :raises ApiError: 400 with every problem by the path of its field
    """
    settings = service().settings
    try:
        specification = load_specification(value, dict(settings.package_indexes))
    except InvalidSpecification as error:
        raise _refused(error) from error
    longest_s = specification.batch_size * specification.timeout_s
    if longest_s > MAX_TOTAL_S:
        words = (
            f"batch_size: {specification.batch_size} jobs of up to {specification.timeout_s:g} s "
            f"are more than {MAX_TOTAL_S:g} s: ask for fewer, or set timeout_s"
        )
        raise ApiError(400, ProblemType.INVALID_REQUEST, words, parameters={})
    (inspection,) = inspections_of([specification], _LAUNCHER, order_of(settings, submission))
    return inspection


def _refused(error: InvalidSpecification) -> ApiError:
    problems: dict[str, list[str]] = {}
    for it in error.problems:
        problems.setdefault(it.field, []).append(it.message)
    return ApiError(400, ProblemType.INVALID_REQUEST, str(error), errors=problems, parameters={})


def submitted(value: dict[str, Any]) -> tuple[Analysis, Inspection]:
    """Accept a specification and have a worker run it.

    :param value: that :func:`public` gave
    :raises ApiError: 400 if it cannot be used, 429 if too much waits
    """
    submission = token_hex(16)
    inspection = checked(value, submission)
    shown = token()
    new = NewAnalysis(
        inspection.inspection_id,
        AnalysisKind.INSPECTION,
        {"specification": value, "submission": submission},
        parameters_of(inspection),
        submission,
        shown.token_id if shown else None,
    )
    job = QueueJob("inspections.run", QueueName.INSPECTIONS, {"analysis_id": new.analysis_id})
    found, _ = analyses.submit(new, job, force=True)
    return found, inspection


def parameters_of(inspection: Inspection) -> dict[str, Any]:
    """The specification as it is run, without the texts of script, files and lock."""
    given = inspection.specification.document
    kept = {k: v for k, v in given.items() if k not in ("script", "files", "python")}
    return {**kept, "script_sha256": inspection.script.sha256}


def found_inspection(inspection_id: str) -> Analysis:
    """:raises ApiError: 404 if there is none"""
    with service().reading() as connection:
        found = analysis_of(connection, inspection_id)
    if found is None or found.kind is not AnalysisKind.INSPECTION:
        raise not_found("inspection", inspection_id)
    return found


def folder(inspection: Analysis) -> Path:
    """Where its documents are; identifiers are ours, so none leads elsewhere."""
    return folder_of(service().settings) / inspection.analysis_id


def text_of(inspection: Analysis, *path: str) -> str | None:
    """A file of its documents, ``None`` while it is not there."""
    try:
        return folder(inspection).joinpath(*path).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None


def about(inspection: Analysis) -> Mapping[str, Any]:
    """What was asked, as every answer repeats it."""
    return {"inspection_id": inspection.analysis_id}
