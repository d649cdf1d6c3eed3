"""What the stores know of two locks, for ``thoth guard --service``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from flask import Response
from flask.views import MethodView
from marshmallow import Schema, fields, validate

from adviser.answering.lock_comparison import (
    LockKnowledge,
    knowledge_of_locks,
)
from adviser.answering.target_hardware import find_classes
from adviser.packs.stored_packs import known_hardware
from api.access.audit import wrote_nothing
from api.access.authentication import needs, token
from api.http.request_context import reading
from api.http.schema_fields import (
    StrictSchema,
    described,
    json_object,
    no_nul,
)
from api.jobs.request_submission import sender
from api.resources.advice_requests import EnvironmentSchema
from api.resources.base import Resources
from api.service import answer_within, service
from graph.record.packages import version_count
from graph.record.tokens import Scope
from graph.snapshot_reader import CheckTime
from model.errors import InvalidArgument
from model.measurements.evidence import RecordedHardware
from model.packages.environments import Environment, environment

#: Platform of locks if the request names none; never that of the server.
_PLATFORM = "linux_x86_64"
#: Maximum number of packages of a lock.
MAX_PACKAGES = 2_000
#: Maximum number of versions of these packages; reading them from the graph takes some 10 s.
MAX_VERSIONS = 100_000


def read_lock_knowledge(
    old: Mapping[str, str],
    new: Mapping[str, str],
    environment: Environment,
    recorded: Sequence[RecordedHardware],
    hardware: Collection[str] | None = None,
) -> LockKnowledge:
    """What the stores know of two locks, each given as version by package name.

    The caller holds a place of ``lock_readers``.

    :param recorded: all recorded hardware classes
    :param hardware: digests of the hardware classes whose measurements are read; by default all
    :raises InvalidArgument: if the packages have too many versions or measurements
    :raises StoreUnavailable: if a store does not answer in time
    """
    stores = service()
    with stores.reading() as connection:
        versions = version_count(connection, {*old, *new})
    if versions > MAX_VERSIONS:
        raise InvalidArgument(
            f"the packages of the locks have {versions} versions, but at most {MAX_VERSIONS}"
            " are read"
        )

    def ask(check_time: CheckTime) -> LockKnowledge:
        with stores.stores() as opened:
            sides = old, new, environment
            known = knowledge_of_locks(opened, *sides, recorded, hardware, check_time)
            return known.of_locks(*sides, hardware or ())

    return answer_within(stores.settings.query_timeout_s * 2, ask)


def _pins(description: str) -> fields.Dict:
    return fields.Dict(
        keys=fields.String(validate=validate.And(validate.Length(1, 200), no_nul)),
        values=fields.String(validate=validate.And(validate.Length(1, 200), no_nul)),
        required=True,
        validate=validate.Length(max=MAX_PACKAGES),
        metadata=described(description, {"numpy": "2.4.6"}),
    )


class LocksSchema(StrictSchema):
    """Two locks and the environment that they are for; by default, the Python of the service."""

    old = _pins("Versions of the old lock, by normalised package name.")
    new = _pins("Versions of the new lock, by normalised package name.")
    environment = fields.Nested(EnvironmentSchema, load_default=dict)


class LockKnowledgeSchema(Schema):
    """What is known of two locks; `thoth guard --service` reads it."""

    snapshot = json_object("Metadata of the versions in the locks.")
    evidence = json_object("Measurements, and facts about vulnerabilities.")
    vulnerabilities = fields.List(
        fields.List(fields.Raw()),
        required=True,
        metadata={"description": "Of versions that cannot be installed: name, version, list."},
    )
    hardware = fields.List(
        fields.Dict(), required=True, metadata={"description": "Measured hardware classes."}
    )


blueprint = Resources("locks", __name__, description="Knowledge for comparing locks.")


@blueprint.route("/lock-knowledge")
class LockKnowledgeResource(MethodView):
    @needs(Scope.READ)
    @blueprint.arguments(LocksSchema)
    @blueprint.response(200, LockKnowledgeSchema)
    def post(self, body: dict[str, Any]) -> Response:
        """Return all knowledge that a comparison of two locks needs.

        With `environment.hardware`, only measurements on this hardware class are included.
        """
        wrote_nothing()
        named = body["environment"]
        where = environment(
            named.get("python"), named.get("platform") or _PLATFORM, named.get("cuda")
        )
        with reading() as (connection, _):
            recorded = known_hardware(connection, service().settings)
        hardware = None
        if "hardware" in named:
            hardware = [it.digest for it in find_classes(recorded, named["hardware"])]
        with service().lock_readers.taken(sender(token())):
            knowledge = read_lock_knowledge(body["old"], body["new"], where, recorded, hardware)
        return Response(knowledge.to_json(), mimetype="application/json")
