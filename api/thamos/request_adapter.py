"""Converts bodies and queries of the ``thamos`` client to the requests that workers process."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from adviser.answering.index_selection import indexes_to_search
from adviser.projects.indexes import public_text, public_values
from adviser.projects.parsing import CONSTRAINTS, PIPFILE, PIPFILE_LOCK
from adviser.projects.pipfile import pipfile_hash
from adviser.projects.project import Project, ProjectIndex
from adviser.scoring.criteria import RecommendationType
from adviser.stack_request import RequestOptions, StackRequest
from api.access.credential_removal import public_file, public_project
from api.access.index_policy import refuse_foreign_indexes
from api.jobs.request_submission import AdviceRequest, ProvenanceRequest
from common.index.configuration import configured_indexes
from common.settings import Settings
from graph.record.access import Token
from model.errors import InvalidArgument
from model.packages.environments import Environment, environment, platform_of
from model.packages.identity import DEFAULT_INDEX

#: Machines that a platform may end in, in the notation of clients and of wheel tags.
MACHINES = ("x86_64", "aarch64", "ppc64le", "s390x", "riscv64")
_STACK_FILES = {"requirements": PIPFILE, "requirements_lock": PIPFILE_LOCK}
#: Fields of a body that hold files, from which credentials are removed by their format.
_TEXTS = ("application_stack", "constraints")
_NOTE_TYPES = ("INFO", "WARNING", "ERROR")


def advice_request(
    settings: Settings,
    query: Mapping[str, Any],
    body: Mapping[str, Any],
    token: Token | None,
    *,
    may_fetch: bool,
) -> AdviceRequest:
    """Parse a request for advice.

    :param token: of the client; without one its origin and source type are not stored
    :raises InvalidFile: naming file, field and remedy
    :raises InvalidArgument: naming the field of the runtime environment or the note
    :raises ApiError: 400 if the project names an index that is not configured
    """
    fields = {k: public_values(v) for k, v in body.items() if k not in _TEXTS}
    project = _with_source(settings, _project(settings, body))
    described = fields.get("runtime_environment") or {}
    options = RequestOptions(
        dev=query["dev"],
        debug=query["debug"],
        indexes=indexes_to_search(settings, project),
        labels=fields.get("labels") or {},
        described=described,
        stack_info=_notes(fields, "stack_info"),
        justification=_notes(fields, "justification"),
    )
    kind = RecommendationType(query["recommendation_type"])
    stack_request = StackRequest(project, environment_of(described), kind, options)
    _ = stack_request.roots  # rejects invalid requirements before anything is stored
    hardware = described.get("hardware")
    usage = (fields.get("library_usage") or {}).get("report") or {}
    return AdviceRequest(
        stack_request,
        described_hardware=hardware if isinstance(hardware, Mapping) else {},
        may_fetch=may_fetch,
        origin=_sender(query, "origin", token),
        source_type=_sender(query, "source_type", token),
        library_usage={module: tuple(sorted(names)) for module, names in usage.items()},
    )


def provenance_request(
    settings: Settings, query: Mapping[str, Any], body: Mapping[str, Any], token: Token | None
) -> ProvenanceRequest:
    """Parse a request for a provenance check.

    :raises InvalidFile: naming file, field and remedy
    :raises InvalidArgument: if there is no lock whose packages are all pinned
    :raises ApiError: 400 if the project names an index that is not configured
    """
    project = _project(settings, body)
    if project.locked is None:
        message = "application_stack.requirements_lock: no lock whose packages are all pinned"
        raise InvalidArgument(message)
    files = {name: public_file(name, text) for name, text in _files(body).items()}
    return ProvenanceRequest(
        project,
        requirements=public_values(tomllib.loads(files[PIPFILE])),
        requirements_locked=public_values(orjson.loads(files[PIPFILE_LOCK])),
        debug=query["debug"],
        origin=_sender(query, "origin", token),
    )


def _files(body: Mapping[str, Any]) -> dict[str, str]:
    stack = body["application_stack"]
    texts = {name: stack.get(key) for key, name in _STACK_FILES.items()}
    texts[CONSTRAINTS] = body.get("constraints")
    return {name: text for name, text in texts.items() if text}


def _project(settings: Settings, body: Mapping[str, Any]) -> Project:
    project = public_project(_files(body), PIPFILE)
    refuse_foreign_indexes(settings, project)
    return project


def _with_source(settings: Settings, project: Project) -> Project:
    """Add the service's default index to a Pipfile that names no index.

    Otherwise, a client would silently install from an index of its own choice.
    """
    index = configured_indexes(settings).get(DEFAULT_INDEX)
    if project.indexes or project.manifest is None or index is None or index.is_local:
        return project
    secure = index.url.startswith("https:")
    source = {"name": index.name, "url": index.url, "verify_ssl": secure}
    manifest = {**project.manifest, "source": [source]}
    return replace(
        project,
        indexes=(ProjectIndex(index.name, index.url, verify_ssl=secure, default=True),),
        manifest=manifest,
        manifest_hashes=(pipfile_hash(manifest),),
    )


def _notes(fields: Mapping[str, Any], name: str) -> tuple[dict[str, str], ...]:
    """Return the client's notes, each with type, message and link; they precede the report's notes.

    :raises InvalidArgument: naming the invalid note
    """
    notes = []
    for position, note_fields in enumerate(fields.get(name) or ()):
        note = {key: value for key, value in note_fields.items() if value is not None}
        if not all(isinstance(it, str) for it in note.values()):
            raise InvalidArgument(f"{name}[{position}]: the values of a note must be strings")
        if note.get("type", "INFO") not in _NOTE_TYPES:
            raise InvalidArgument(f"{name}[{position}].type: not INFO, WARNING or ERROR")
        notes.append({"type": "INFO", "message": "", "link": "", **note})
    return tuple(notes)


def _sender(query: Mapping[str, Any], name: str, token: Token | None) -> str | None:
    value = query.get(name)
    return public_text(value) if token is not None and value else None


def environment_of(described: Mapping[str, Any] | None) -> Environment:
    """Convert a runtime environment of ``thamos``.

    A known distribution determines the C library; otherwise, the platform is ``linux_<machine>``.
    Missing fields never default to the server's own values.

    :raises InvalidArgument: naming the invalid field
    """
    described_fields = described or {}
    python = _string(described_fields, "python_version")
    platform_text = _platform(described_fields)
    machine = next(
        (it for it in MACHINES if platform_text and platform_text.endswith(it)), "x86_64"
    )
    system = described_fields.get("operating_system") or {}
    if not isinstance(system, Mapping):
        raise InvalidArgument("runtime_environment.operating_system: not an object")
    platform = None
    if (name := _string(system, "name")) is not None:
        platform = platform_of(name, _string(system, "version"), machine)
    if platform is None and platform_text is not None and "-" not in platform_text:
        platform = platform_text
    cuda = _string(described_fields, "cuda_version")
    if cuda is not None:
        cuda = ".".join(cuda.split(".")[:2])  # 12.4 of 12.4.1
    try:
        return environment(python, platform or f"linux_{machine}", cuda)
    except InvalidArgument as error:
        raise InvalidArgument(f"runtime_environment: {error}") from error


def _platform(described_fields: Mapping[str, Any]) -> str | None:
    """Return the platform. Old clients send a list: the whole text, or its letters."""
    platform = described_fields.get("platform")
    if isinstance(platform, list):
        whole = bool(platform) and len(str(platform[0])) > 1
        platform = platform[0] if whole else "".join(map(str, platform))
    if platform is not None and not isinstance(platform, str):
        raise InvalidArgument("runtime_environment.platform: not a string")
    return platform or None


def _string(described_fields: Mapping[str, Any], name: str) -> str | None:
    value = described_fields.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise InvalidArgument(f"runtime_environment.{name}: not a string")
    return str(value)
