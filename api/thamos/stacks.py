"""The application stack that a client sends: a Pipfile, its lock, and what goes with them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from adviser.answering.indexes import asked_indexes
from adviser.asked import Asked, Options
from adviser.projects.indexes import public_text
from adviser.projects.pipfile import pipfile_hash
from adviser.projects.project import Project, ProjectIndex
from adviser.scoring.criteria import RecommendationType
from api.index_policy import refuse_foreign_indexes
from api.privacy import project_in
from api.thamos.environments import environment_of
from common.errors import InvalidArgument
from common.formats.json_documents import digest
from common.index.configuration import configured_indexes
from common.packages import DEFAULT_INDEX
from common.settings import Settings
from graph.record.tokens import Token


def project_of(settings: Settings, request: Mapping[str, Any]) -> Project:
    """The project of a request.

    :raises InvalidFile: naming file, field and remedy
    :raises ApiError: 400 if it wants packages from an index that this service does not know
    """
    project = project_in(request)
    refuse_foreign_indexes(settings, project)
    return project


def asked_of(settings: Settings, request: Mapping[str, Any]) -> Asked:
    """What is asked of the adviser; the hardware class is found out where the record is.

    :raises InvalidFile: naming file, field and remedy
    :raises InvalidArgument: naming the field of the runtime environment
    """
    project = _with_source(settings, project_of(settings, request))
    options = Options(
        dev=request["dev"],
        debug=request["debug"],
        indexes=asked_indexes(settings, project),
        labels=request.get("labels") or {},
        described=request.get("runtime_environment") or {},
        stack_info=notes_of(request, "stack_info"),
        justification=notes_of(request, "justification"),
    )
    asked = Asked(
        project,
        environment_of(request.get("runtime_environment")),
        RecommendationType(request["recommendation_type"]),
        options,
    )
    _ = asked.roots  # what is no requirement needs no worker to say so
    return asked


def _with_source(settings: Settings, project: Project) -> Project:
    """A project that names its index: one that names none gets the default one of this service.

    Otherwise clients would install from wherever they look without being told.
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


def notes_of(request: Mapping[str, Any], name: str) -> tuple[dict[str, str], ...]:
    """Notes that a client wants before ours: objects of texts, with what every client reads.

    :raises InvalidArgument: naming the note that is none
    """
    found = []
    for place, given in enumerate(request.get(name) or ()):
        note = {key: value for key, value in given.items() if value is not None}
        if not all(isinstance(it, str) for it in note.values()):
            raise InvalidArgument(f"{name}[{place}]: a note has texts only")
        if note.get("type", "INFO") not in ("INFO", "WARNING", "ERROR"):
            raise InvalidArgument(f"{name}[{place}].type: not INFO, WARNING or ERROR")
        found.append({"type": "INFO", "message": "", "link": "", **note})
    return tuple(found)


def asked_by(query: Mapping[str, Any], shown: Token | None) -> dict[str, str]:
    """Who asks, as far as they tell; kept of those only who show a token."""
    names = ("origin", "source_type") if shown is not None else ()
    return {name: public_text(query[name]) for name in names if query.get(name)}


def cache_key(request: Mapping[str, Any]) -> str:
    """Of what makes two requests the same: what the texts say, not how they are written."""
    stack = request["application_stack"]
    lock = stack.get("requirements_lock")
    usage = request.get("library_usage") or {}
    return digest(
        {
            **{k: v for k, v in request.items() if k not in ("application_stack", "library_usage")},
            "requirements": tomllib.loads(stack["requirements"]),
            "lock": orjson.loads(lock) if lock else None,
            "usage": {k: sorted(v) for k, v in (usage.get("report") or {}).items()},
        }
    )
