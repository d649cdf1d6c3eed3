"""Stacks, and two of them next to each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from flask.views import MethodView
from marshmallow import Schema, fields, validate
from sqlalchemy import Connection

from adviser.scoring.sample_needs import Need
from adviser.scoring.verdicts import Verdict
from adviser.stack_comparison import compare_stacks
from adviser.stacks_document import stacks_document
from api.authentication import needs, token
from api.errors import not_found
from api.paging import Cursor, freshness, page
from api.request_context import reading
from api.resources.base import Resources, filters, members, whole_digest
from api.resources.vulnerabilities import ReleaseNameSchema
from api.schema_fields import (
    FreshnessSchema,
    PageQuerySchema,
    PageSchema,
    asked,
    asked_flag,
    choice,
    count,
    free,
    number,
    text,
    texts,
)
from graph.record import stacks as record
from graph.record.observations import common_keys, measured_observations
from graph.record.tokens import Scope

_DIGEST = "sha256:1f2e3d4c5b6a79880f1e2d3c4b5a69788f0e1d2c3b4a59687e0f1d2c3b4a5968"

_NEEDS = [it.value for it in Need]


class StackQuerySchema(PageQuerySchema):
    """Which stacks are asked for."""

    package = asked("Name of a package in it.", "numpy")
    version = asked("Version of that package, normalised.", "2.4.6")
    measured = asked_flag("Whether it was inspected.")


class StackItemSchema(Schema):
    """A set of package versions, named by its digest."""

    digest = text("Its digest.", _DIGEST)
    package_count = count("Packages in it.", 3)
    inspections = count("How often it was inspected.", 1)
    advised = count("How many advices recommend it.", 0)
    document_id = text("The document that it was first seen in.", _DIGEST)


class StackPageSchema(PageSchema):
    """Stacks in the order of their digests."""

    items = fields.List(fields.Nested(StackItemSchema), required=True)


class StackDocumentSchema(FreshnessSchema, StackItemSchema):
    """A stack with its packages."""

    packages = fields.List(fields.Nested(ReleaseNameSchema), required=True)


class ComparisonQuerySchema(PageQuerySchema):
    """Which two stacks are compared."""

    # All that was measured by a key is read to compare two stacks by it.
    limit = fields.Integer(
        load_default=10,
        validate=validate.Range(1, 50),
        metadata={"description": "Comparison keys on the page, at most.", "example": 10},
    )
    baseline = asked("Digest of the stack that is compared with.", _DIGEST, required=True)
    candidate = asked("Digest of the stack that is compared.", _DIGEST, required=True)
    indicator = asked("Only by this indicator.", "PiMatmul")
    hardware = asked("Only on this hardware class: a digest.", _DIGEST)


class HardwareNameSchema(Schema):
    """A hardware class, named."""

    digest = text("Its digest.", _DIGEST)
    label = text("For people.", "AMD EPYC, 2 processors")


class ComparedStackSchema(Schema):
    """One of the two stacks under one comparison key."""

    label = text("For people.", "numpy 2.4.6 (1f2e3d4c)")
    stack_digest = text("Its digest.", _DIGEST)
    component = text("The package that is measured.", "numpy", null=True)
    component_version = text("Its version in the stack.", "2.4.6", null=True)
    jobs = count("Jobs, with those that were left out.", 10)
    unstable = texts("Why each job was left out that was.", [])
    median_rate = number("Of the jobs that count, in `unit`.", 9.4e10, null=True)
    median_flop_per_s = number("The same in FLOP/s, where that is the unit.", 9.4e10, null=True)
    spread_pct = number("Coefficient of variation of their rates, %.", 2.1, null=True)
    left_out = free("How many jobs of both stacks the comparison leaves out, by reason.")
    warnings = texts("Warnings about the noise of its jobs, for people.", [])


class EffectSchema(Schema):
    """How the candidate differs from the baseline, and what may be claimed of it."""

    verdict = choice("What may be claimed.", [it.value for it in Verdict])
    difference_pct = number("By which the candidate's rate is higher, %.", -15.2, null=True)
    interval_low_pct = number("Lower end of the 95 % interval, %.", -18.0, null=True)
    interval_high_pct = number("Its upper end, %.", -12.3, null=True)
    d = number("Candidate − baseline, natural log.", -0.165, null=True)
    standard_error = number("Of d.", 0.02, null=True)
    degrees_of_freedom = number("Of the standard error.", 17.3, null=True)
    p_value = number("One-sided, Holm-adjusted over all that the baseline is compared with.", 0.01)
    runs = count("Inspections that the candidate's jobs were part of; of pairs, the pairs.", 5)
    baseline_runs = count("The same for the baseline.", 5)
    needs = choice("What a verdict lacks; null if there is one.", _NEEDS, null=True)
    jobs_missing = count("Further jobs of the candidate until a verdict can be expected.", 0)
    baseline_jobs_missing = count("The same for the baseline.", 0)
    method = text("How d was estimated.", "paired")
    pairs = count("Of jobs that ran in turns.", 10)
    hosts = count("That both stacks ran on; null if that is not known.", 1, null=True)
    tau = number("Standard deviation of the effect between hosts, natural log.", null=True)


class ComparisonItemSchema(Schema):
    """Two stacks by one indicator, measured alike."""

    comparison_key = text("Digest of indicator, script, parameters, device and hardware.", _DIGEST)
    indicator = text("Its name.", "PiMatmul")
    script_sha256 = text("Digest of its script.", null=True)
    unit = text("Of rates.", "FLOP/s")
    parameters = free("Of the indicator.")
    device = text("What it ran on.", "cpu", null=True)
    python_version = text("Of the interpreter.", "3.11", null=True)
    hardware = fields.Nested(HardwareNameSchema, required=True)
    delta_pct = number("Differences up to this are of no interest, %.", 2.0)
    baseline = fields.Nested(ComparedStackSchema, required=True)
    candidate = fields.Nested(ComparedStackSchema, required=True)
    effect = fields.Nested(EffectSchema, required=True)


class ComparisonPageSchema(PageSchema):
    """Comparisons by comparison key; none if the two were never measured alike."""

    items = fields.List(fields.Nested(ComparisonItemSchema), required=True)


blueprint = Resources("stacks", __name__, description="Stacks that were measured or advised.")

_STACKS = Cursor("stacks", {"digest": str})
_COMPARISONS = Cursor("comparisons", {"comparison_key": str})


@blueprint.route("/stacks")
class StacksResource(MethodView):
    """Stacks."""

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


def _asking() -> record.StackVisibility:
    shown = token()
    if shown is None:
        return record.StackVisibility()
    return record.StackVisibility(shown.token_id, everything=shown.may(Scope.ADMIN))


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
