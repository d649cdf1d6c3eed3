"""Keep one comment of a pull or merge request up to date: ``comment.py LOCK FILE``.

The comment is created, replaced, or deleted if FILE is empty. A hidden marker names the lock. The
token is read from a variable and sent as a header, never as part of a URL, and never printed.

Variables: ``GUARD_HOST`` (github or gitlab), ``GUARD_TOKEN``, ``GUARD_API`` (URL of the API),
``GUARD_REPOSITORY`` (owner/name, or the number of a GitLab project), ``GUARD_REQUEST`` (number of
the request), ``GUARD_AUTHOR`` (whose comments are replaced; the token's user by default).
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

_PAGE = 100
_MOST_PAGES = 50
_TIMEOUT_S = 30


class _NoRedirect(HTTPRedirectHandler):
    """Redirects would carry the token to another address."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Comments:
    """The comments of one request at a code host."""

    def __init__(self, environ: dict[str, str]) -> None:
        host, repository = environ["GUARD_HOST"], environ["GUARD_REPOSITORY"]
        api, number = environ["GUARD_API"].rstrip("/"), int(environ["GUARD_REQUEST"])
        address = urlsplit(api)
        if address.scheme != "https" and address.hostname not in {"127.0.0.1", "localhost"}:
            raise ValueError("GUARD_API: https is needed, since a token is sent")
        token = environ["GUARD_TOKEN"].strip()
        if not (token.isascii() and token.isprintable()):
            raise ValueError("GUARD_TOKEN: not a token")
        if host == "github":
            project = f"{api}/repos/{quote(repository)}/issues"
            self.list = f"{project}/{number}/comments"
            self.each = f"{project}/comments"
            self.update, self.people, self.name = "PATCH", "user", "login"
            self.headers = {"Authorization": f"Bearer {token}"}
        elif host == "gitlab":
            project = f"{api}/projects/{quote(repository, safe='')}"
            self.list = self.each = f"{project}/merge_requests/{number}/notes"
            self.update, self.people, self.name = "PUT", "author", "username"
            self.headers = {"PRIVATE-TOKEN": token}
        else:
            raise ValueError("GUARD_HOST: write github or gitlab")
        self.opener = build_opener(_NoRedirect)
        # The token of a workflow may not ask who it is.
        own = "github-actions[bot]" if host == "github" else ""
        self.author = (
            environ.get("GUARD_AUTHOR") or own or self.send("GET", f"{api}/user")[self.name]
        )

    def send(self, method: str, url: str, body: str | None = None) -> Any:
        data = None if body is None else json.dumps({"body": body}).encode()
        headers = {**self.headers, "Content-Type": "application/json", "User-Agent": "thoth"}
        request = Request(url, data, headers, method=method)  # noqa: S310 - checked above
        with self.opener.open(request, timeout=_TIMEOUT_S) as response:
            text = response.read()
        return json.loads(text) if text else None

    def own(self, marker: str) -> list[int]:
        """Identifiers of the author's comments that begin with ``marker``, oldest first."""
        identifiers = []
        for page in range(1, _MOST_PAGES + 1):
            comments = self.send("GET", f"{self.list}?per_page={_PAGE}&page={page}")
            identifiers += [
                int(it["id"])
                for it in comments
                if (it["body"] or "").startswith(marker)
                and (it[self.people] or {}).get(self.name) == self.author
            ]
            if len(comments) < _PAGE:
                break
        return sorted(identifiers)

    def keep(self, marker: str, text: str) -> str:
        """Make ``text`` the only comment with ``marker``; say what was done."""
        first, *others = self.own(marker) or [None]
        for identifier in others if text or first is None else [first, *others]:
            self.send("DELETE", f"{self.each}/{identifier}")
        if not text:
            return "nothing to say" if first is None else "deleted"
        body = f"{marker}\n{text}"
        if first is None:
            self.send("POST", self.list, body)
            return "created"
        self.send(self.update, f"{self.each}/{first}", body)
        return "replaced"


def main(lock: str, file: str) -> int:
    needed = ("GUARD_HOST", "GUARD_TOKEN", "GUARD_API", "GUARD_REPOSITORY", "GUARD_REQUEST")
    missing = [name for name in needed if not os.environ.get(name)]
    if missing:
        print(f"{lock}: {missing[0]} is not set", file=sys.stderr)
        return 1
    marker = f"<!-- thoth-guard {hashlib.sha256(lock.encode()).hexdigest()[:16]} -->"
    text = Path(file).read_text(encoding="utf-8")
    try:
        done = Comments(dict(os.environ)).keep(marker, text)
    except HTTPError as error:
        print(f"{lock}: the code host answers {error.code}", file=sys.stderr)
        return 1
    except (OSError, ValueError) as error:
        print(f"{lock}: {error}", file=sys.stderr)
        return 1
    print(f"{lock}: comment {done}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
