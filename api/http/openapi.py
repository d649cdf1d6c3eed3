"""The blueprint of all resources, and the OpenAPI document: errors and security of operations."""

from collections.abc import Callable
from http import HTTPStatus
from threading import Lock
from typing import Any

from flask import Flask, Request, Response, json
from flask_smorest import Api, Blueprint
from marshmallow import INCLUDE, Schema, fields
from webargs import missing
from webargs.flaskparser import FlaskParser, is_json_request

from api.http.errors import MEDIA_TYPE, ApiError, ProblemType
from api.http.request_context import json_of
from api.http.schema_fields import text


class ProblemSchema(Schema):
    """A problem document (RFC 9457); below /api/v1 it has further members."""

    class Meta:
        unknown = INCLUDE

    type = text("URL of an explanation of this problem; it is stable.", "/problems/not-found")
    title = text("Kind of problem, for people.", "Not found")
    status = fields.Raw(
        required=True,
        metadata={
            "description": "HTTP status; below /api/v1, the state of an analysis.",
            "type": ["integer", "object"],
            "example": 404,
        },
    )
    detail = text("What is wrong, for people.", "no package is called 'flaks'")
    request_id = text("Identifier of this request in the log.", "5f0c9d2be417a863")
    analysis = fields.Dict(
        keys=fields.String(), metadata={"description": "State of the analysis, below /api/v2."}
    )
    errors = fields.Dict(keys=fields.String(), metadata={"description": "What is wrong, by field."})
    hint = fields.String(metadata={"description": "How to fix it."})
    reason = fields.String(metadata={"description": "Why a document was refused, as a code."})
    field = fields.String(metadata={"description": "Field of the document that was refused."})
    error = fields.String(metadata={"description": "The same as `detail`, below /api/v1."})
    parameters = fields.Dict(
        keys=fields.String(), metadata={"description": "Parameters of the request, below /api/v1."}
    )


#: Errors of every operation; each has a component named like its phrase.
_ALWAYS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
#: Errors of every operation with a body.
_WITH_BODY = (
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)
_DESCRIPTION = (
    "Advice on the package versions that a project should use on a machine, and the data behind"
    " it. Errors are problem documents (RFC 9457). Lists are paginated: `next` is the URL of the"
    " next page."
)
_SCOPES = (
    "A token of `thoth token create`. The `security` of each operation names the scope that its"
    " token needs; a token with the scope `admin` may use all operations. An operation that is also"
    " open without a token (`{}`) is so unless the operator's `ANONYMOUS_SCOPES` say otherwise."
)


class OpenApi(Api):
    """Documents all errors, but leaves their translation to :mod:`api.http.errors`.

    Operations are documented with the first request for the document, because that takes longer
    than all the rest of creating the application.
    """

    ERROR_SCHEMA = ProblemSchema

    def __init__(self, app: Flask) -> None:
        self._undocumented: list[Blueprint] = []
        self._documenting = Lock()
        super().__init__(
            app,
            spec_kwargs={"info": {"description": _DESCRIPTION, "license": {"name": "Apache-2.0"}}},
        )
        scheme = {"type": "http", "scheme": "bearer", "description": _SCOPES}
        self.spec.components.security_scheme("token", scheme)

    def register_blueprint(self, blueprint: Blueprint, **options: Any) -> None:
        """Register a blueprint; :meth:`document` describes its operations."""
        self._app.extensions["flask-smorest"]["blp_name_to_api"][blueprint.name] = self
        self._app.register_blueprint(blueprint, **options)
        self._undocumented.append(blueprint)

    def document(self) -> dict[str, Any]:
        """The OpenAPI document, with the errors and scopes of all operations."""
        with self._documenting:
            for blueprint in self._undocumented:
                callbacks = blueprint._prepare_doc_cbks
                if _completed not in callbacks:  # several applications may share a blueprint
                    callbacks.append(_completed)
                name, app, spec = blueprint.name, self._app, self.spec
                blueprint.register_views_in_doc(self, app, spec, name=name, parameters=None)
                spec.tag({"name": name, "description": blueprint.description})
            self._undocumented.clear()
            content: dict[str, Any] = self.spec.to_dict()
            return content

    def _openapi_json(self) -> Response:
        return Response(
            json.dumps(self.document(), indent=2, sort_keys=False), mimetype="application/json"
        )

    def _register_error_handlers(self) -> None:
        return

    def _register_responses(self) -> None:
        responses = self.spec.components
        for status in HTTPStatus:
            responses.response(status.name, _problem(status.phrase), lazy=True)
        responses.response("DEFAULT_ERROR", _problem("Any other error."), lazy=True)


def _problem(description: str) -> dict[str, Any]:
    return {"description": description, "content": {MEDIA_TYPE: {"schema": ProblemSchema}}}


def _completed(doc: dict[str, Any], info: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add the errors, and the scopes of :func:`api.access.needs`; other operations are open."""
    doc.setdefault("security", info.get("security", []))
    responses = doc.setdefault("responses", {})
    documented = {str(status) for status in responses}
    for status in (*_ALWAYS, *(_WITH_BODY if "requestBody" in doc else ())):
        if str(status.value) not in documented:
            responses[str(status.value)] = status.name
    return doc


class BodyParser(FlaskParser):
    """Reads bodies with :func:`json_of`, and answers invalid requests with 400.

    Each schema may allow or refuse unknown members.
    """

    DEFAULT_VALIDATION_STATUS = 400
    DEFAULT_UNKNOWN_BY_LOCATION: dict[str, str | None] = {}  # noqa: RUF012

    def _raw_load_json(self, req: Request) -> Any:
        data = req.get_data(cache=True)
        if data and not is_json_request(req):
            detail = f"Content-Type: {req.mimetype!r} is not application/json"
            raise ApiError(415, ProblemType.UNSUPPORTED_MEDIA_TYPE, detail)
        return json_of(data) if data else missing

    def load_querystring(self, req: Request, schema: Schema) -> Any:
        """Load a query; a parameter must not occur more than once.

        :raises ApiError: 400, naming repeated parameters
        """
        known = {field.data_key or name for name, field in schema.load_fields.items()}
        twice = {
            name: ["Given more than once."]
            for name, values in req.args.lists()
            if len(values) > 1 and name in known
        }
        if twice:
            detail = f"given more than once: {', '.join(sorted(twice))}"
            raise ApiError(400, ProblemType.INVALID_REQUEST, detail, errors={"query": twice})
        return super().load_querystring(req, schema)


class Routes(Blueprint):
    """A blueprint of one subject."""

    ARGUMENTS_PARSER = BodyParser()

    def arguments(
        self, schema: type[Schema] | Schema, **options: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Pass the data that a schema loads to a view; the schema is created only once."""
        instance = schema() if isinstance(schema, type) else schema
        return super().arguments(instance, **options)  # type: ignore[no-any-return]
