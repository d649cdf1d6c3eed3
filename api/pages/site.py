"""Shared parts of all pages: requests to the API, blueprints, layout, problems, forms, signing in.

Reads and writes of pages are requests to the API in the same process. A page therefore shows what
the API answers, under the same scopes, and links to the same JSON.

A random value is in a cookie and in every form. Another site can make a browser send a form, but
can read neither value (OWASP: double submit cookie). The cookie is also ``SameSite=Strict``.
Beside that, the browser states the origin of a form; other clients state none.
"""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import orjson
from flask import (
    Blueprint,
    Response,
    after_this_request,
    current_app,
    g,
    make_response,
    redirect,
    render_template,
    request,
    url_for,
)
from markupsafe import Markup
from werkzeug.datastructures import FileStorage, Headers
from werkzeug.exceptions import NotFound, RequestEntityTooLarge
from werkzeug.test import EnvironBuilder, run_wsgi_app
from werkzeug.wrappers import Response as BaseResponse

from api.access import PAGE_TOKEN, SESSION_COOKIE, token, token_of
from api.http.errors import ApiError, ProblemType, of_http, title
from api.http.request_context import AS_OF, REQUEST_ID
from api.pages.formatting import FILTERS, visible, visible_text
from api.store_access import service
from common.formats.file_decoding import text_of
from graph.record.access import Scope, close_session, open_session
from model.errors import InvalidFile


@dataclass(frozen=True, slots=True)
class ApiDocument:
    """A JSON response of the API.

    :param url: path and query that return it
    :param as_of: time of the newest data that it may contain, in ISO format
    """

    url: str
    status: int
    body: Mapping[str, Any]
    as_of: str | None = None
    method: str = "GET"

    def __getitem__(self, name: str) -> Any:
        return self.body[name]


