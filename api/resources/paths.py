"""Paths: from an advice to the jobs it rests on, and from a stack to its vulnerabilities."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from flask.views import MethodView
from marshmallow import Schema, fields, validate

from adviser.requirement_chains import RequirementChain, chains_to, starting_releases
from api.access.authentication import needs
from api.http.errors import not_found
from api.http.paging import freshness
from api.http.request_context import reading
from api.http.schema_fields import (
    FreshnessSchema,
    StrictSchema,
    choice,
    described,
    filter_text,
    flag,
    number,
    text,
    texts,
)
from api.resources.base import Resources, package_name, whole_digest
from api.resources.stacks import stack_labels
from graph.record.advice import advice_named, stacks_of
from graph.record.freshness import knows_advisories
from graph.record.stacks import (
    StackRequirement,
    StackVulnerability,
    packages_in,
    stack_named,
    stack_requirements,
    stack_vulnerabilities,
    supporting_jobs,
)
from graph.record.tokens import Scope

_ADVICE = "adviser-260101000000-5f0c9d2be417a863"
_KINDS = ["advice", "stack", "inspection", "job", "release", "vulnerability"]


class AdvicePathQuerySchema(StrictSchema):
    """Selects a part of the path."""

    limit = fields.Integer(
        load_default=1000,
        validate=validate.Range(1, 10_000),
        metadata=described("Maximum number of jobs.", 1000),
    )


class StackPathQuerySchema(StrictSchema):
    """Selects a part of the chains."""

    limit = fields.Integer(
        load_default=1000,
        validate=validate.Range(1, 10_000),
        metadata=described("Maximum number of chains.", 1000),
    )
    package = filter_text(
        "Name of the package where the chains start; default: the releases that no other release of"
        " the stack requires.",
        "flask",
    )


class PathNodeSchema(Schema):
    """Something on a path."""

    kind = choice("What it is.", _KINDS)
    id = text("Its identifier.", _ADVICE)
    label = text("Name for people.", "advice of 2026-01-01")


class PathEdgeSchema(Schema):
    """A step of a path."""

    source = text("Identifier of the node where it starts.", _ADVICE)
    target = text("Identifier of the node where it ends.")
    label = text("What the step means.", "recommends")


class JobNodeSchema(PathNodeSchema):
    """A node; a job also has its rate."""

    rate = number("Rate of the job, in `unit`; null for other nodes.", 9.4e10, null=True)
    unit = text("Unit of the rate.", "FLOP/s", null=True)


class AdvicePathSchema(FreshnessSchema):
    """The path from an advice over stacks and inspections to jobs."""

    nodes = fields.List(fields.Nested(JobNodeSchema), required=True)
    edges = fields.List(fields.Nested(PathEdgeSchema), required=True)
    truncated = flag("Whether jobs are left out.")


class VulnerabilityChainSchema(Schema):
    """Why a stack is affected by a vulnerability."""

    vulnerability_id = text("The vulnerability.", "CVE-2023-30861")
    severity = text("Its severity.", "high", null=True)
    summary = text("Its summary.", null=True)
    releases = texts("Releases from the start to the affected one.", ["pkg:pypi/flask@2.2.2"])
    requirements = texts("The requirement that leads to each next release.", ["Werkzeug>=2.2"])


class StackPathSchema(FreshnessSchema):
    """Chains of requirements from a stack's releases to vulnerabilities."""

    nodes = fields.List(fields.Nested(PathNodeSchema), required=True)
    edges = fields.List(fields.Nested(PathEdgeSchema), required=True)
    chains = fields.List(
        fields.Nested(VulnerabilityChainSchema), required=True, allow_none=True,
        metadata={"description": "Null if no advisories were read: vulnerabilities are unknown."},
    )  # fmt: skip
    truncated = flag("Whether chains are left out.")


blueprint = Resources("paths", __name__, description="Where an answer comes from.")


@blueprint.route("/advice/<string:advice_id>/path")
class AdvicePathResource(MethodView):
    @needs(Scope.ADVISE)
    @blueprint.arguments(AdvicePathQuerySchema, location="query")
    @blueprint.response(200, AdvicePathSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any], advice_id: str) -> dict[str, Any]:
        """Get the path from an advice over stacks and inspections to the jobs it rests on."""
        with reading() as (connection, progress):
            advice = advice_named(connection, advice_id)
            if advice is None:
                raise not_found("advice", advice_id)
            advised = stacks_of(connection, advice_id)
            jobs = supporting_jobs(connection, advice_id, query["limit"] + 1)
            digests = {it.stack_digest for it in advised}
            digests |= {it.stack_digest for it in jobs if it.stack_digest is not None}
            labels = stack_labels(connection, digests)
        truncated = len(jobs) > query["limit"]
        builder = _PathBuilder()
        builder.add("advice", advice_id, f"advice of {advice.created_at:%Y-%m-%d}")
        for stack in advised:
            builder.add("stack", stack.stack_digest, labels[stack.stack_digest])
            builder.link(advice_id, stack.stack_digest, f"recommends, rank {stack.rank}")
        for job in jobs[: query["limit"]]:
            above = advice_id
            if job.stack_digest is not None:
                above = job.stack_digest
                builder.add("stack", above, labels[above])
                builder.link(advice_id, above, "compares")
            builder.add("inspection", job.document_id, job.inspection_name)
            builder.link(above, job.document_id, "measured in")
            builder.add("job", job.observation_id, job.indicator, rate=job.rate, unit=job.unit)
            builder.link(job.document_id, job.observation_id, "ran")
        return {**builder.members(), "truncated": truncated, **freshness(progress)}


