"""What our own resources have in common: where they are, what is refused, and what is cached."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import Response, request
from packaging.utils import canonicalize_name

from api.errors import ApiError, ProblemType
from api.routes import Routes

#: Before the hexadecimal digits of every digest.
_SHA256 = "sha256:"


class Resources(Routes):
    """Resources of one subject, below ``/api/v2``."""

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


def filters(query: Mapping[str, Any]) -> dict[str, Any]:
    """What of a query chooses items, and not the page.

    :raises ApiError: 400 at a version of no package
    """
    if "version" in query and "package" not in query:
        message = "only with `package`, whose version it is"
        raise ApiError(
            400, ProblemType.INVALID_REQUEST, f"version: {message}",
            errors={"query": {"version": [message]}},
        )  # fmt: skip
    return {
        name: _MEANT[name](value) if name in _MEANT else value
        for name, value in query.items()
        if name not in ("limit", "after")
    }


def package_name(text: str) -> str:
    """A package's name, normalised; one that cannot be is nobody's."""
    return str(canonicalize_name(text))


def whole_digest(text: str) -> str:
    """A digest with its algorithm, which clients may leave out."""
    return text if text.startswith(_SHA256) else f"{_SHA256}{text}"


#: Filters that may be written otherwise than they are stored, by name.
_MEANT: Mapping[str, Callable[[str], str]] = {
    "package": package_name, "stack": whole_digest, "hardware": whole_digest,
    "inspection": whole_digest, "comparison_key": whole_digest,
}  # fmt: skip


def members(value: Any) -> dict[str, Any]:
    """A dataclass's fields by name, for answers that say more; none is copied."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}
