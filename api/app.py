"""The Flask application: its blueprints, and the handlers around every request."""

from pathlib import Path

from flask import Flask
from flask_compress import Compress
from flask_cors import CORS
from werkzeug.middleware.proxy_fix import ProxyFix

from api import access
from api.amun import blueprints as inspecting
from api.health import checks as health
from api.health import monitoring
from api.http import errors, request_context
from api.http.openapi import OpenApi
from api.pages import blueprints as pages
from api.resources import blueprints as own
from api.store_access import EXTENSION, ServiceStores
from api.thamos import blueprints as compatible
from common import __version__
from common.settings import Settings

#: Response headers that allowed pages of other origins can read.
_EXPOSED = (
    "ETag",
    "Link",
    "Location",
    "Retry-After",
    request_context.REQUEST_ID,
    request_context.AS_OF,
)
#: Smaller responses are not compressed.
_COMPRESSED_BYTES = 1000


def create_app(
    settings: Settings | None = None,
    *,
    behind_proxy: bool = False,
    fetch_missing: bool = False,
    threads: int | None = None,
    certificate: Path | None = None,
) -> Flask:
    """Create the WSGI application; it connects to no store before the first request.

    :param settings: by default from the environment
    :param behind_proxy: trust ``X-Forwarded-*`` headers, which one proxy sets in all requests
    :param fetch_missing: whether requests without a token may read releases from the indexes
    :param threads: number of concurrent requests, if known
    :param certificate: PEM file of the server; ``/metrics`` shows when it expires
    :raises InvalidSettings: with the name of the invalid setting
    """
    settings = settings or Settings.from_env()
    app = Flask("api", static_folder=None)
    app.config.update(
        API_TITLE="Thoth",
        API_VERSION=__version__,
        OPENAPI_VERSION="3.1.0",
        OPENAPI_URL_PREFIX="/",
        OPENAPI_JSON_PATH="openapi.json",
        CERTIFICATE=certificate,
        FETCH_MISSING=fetch_missing,
        UPLOAD_BYTES=settings.body_limit_mb * request_context.MIB,
        COMPRESS_ALGORITHM=["gzip"],
        COMPRESS_MIN_SIZE=_COMPRESSED_BYTES,
        COMPRESS_MIMETYPES=["application/json", errors.MEDIA_TYPE, "text/html", "text/plain"],
    )
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.url_map.strict_slashes = False
    # Clients time out before a statement takes longer.
    app.extensions[EXTENSION] = ServiceStores(settings, settings.query_timeout_s, threads)
    _surround(app, settings)
    if behind_proxy:
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=1, x_proto=1, x_host=1)  # type: ignore[method-assign]
    api = OpenApi(app)
    for blueprint in (*compatible(), *inspecting(), *own()):
        api.register_blueprint(blueprint)
    for page in pages():
        app.register_blueprint(page)
    return app


def _surround(app: Flask, settings: Settings) -> None:
    """Register handlers. They run in this order before a request, in reverse order after it."""
    monitoring.register_traces(app)
    errors.register(app)
    access.register_access_log(app)
    Compress(app)
    if settings.cors_origins:
        origins = list(settings.cors_origins)
        CORS(app, origins=origins, expose_headers=list(_EXPOSED), max_age=600)
    request_context.register(app)
    monitoring.register_metrics(app)
    access.authenticate(app, settings)
    access.limit_rates(app, settings)
    access.record_writes(app)
    health.register(app)
