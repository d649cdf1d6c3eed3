"""The knowledge behind ``thoth guard``, for pipelines without stores of their own."""

from __future__ import annotations

from typing import Any

from flask import Response
from flask.views import MethodView
from marshmallow import Schema, fields, validate

from adviser.answering.target_hardware import find_classes
from api.access.audit import wrote_nothing
from api.access.authentication import needs
from api.http.lock_reading import MAX_PACKAGES, read_lock_knowledge
from api.http.request_context import reading
from api.http.schema_fields import StrictSchema, described, json_object, no_nul
from api.resources.advice_requests import EnvironmentSchema
from api.resources.base import Resources
from graph.record.hardware import recorded_hardware
from graph.record.tokens import Scope
from model.packages.environments import environment

_PLATFORM = "linux_x86_64"


def _lock(description: str) -> fields.Dict:
    return fields.Dict(
        keys=fields.String(validate=validate.And(validate.Length(1, 200), no_nul)),
        values=fields.String(validate=validate.And(validate.Length(1, 200), no_nul)),
        required=True,
        validate=validate.Length(max=MAX_PACKAGES),
        metadata=described(description, {"numpy": "2.4.6"}),
    )


class LocksSchema(StrictSchema):
    """Two locks and the environment that they are for; by default, the Python of the service."""

    old = _lock("Versions of the old lock, by normalised package name.")
    new = _lock("Versions of the new lock, by normalised package name.")
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
            recorded = recorded_hardware(connection)
        hardware = None
        if "hardware" in named:
            hardware = [it.digest for it in find_classes(recorded, named["hardware"])]
        knowledge = read_lock_knowledge(body["old"], body["new"], where, recorded, hardware)
        return Response(knowledge.to_json(), mimetype="application/json")