class ApiProblem(Exception):
    """A response of the API with a status from 400 on; ``body`` is the problem document."""

    def __init__(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        super().__init__(body.get("detail") or HTTPStatus(status).phrase)
        self.status = status
        self.body = body
        self.headers = headers


def read(path: str, /, **query: object) -> ApiDocument:
    """GET a document of the API; parameters that are ``None`` or empty are left out.

    :raises ApiProblem: for a status from 400 on
    """
    return _answer("GET", path, query)


def read_if_any(path: str, /, **query: object) -> ApiDocument | None:
    """GET a document of the API; ``None`` if it does not exist or this client may not see it.

    :raises ApiProblem: for any other status from 400 on
    """
    try:
        return read(path, **query)
    except ApiProblem as problem:
        if problem.status in {401, 403, 404}:
            return None
        raise


def write(path: str, body: Mapping[str, Any] | None = None, **query: object) -> ApiDocument:
    """POST a document to the API.

    :raises ApiProblem: for a status from 400 on
    """
    return _answer("POST", path, query, body or {})


def _answer(
    method: str, path: str, query: Mapping[str, object], body: Mapping[str, Any] | None = None
) -> ApiDocument:
    filled = sorted((name, str(value)) for name, value in query.items() if value not in (None, ""))
    text = urlencode(filled)
    builder = EnvironBuilder(
        path,
        base_url=request.host_url,
        method=method,
        query_string=text,
        data=None if body is None else orjson.dumps(body),
        content_type=None if body is None else "application/json",
        headers=Headers({REQUEST_ID: str(g.request_id)}),
        environ_overrides={PAGE_TOKEN: token(), "REMOTE_ADDR": request.remote_addr or ""},
    )
    chunks, status_line, headers = run_wsgi_app(current_app.wsgi_app, builder.get_environ())
    content = b"".join(chunks)
    status = int(status_line.split()[0])
    document = orjson.loads(content) if content else {}
    if status >= 400:
        raise ApiProblem(status, document, dict(headers.items()))
    url = f"{path}?{text}" if text else path
    return ApiDocument(url, status, document, headers.get(AS_OF), method)


#: Pages load only what this service serves, and send forms only to it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
#: Characters that need no escape in a query (RFC 3986).
_PLAIN = "!$'()*,/:;?@"
#: Paths of the API, for programs.
_API = ("/api/", "/amun/")
#: Query parameters of lists that are no filters.
_NO_FILTERS = frozenset({"after", "limit"})
#: The menu: endpoint and label.
_MENU = (
    ("pages-home.home", "What changed"),
    ("pages-ask.form", "Ask"),
    ("pages-packages.packages", "Packages"),
    ("pages-inspections.inspections", "Measurements"),
    ("pages-stacks.stacks", "Stacks"),
    ("pages-reports.reports", "Quality"),
    ("pages-bisects.bisects", "Bisects"),
    ("pages-benchmarks.benchmarks", "Benchmarks"),
    ("pages-questions.questions", "Questions"),
    ("pages-operation.loop", "Loop"),
    ("pages-operation.trust", "Trust"),
    ("pages-docs.page", "API"),
)
#: For tokens with the scope `admin`.
_ADMIN_MENU = (("pages-operation.operator", "Operator"),)


class Pages(Blueprint):
    """Pages of one subject."""

    def __init__(self, name: str, import_name: str) -> None:
        super().__init__(f"pages-{name}", import_name, template_folder="templates")
        self.before_request(check_form)
        self.after_request(_protect)
        self.register_error_handler(ApiProblem, _of_api)
        self.register_error_handler(ApiError, _of_page)
        large = ApiError(413, ProblemType.TOO_LARGE, "the form is larger than the limit")
        self.register_error_handler(RequestEntityTooLarge, lambda _: _of_page(large))
        # Makes control and direction characters of every text in templates visible.
        self.record(lambda state: setattr(state.app.jinja_env, "finalize", visible_text))
        for filter_name, function in FILTERS.items():
            self.add_app_template_filter(function, filter_name)


def render(
    template: str, *documents: ApiDocument | None, status: int = 200, **values: Any
) -> Response:
    """Render a page.

    :param documents: the shown documents; the foot shows the time of their data, and links to
        documents that GET returns
    """
    shown = [it for it in documents if it is not None]
    client = token()
    content = render_template(
        template,
        menu=_MENU + (_ADMIN_MENU if client and client.may(Scope.ADMIN) else ()),
        client=client,
        form_token=form_token,
        active_filters=active_filters,
        as_of=max((it.as_of for it in shown if it.as_of), default=None),
        sources=[it.url for it in shown if it.method == "GET"],
        **values,
    )
    return make_response(content, status)


def render_list(name: str, **values: Any) -> Response:
    """Render a list of the API with its filters; page, template and list have the same name."""
    listed = read(f"/api/v2/{name}", **request.args)
    values |= {name: listed["items"], "following": next_page(listed), "selected": request.args}
    return render(f"{name}.html", listed, **values)


def file_response(
    content: str | bytes, name: str, kind: str = "text/plain", disposition: str = "attachment"
) -> Response:
    """A file with this content."""
    response = Response(content, mimetype=kind)
    response.headers["Content-Disposition"] = f'{disposition}; filename="{name}"'
    return response


def plot(svg: str) -> Markup:
    """A drawing of :mod:`adviser.plots`, whose texts are escaped already."""
    frame = '<div class="scroll" role="group" aria-label="Plot" tabindex="0">{}</div>'
    return Markup(frame.format(visible(svg)))  # noqa: S704


def other_url(**changed: Any) -> str:
    """The address of this page with other values of some query parameters; ``None`` drops one."""
    query = {**request.args.to_dict(), **changed}
    filled = {name: value for name, value in query.items() if value not in (None, "")}
    address = url_for(request.endpoint or "", **(request.view_args or {}))
    # As arguments of `url_for`, parameters could replace its options, and those of the path.
    return f"{address}?{urlencode(filled, safe=_PLAIN)}" if filled else address


def active_filters() -> list[tuple[str, str, str]]:
    """Filters in the address of a list: name, value, and the address without the filter."""
    return [
        (name, value, other_url(**{name: None, "after": None}))
        for name, value in request.args.items()
        if value and name not in _NO_FILTERS
    ]


def next_page(document: ApiDocument) -> str | None:
    """The address of the page that shows the next part of a list; ``None`` at its end."""
    following = document.body.get("next")
    if following is None:
        return None
    return other_url(after=parse_qs(urlsplit(following).query)["after"][0])


def _protect(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = POLICY
    return response


def _of_api(problem: ApiProblem) -> Response:
    lacks_scope = "insufficient_scope" in problem.headers.get("WWW-Authenticate", "")
    by_token = problem.status == 401 or lacks_scope
    # After signing in, the client returns to this page, if it can be read again.
    home = url_for("pages-home.home")
    here = request.full_path.rstrip("?") if request.method == "GET" else home
    response = render(
        "problem.html", status=problem.status, problem=problem.body,
        sign_in=by_token and url_for("pages-sessions.sign_in", next=here),
    )  # fmt: skip
    if "Retry-After" in problem.headers:
        response.headers["Retry-After"] = problem.headers["Retry-After"]
    return response


def _of_page(error: ApiError) -> Response:
    body = {"title": title(error.problem), "detail": error.detail, "status": error.status}
    return _of_api(ApiProblem(error.status, body, error.headers))


def unknown_address(error: NotFound) -> Response:
    """The answer to an unknown address: a page for browsers outside the API."""
    accepted = request.accept_mimetypes
    is_page = request.url_rule is None and not request.path.startswith(_API)
    if is_page and accepted["text/html"] > accepted["application/json"]:
        address = ApiError(404, ProblemType.NOT_FOUND, "there is no page at this address")
        return _protect(_of_page(address))
    return of_http(error)


#: Name of the cookie and of the field.
FORM_TOKEN = "form_token"  # noqa: S105


def form_token() -> str:
    """The value for the hidden field of a form; sets the cookie if there is none."""
    if "form_token" not in g:
        g.form_token = request.cookies.get(FORM_TOKEN) or secrets.token_urlsafe(16)
        if FORM_TOKEN not in request.cookies:

            @after_this_request
            def _with_cookie(response: Response) -> Response:
                is_secure = request.is_secure
                response.set_cookie(
                    FORM_TOKEN, g.form_token, httponly=True, samesite="Strict", secure=is_secure
                )
                return response

    return str(g.form_token)


def check_form() -> None:
    """Refuse a form that does not come from a page of this service.

    :raises ApiError: 403 if the field and the cookie differ, or the browser names another origin
    """
    if request.method != "POST":
        return
    sent, cookie = request.form.get(FORM_TOKEN, ""), request.cookies.get(FORM_TOKEN, "")
    if not cookie or not _has_own_origin() or not hmac.compare_digest(sent, cookie):
        detail = "the form is too old or comes from another site: load the page again"
        raise ApiError(403, ProblemType.FORBIDDEN, detail)


def _has_own_origin() -> bool:
    """Whether the browser says that this request comes from this origin, or says nothing.

    Behind a proxy ``Sec-Fetch-Site`` is more reliable, because the proxy may change the host.
    """
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or urlsplit(origin).netloc == request.host


def uploaded_text(upload: FileStorage) -> str:
    """The text of a file, in UTF-8 or in the encoding of its byte order mark.

    :raises ApiProblem: 422 if it is not such text
    """
    try:
        return text_of(upload.filename or "file", upload.read())
    except InvalidFile as error:
        raise ApiProblem(422, {"detail": str(error), "hint": error.hint}, {}) from error


#: How long a session is open.
LIFETIME = timedelta(hours=12)

session_pages = Pages("sessions", __name__)


@session_pages.get("/sign-in")
def sign_in() -> Response:
    """The form for a token."""
    return render("sign_in.html", target=_target(request.args.get("next")))


@session_pages.post("/sign-in")
def open_page_session() -> BaseResponse:
    """Open a session, and return to the page that needed it."""
    target = _target(request.form.get("next"))
    try:
        client = token_of(request.form.get("token", "").strip())
    except ApiError as error:
        if error.status != 401:
            raise
        return render("sign_in.html", target=target, status=401, refused=error.detail)
    with service().writing() as connection:
        secret = open_session(connection, client.token_id, LIFETIME)
    response = redirect(target, 303)
    response.set_cookie(
        SESSION_COOKIE, secret, max_age=LIFETIME, httponly=True, samesite="Strict",
        secure=request.is_secure,
    )  # fmt: skip
    return response


@session_pages.post("/sign-out")
def sign_out() -> BaseResponse:
    """Close the session."""
    secret = request.cookies.get(SESSION_COOKIE)
    if secret is not None:
        with service().writing() as connection:
            close_session(connection, secret)
    response = redirect(url_for("pages-home.home"), 303)
    response.delete_cookie(SESSION_COOKIE, httponly=True, samesite="Strict")
    return response


def _target(text: str | None) -> str:
    """A path of this service; the home page for anything else."""
    home = url_for("pages-home.home")
    # Browsers skip control characters: "/\t/host" is another server.
    if not text or not text.isprintable() or not text.startswith("/"):
        return home
    if text.startswith(("//", "/\\")):
        return home
    parts = urlsplit(text)
    return home if parts.scheme or parts.netloc else text
