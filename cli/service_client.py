"""Requests of commands to a running service."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from http.client import HTTPException
from ssl import SSLCertVerificationError
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from adviser.answering.lock_comparison import LockKnowledge
from common import __version__
from model.errors import InvalidArgument, InvalidSettings, StoreUnavailable
from model.packages.environments import Environment

#: Variable with the token; an option would show it to all users of the machine.
TOKEN = "THOTH_TOKEN"  # noqa: S105

_SERVICE = "the service"
_TIMEOUT_S = 120
_MOST_BYTES = 256 << 20
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class _NoRedirect(HTTPRedirectHandler):
    """Redirects would carry the token to another address."""

    def redirect_request(self, *_: Any) -> None:
        return None


class ServiceClient:
    """A client of the service at ``url``, such as ``https://thoth.example``.

    :raises InvalidArgument: if the address is not one, or would send the token without TLS
    :raises InvalidSettings: if the token cannot be one
    """

    def __init__(self, url: str) -> None:
        try:
            address = urlsplit(url)
            usable = bool(address.hostname) and address.port != 0
        except ValueError:
            usable = False
        if not usable or address.scheme not in ("https", "http") or address.username is not None:
            raise InvalidArgument("--service: write an address such as https://thoth.example")
        self._token = os.environ.get(TOKEN, "").strip()
        if not (self._token.isascii() and all(it.isprintable() for it in self._token)):
            raise InvalidSettings(f"{TOKEN}: not a token")
        if self._token and address.scheme != "https" and address.hostname not in _LOOPBACK:
            raise InvalidArgument("--service: https is needed, since a token is sent")
        self._url = url.rstrip("/")
        self._opener = build_opener(_NoRedirect)

    def knowledge_of_locks(
        self,
        old: Mapping[str, str],
        new: Mapping[str, str],
        environment: Environment,
        hardware: str,
    ) -> LockKnowledge:
        """What the service knows of two locks, each given as version by package name.

        :param hardware: digest of the hardware class whose measurements are read, or its first
            digits
        :raises StoreUnavailable: if the service does not answer
        :raises InvalidArgument: if the service refuses the request
        :raises InvalidDocument: if its answer cannot be read
        """
        where = {"python": environment.name, "platform": environment.platform}
        if environment.cuda is not None:
            where["cuda"] = environment.cuda
        path, locks = "/api/v2/lock-knowledge", {"old": dict(old), "new": dict(new)}
        try:
            answer = self._post(path, {**locks, "environment": {**where, "hardware": hardware}})
        except InvalidArgument:  # version 0.2.0 refuses `hardware`
            answer = self._post(path, {**locks, "environment": where})
        return LockKnowledge.from_json(answer)

    def _post(self, path: str, body: Mapping[str, Any]) -> bytes:
        headers = {"Content-Type": "application/json", "User-Agent": f"thoth/{__version__}"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = json.dumps(body).encode()
        request = Request(f"{self._url}{path}", data, headers)  # noqa: S310 - checked above
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as response:
                answer: bytes = response.read(_MOST_BYTES + 1)
        except HTTPError as error:
            raise self._refusal(error) from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            hint = f"check --service {self._url}"
            if isinstance(reason, SSLCertVerificationError):
                hint = "set SSL_CERT_FILE to a file with the certificate of the service"
            cause = getattr(reason, "strerror", None) or str(reason)
            raise StoreUnavailable(_SERVICE, cause, hint) from error
        if len(answer) > _MOST_BYTES:
            cause = f"its answer has more than {_MOST_BYTES >> 20} MiB"
            raise StoreUnavailable(_SERVICE, cause, f"check --service {self._url}")
        return answer

    def _refusal(self, error: HTTPError) -> Exception:
        if 300 <= error.code < 400:
            return InvalidArgument("--service: it redirects; write the address that it leads to")
        if error.code in (401, 403):
            return InvalidSettings(f"{TOKEN}: the service refused it ({error.code})")
        if error.code >= 500 or error.code == 429:
            return StoreUnavailable(_SERVICE, f"answered {error.code}", "try again later")
        if error.code == 404:
            return InvalidArgument("--service: the service is older than 0.2.0, or is not Thoth")
        try:
            detail = json.loads(error.read(1 << 16))["detail"]
        except (ValueError, LookupError, TypeError, OSError, HTTPException):
            return InvalidArgument(
                f"--service: {self._url} does not answer as a Thoth service ({error.code})"
            )
        return InvalidArgument(f"the service refused the locks: {detail}")
