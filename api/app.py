"""The Flask application: what is registered, and what happens around every request."""

from __future__ import annotations

from flask import Flask
from flask_smorest import Api

from api import errors, exchange, security
from api.resources import blueprints as own
from api.service import EXTENSION, Service
from api.thamos import blueprints as compatible
from common import __version__
from common.settings import Settings

#: Bodies are read no further than this.
MAX_BODY_BYTES = 64 * 1024**2


class _Api(Api):
    """Errors are translated by :mod:`api.errors`, for every route alike."""

    def _register_error_handlers(self) -> None:
        return


def create_app(settings: Settings | None = None) -> Flask:
    """The service as a WSGI application; no store is asked before the first request.

    :param settings: of the environment unless given
    """
    app = Flask("api", static_folder=None)
    app.config.update(
        API_TITLE="Thoth",
        API_VERSION=__version__,
        OPENAPI_VERSION="3.1.0",
        OPENAPI_URL_PREFIX="/",
        OPENAPI_JSON_PATH="openapi.json",
        MAX_CONTENT_LENGTH=MAX_BODY_BYTES,
    )
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.url_map.strict_slashes = False
    app.extensions[EXTENSION] = Service(settings or Settings.from_env())
    errors.register(app)
    exchange.register(app)
    security.register(app)
    api = _Api(app)
    for blueprint in (*compatible(), *own()):
        api.register_blueprint(blueprint)
    return app
