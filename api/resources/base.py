"""Common parts of the resources of version 2: blueprint, entity tags and filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import Response, request
from packaging.utils import canonicalize_name

from adviser.stack_comparison import NEWEST_BASELINE
from api.http.errors import ApiError, ProblemType
from api.http.openapi import Routes

#: Prefix of every digest.
_SHA256 = "sha256:"


class Resources(Routes):
    """A blueprint of one subject below ``/api/v2``; its GET responses have entity tags."""

    def __init__(self, name: str, import_name: str, *, description: str) -> None:
        super().__init__(f"v2-{name}", import_name, url_prefix="/api/v2", description=description)
        self.after_request(_tagged)
        self._prepare_doc_cbks.append(_with_tag)

    def __repr__(self) -> str:
        return f"<Resources {self.name}>"


def _with_tag(doc: dict[str, Any], _info: dict[str, Any], **more: Any) -> dict[str, Any]:
    if more["method"] == "get":
        description = "Not modified since the response with the tag of `If-None-Match`."
        doc.setdefault("responses", {})["304"] = {"description": description}
    return doc


def _tagged(response: Response) -> Response:
    """Add an entity tag; an unmodified response is not sent again."""
    if request.method in {"GET", "HEAD"} and response.status_code == 200:
        response.add_etag()
        response.make_conditional(request)
    return response


def filters(query: Mapping[str, Any]) -> dict[str, Any]:
    """The filters of a query, without those that select the page.

    :raises ApiError: 400 for a version without a package
    """
    if "version" in query and "package" not in query:
        message = "needs `package`"
        raise ApiError(
            400, ProblemType.INVALID_REQUEST, f"version: {message}",
            errors={"query": {"version": [message]}},
        )  # fmt: skip
    return {
        name: _NORMALISED[name](value) if name in _NORMALISED else value
        for name, value in query.items()
        if name not in ("limit", "after")
    }


def package_name(text: str) -> str:
    """Normalise the name of a package; an invalid name matches no package."""
    return str(canonicalize_name(text))


def whole_digest(text: str) -> str:
    """Add the algorithm to a digest; clients may omit it."""
    return text if text.startswith(_SHA256) else f"{_SHA256}{text}"


def _baseline(text: str) -> str:
    return text if text == NEWEST_BASELINE else whole_digest(text)


#: Filters whose values are normalised, by name.
_NORMALISED: Mapping[str, Callable[[str], str]] = {
    "package": package_name, "stack": whole_digest, "hardware": whole_digest,
    "inspection": whole_digest, "comparison_key": whole_digest, "baseline": _baseline,
}  # fmt: skip


def members(value: Any) -> dict[str, Any]:
    """Fields of a dataclass by name, without copying the values."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}