@blueprint.route("/stacks/<string:digest>/path")
class StackPathResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(StackPathQuerySchema, location="query")
    @blueprint.response(200, StackPathSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any], digest: str) -> dict[str, Any]:
        """Get the requirements that lead from a stack's releases to vulnerabilities.

        Each chain is a shortest one. Requirements that only an extra needs count if no other
        requirement leads to the affected release.
        """
        with reading() as (connection, progress):
            stack = stack_named(connection, whole_digest(digest))
            if stack is None:
                raise not_found("stack", digest)
            releases = {it.purl: it for it in packages_in(connection, stack.digest)}
            requirements = stack_requirements(connection, stack.digest)
            vulnerabilities = stack_vulnerabilities(connection, stack.digest)
            known_at_all = knows_advisories(connection)
        starts = None
        if "package" in query:
            name = package_name(query["package"])
            starts = [purl for purl, it in releases.items() if it.name == name]
            if not starts:
                raise not_found("package of this stack", name)
        limit = query["limit"]
        chains = list(
            islice(_chains(vulnerabilities, starts, list(releases), requirements), limit + 1)
        )
        builder = _PathBuilder()
        labels = {purl: f"{it.name} {it.version}" for purl, it in releases.items()}
        for known, chain in chains[:limit]:
            for purl in chain.releases:
                builder.add("release", purl, labels[purl])
            for place, label in enumerate(chain.requirements):
                builder.link(chain.releases[place], chain.releases[place + 1], label)
            builder.add("vulnerability", known.vulnerability_id, known.vulnerability_id)
            builder.link(known.purl, known.vulnerability_id, "is affected by")
        documents = [
            {
                "vulnerability_id": known.vulnerability_id, "severity": known.severity,
                "summary": known.summary, "releases": chain.releases,
                "requirements": chain.requirements,
            }
            for known, chain in chains[:limit]
        ]  # fmt: skip
        return {
            **builder.members(), "chains": documents if known_at_all else None,
            "truncated": len(chains) > limit, **freshness(progress),
        }  # fmt: skip


def _chains(
    vulnerabilities: list[StackVulnerability],
    starts: list[str] | None,
    releases: list[str],
    requirements: list[StackRequirement],
) -> Iterator[tuple[StackVulnerability, RequirementChain]]:
    """The chains to each vulnerability, in order; each release is searched for once."""
    ways = _ways(starts, releases, requirements)
    by_release: dict[str, list[RequirementChain]] = {}
    for known in vulnerabilities:
        if known.purl not in by_release:
            by_way = (chains_to(known.purl, begin, edges) for begin, edges in ways)
            by_release[known.purl] = next(filter(None, by_way), [])
        for chain in by_release[known.purl]:
            yield known, chain


def _ways(
    starts: list[str] | None, releases: list[str], requirements: list[StackRequirement]
) -> list[tuple[list[str], dict[str, dict[str, str]]]]:
    """Starts and requirement texts: without requirements that only extras need, then with them."""
    ways = []
    for with_extras in (False, True):
        edges: dict[str, dict[str, str]] = {}
        for needed in requirements:
            if with_extras or not needed.optional:
                edges.setdefault(needed.source, {}).setdefault(needed.target, needed.raw)
        ways.append((starts or starting_releases(releases, edges), edges))
    return ways


class _PathBuilder:
    """Collects nodes and edges, each once, in the order in which they are added."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, Any]] = {}
        self._edges: dict[tuple[str, str], dict[str, Any]] = {}

    def add(self, kind: str, identifier: str, label: str, **more: Any) -> None:
        """Add a node; the first label counts."""
        node = {"kind": kind, "id": identifier, "label": label, "rate": None, "unit": None, **more}
        self._nodes.setdefault(identifier, node)

    def link(self, source: str, target: str, label: str) -> None:
        """Add an edge; the first label counts."""
        edge = {"source": source, "target": target, "label": label}
        self._edges.setdefault((source, target), edge)

    def members(self) -> dict[str, Any]:
        """Nodes and edges as members of a response."""
        return {"nodes": list(self._nodes.values()), "edges": list(self._edges.values())}
