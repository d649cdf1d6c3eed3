"""StacksResource, and two of them next to each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from flask.views import MethodView
from sqlalchemy import Connection

from adviser.stack_comparison import compare_stacks
from adviser.stacks_document import stacks_document
from api.authentication import needs, token
from api.errors import not_found
from api.paging import Cursor, freshness, page
from api.resources.base import Resources, filters, members, reading, whole_digest
from api.schemas.stacks import (
    ComparisonPageSchema,
    ComparisonQuerySchema,
    StackDocumentSchema,
    StackPageSchema,
    StackQuerySchema,
)
from graph.record import stacks as record
from graph.record.observations import common_keys, measured_observations
from graph.record.tokens import Scope

blueprint = Resources("stacks", __name__, description="Stacks that were measured or advised.")

_STACKS = Cursor("stacks", {"digest": str})
_COMPARISONS = Cursor("comparisons", {"comparison_key": str})


@blueprint.route("/stacks")
class StacksResource(MethodView):
    """StacksResource."""

    @needs(Scope.READ)
    @blueprint.arguments(StackQuerySchema, location="query")
    @blueprint.response(200, StackPageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List stacks in the order of their digests: those measured, and those advised to you.

        A token with the scope `admin` sees all that were advised.
        """
        asked = filters(query) | {"seen_by": _asking()}
        with reading() as (connection, progress):
            find = partial(record.browse_stacks, connection, **asked)
            return page(query, _STACKS, find, progress)


@blueprint.route("/stacks/<string:digest>")
class StackResource(MethodView):
    """One stack."""

    @needs(Scope.READ)
    @blueprint.response(200, StackDocumentSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, digest: str) -> dict[str, Any]:
        """Say which releases a stack is."""
        with reading() as (connection, progress):
            found = record.stack_named(connection, whole_digest(digest))
            if found is None:
                raise not_found("stack", digest)
            packages = record.packages_in(connection, found.digest)
        return {**members(found), "packages": packages, **freshness(progress)}


@blueprint.route("/comparisons")
class ComparisonsResource(MethodView):
    """Two stacks next to each other."""

    @needs(Scope.READ)
    @blueprint.arguments(ComparisonQuerySchema, location="query")
    @blueprint.response(200, ComparisonPageSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """Compare two stacks by everything that both were measured with.

        Each is tested together with all other stacks that were measured alike, as `thoth stacks`
        does: a verdict does not depend on which two were picked.
        """
        asked = filters(query)
        stacks = whole_digest(asked.pop("baseline")), whole_digest(asked.pop("candidate"))
        with reading() as (connection, progress):
            for digest in stacks:
                if record.stack_named(connection, digest) is None:
                    raise not_found("stack", digest)
            find = partial(common_keys, connection, stacks, **asked)
            found = page(query, _COMPARISONS, find, progress, lambda key: (key,))
            return {**found, "items": list(_compared(connection, stacks, found["items"]))}


def _asking() -> record.SeenBy:
    shown = token()
    if shown is None:
        return record.SeenBy()
    return record.SeenBy(shown.token_id, everything=shown.may(Scope.ADMIN))


def _compared(
    connection: Connection, stacks: tuple[str, str], keys: Sequence[str]
) -> Iterator[dict[str, Any]]:
    if not keys:
        return
    groups = compare_stacks(measured_observations(connection, keys=keys), stacks[0])
    documents = stacks_document(groups)["groups"]
    for group in sorted(documents, key=lambda it: it["comparison_key"]):
        by_digest = {it["stack_digest"]: it for it in group["stacks"]}
        # One key may hold several Pythons, of which not both stacks need to have each.
        if all(it in by_digest for it in stacks) and stacks[0] != stacks[1]:
            baseline, candidate = (by_digest[it] for it in stacks)
            effect = candidate["comparison"]
            yield {**group, "baseline": baseline, "candidate": candidate, "effect": effect}
