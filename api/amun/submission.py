"""Submission of specifications: parsing, removal of secrets, acceptance and lookup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

from flask import Response, request

from adviser.projects.indexes import public_text, public_values
from api.http.errors import ApiError, ProblemType, not_found
from api.http.project_files import address_problem, list_problem, public_file, toml_problem
from api.jobs import request_submission
from api.jobs.inspections import folder_of, options_of
from api.service import service
from common import __version__
from graph.record.analyses import Analysis, AnalysisKind, analysis_of
from model.errors import InvalidFile
from pis.amun.inspect import inspections_of
from pis.amun.launchers import Inspection
from pis.amun.schema import InvalidSpecification, SpecificationProblem
from pis.amun.specification import load_specification

#: Names of variables that usually hold a secret; `TOKENIZERS_PARALLELISM` does not match.
_SECRET = re.compile(
    r"(?:\A|_)(?:TOKEN|SECRETS?|PASS|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|AUTH|COOKIE|"
    r"(?:API|ACCESS|PRIVATE|SECRET|AUTH|SIGNING|ENCRYPTION|ACCOUNT)_?KEY)(?:_|\Z)",
    re.IGNORECASE,
)
#: File names for the locks of a specification, which select their reader.
_LOCKS = {"requirements_txt": "requirements.txt", "pylock_toml": "pylock.toml"}
#: Fields that run exactly as they were sent.
_VERBATIM = frozenset({"script", "files"})


def refuse_secrets(value: Mapping[str, Any]) -> None:
    """Refuse variables that contain secrets; also refuse locks that take too long to read.

    Removing a secret would change what is measured; keeping the secret would store it.

    :raises InvalidSpecification: naming the fields, but not their values
    """
    if problems := [*_of_environment(value.get("environment")), *_of_lock(value.get("python"))]:
        raise InvalidSpecification(problems)


def public_specification(value: Mapping[str, Any]) -> dict[str, Any]:
    """Remove credentials from a specification; jobs use those of the index configuration."""
    public = {k: v if k in _VERBATIM else public_values(v) for k, v in value.items()}
    if isinstance(python := value.get("python"), Mapping):
        texts = {k: python[k] for k in _LOCKS if isinstance(python.get(k), str)}
        locks = {key: public_file(_LOCKS[key], text) for key, text in texts.items()}
        public["python"] = public["python"] | locks
    return public


def _of_environment(variables: Any) -> Iterator[SpecificationProblem]:
    why = "specifications are stored and shown"
    for number, variable in enumerate(variables if isinstance(variables, list) else ()):
        if not isinstance(variable, Mapping):
            continue
        name, value = variable.get("name"), variable.get("value")
        field = f"environment[{number}]"
        if isinstance(name, str) and _SECRET.search(name) and value:
            yield SpecificationProblem(field, f"{name[:80]} holds a secret, and {why}: remove it")
        elif isinstance(value, str) and public_text(value) != value:
            yield SpecificationProblem(
                f"{field}.value", f"a URL with credentials, and {why}: remove them"
            )


def _of_lock(python: Any) -> Iterator[SpecificationProblem]:
    fields = python if isinstance(python, Mapping) else {}
    for key, check in (("requirements_txt", list_problem), ("pylock_toml", toml_problem)):
        if not isinstance(text := fields.get(key), str):
            continue
        problem = check([text]) or address_problem([text])
        if problem is None and key == "requirements_txt":
            problem = _hidden_credentials(text)
        if problem is not None:
            yield SpecificationProblem(f"python.{key}", problem)


def _hidden_credentials(requirements: str) -> str | None:
    try:
        public_file(_LOCKS["requirements_txt"], requirements)
    except InvalidFile as error:
        return f"{error.message}: {error.hint}"
    return None


PREFIX = "/amun/api/v1"
#: Maximum duration of one request if all of its jobs use their whole time.
MAX_TOTAL_S = 86_400.0
_LAUNCHER = "local"


def add_version(response: Response) -> Response:
    """Add the version of the service to a response; error responses get it, too."""
    if request.path.startswith(f"{PREFIX}/"):
        response.headers["X-Amun-Version"] = __version__
    return response


def public(value: dict[str, Any]) -> dict[str, Any]:
    """Remove credentials from a specification, before it is stored, shown and run.

    :raises ApiError: 400 with every problem by the path of its field
    """
    try:
        refuse_secrets(value)
    except InvalidSpecification as error:
        raise _refused(error) from error
    return public_specification(value)


def parse_submission(value: dict[str, Any], submission: str) -> Inspection:
    """Parse a specification with the parser of the executor; nothing is fetched.

    :param value: result of :func:`public`
    :param submission: random, so that the same specification can be measured again
    :raises ApiError: 400 with every problem by the path of its field
    """
    settings = service().settings
    try:
        specification = load_specification(value, dict(settings.package_indexes))
    except InvalidSpecification as error:
        raise _refused(error) from error
    longest_s = specification.batch_size * specification.timeout_s
    if longest_s > MAX_TOTAL_S:
        message = (
            f"batch_size: {specification.batch_size} jobs of up to {specification.timeout_s:g} s "
            f"are more than {MAX_TOTAL_S:g} s: reduce batch_size or timeout_s"
        )
        raise ApiError(400, ProblemType.INVALID_REQUEST, message, parameters={})
    (inspection,) = inspections_of([specification], _LAUNCHER, options_of(settings, submission))
    return inspection


def _refused(error: InvalidSpecification) -> ApiError:
    problems: dict[str, list[str]] = {}
    for problem in error.problems:
        problems.setdefault(problem.field, []).append(problem.message)
    return ApiError(400, ProblemType.INVALID_REQUEST, str(error), errors=problems, parameters={})


def submit_inspection(value: dict[str, Any]) -> tuple[Analysis, Inspection]:
    """Accept a specification and enqueue its run.

    :param value: result of :func:`public`
    :raises ApiError: 400 if it is invalid, 429 if too many jobs wait
    """
    submission = token_hex(16)
    inspection = parse_submission(value, submission)
    analysis, _ = request_submission.submit(
        AnalysisKind.INSPECTION,
        {"specification": value, "submission": submission},
        submission,
        parameters=parameters_of(inspection),
        force=True,
        analysis_id=inspection.inspection_id,
    )
    return analysis, inspection


def parameters_of(inspection: Inspection) -> dict[str, Any]:
    """The specification as it runs, without the content of script, files and lock."""
    document = inspection.specification.document
    parameters = {k: v for k, v in document.items() if k not in ("script", "files", "python")}
    return {**parameters, "script_sha256": inspection.script.sha256}


def existing_inspection(inspection_id: str) -> Analysis:
    """:raises ApiError: 404 if there is none"""
    with service().reading() as connection:
        analysis = analysis_of(connection, inspection_id)
    if analysis is None or analysis.kind is not AnalysisKind.INSPECTION:
        raise not_found("inspection", inspection_id)
    return analysis


def folder(inspection: Analysis) -> Path:
    """Folder of an inspection; identifiers come from the service and are safe in paths."""
    return folder_of(service().settings) / inspection.analysis_id


def text_of(inspection: Analysis, *path: str) -> str | None:
    """Content of a file in an inspection's folder; ``None`` until the file exists."""
    try:
        return folder(inspection).joinpath(*path).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None


def identity(inspection: Analysis) -> Mapping[str, Any]:
    """Parameters that every response about an inspection repeats."""
    return {"inspection_id": inspection.analysis_id}
