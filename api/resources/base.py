"""What our own resources have in common: where they are, what is refused, and what is cached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flask import Response, request
from flask_smorest import Blueprint
from packaging.utils import canonicalize_name
from sqlalchemy import Connection

from api.bodies import BodyParser
from api.exchange import from_data
from api.service import service
from graph.repositories.progress import Progress, progress

#: Before the hexadecimal digits of every digest.
_SHA256 = "sha256:"


class _Parser(BodyParser):
    """A request that cannot be used is a bad one, and schemas say what they know."""

    DEFAULT_VALIDATION_STATUS = 400
    DEFAULT_UNKNOWN_BY_LOCATION: dict[str, str | None] = {}  # noqa: RUF012


class Resources(Blueprint):
    """Resources of one subject, below ``/api/v2``."""

    ARGUMENTS_PARSER = _Parser()

    def __init__(self, name: str, import_name: str, *, description: str) -> None:
        super().__init__(f"v2-{name}", import_name, url_prefix="/api/v2", description=description)
        self.after_request(_tagged)
        self._prepare_doc_cbks.append(_with_tag)

    def __repr__(self) -> str:
        return f"<Resources {self.name}>"


def _with_tag(doc: dict[str, Any], _info: dict[str, Any], **more: Any) -> dict[str, Any]:
    if more["method"] == "get":
        told = "What has the tag of `If-None-Match`: it did not change."
        doc.setdefault("responses", {})["304"] = {"description": told}
    return doc


def _tagged(response: Response) -> Response:
    """With an entity tag, so that what did not change is not sent again."""
    if request.method in {"GET", "HEAD"} and response.status_code == 200:
        response.add_etag()
        response.make_conditional(request)
    return response


@contextmanager
def reading() -> Iterator[tuple[Connection, Progress]]:
    """A connection for questions, and how fresh what they find is.

    :raises StoreUnavailable: if PostgreSQL does not answer
    """
    with service().reading() as connection:
        # Asked first: what is found later is as new as that, or newer.
        found = progress(connection)
        from_data(found)
        yield connection, found


def package_name(text: str) -> str:
    """A package's name, normalised; one that cannot be is nobody's."""
    return str(canonicalize_name(text))


def whole_digest(text: str) -> str:
    """A digest with its algorithm, which clients may leave out."""
    return text if text.startswith(_SHA256) else f"{_SHA256}{text}"


def members(value: Any) -> dict[str, Any]:
    """A dataclass's fields by name, for answers that say more; none is copied."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}
