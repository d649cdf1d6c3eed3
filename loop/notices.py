"""Delivers the notices of the outbox to their targets, with bounded attempts and growing pauses.

Targets are signed webhooks, and services for people that ``apprise`` knows.

A notice is claimed, sent and marked in separate transactions. If the process dies in between, the
notice is sent again with the same identifier, so no notice is lost and receivers can recognise
repetitions.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import ipaddress
import logging
import random
import shutil
import socket
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import sqlalchemy

from common import __version__
from common.http.addresses import AddressGuard
from common.http.transport import Server, Transport, server_of
from common.settings import Settings
from graph.embedded.home import space_left
from graph.engine import relational_errors
from graph.record.events import (
    MAX_ATTEMPTS,
    ClaimedNotice,
    Event,
    EventKind,
    claim_notices,
    give_up_abandoned,
    mark_delivered,
    mark_failed,
    plan_notices,
    record_problem,
    record_solution,
)
from loop.notice_messages import notice_body, notice_text, notice_title
from model.errors import IndexProblem, InvalidSettings, ProjectError
from model.redaction import cut

#: Pauses after the first, second … failed attempt, as Standard Webhooks suggests: 3 days in all.
PAUSES = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    *(timedelta(hours=it) for it in (2, 5, 10, 14, 20, 24)),
)
#: No other process claims a notice for this long; far longer than an attempt.
LEASE = timedelta(minutes=5)
#: Targets that are served at a time.
_THREADS = 4
#: Free space at which a disk is no longer nearly full, as a multiple of what is.
_RECOVERY_FACTOR = 2.0
#: Seconds after which a round claims no more notices; the next round goes on.
_ROUND_S = 15.0

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeliveryPace:
    """Times of the delivery.

    :param pauses: before the second, third … attempt; each gets up to a fifth longer at random
    """

    pauses: Sequence[timedelta] = PAUSES
    lease: timedelta = LEASE
    round_s: float = _ROUND_S

    def pause_after(self, attempts: int) -> timedelta | None:
        """The pause after a failed attempt; ``None`` after the last attempt."""
        if attempts >= MAX_ATTEMPTS:
            return None
        pause = self.pauses[min(attempts, len(self.pauses)) - 1]
        return pause * random.uniform(1.0, 1.2)  # noqa: S311 - spreads attempts, is no secret


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """The counts of a round of deliveries.

    :param planned: events whose notices were written
    :param failed: failed attempts
    :param given_up: notices that will not be sent again
    :param unusable: targets of the settings that this process cannot use, with the reason
    """

    planned: int
    delivered: int
    failed: int
    given_up: int
    unusable: dict[str, str]


def deliver_notices(
    engine: sqlalchemy.Engine, settings: Settings, pace: DeliveryPace | None = None
) -> DeliveryCounts:
    """Write the notices of new events, and make one attempt for each notice that is due.

    Also checks whether the disk of ``THOTH_HOME`` is nearly full, if there is a target.

    A target whose attempt fails gets no more notices in this round. Notices of targets that this
    process does not know, or cannot use, wait for a process that can.

    :raises StoreUnavailable: if PostgreSQL does not answer
    :raises InvalidSettings: if two targets have the same name
    """
    pace = pace or DeliveryPace()
    names = planned_targets(settings)
    targets: dict[str, NoticeTarget] = {}
    unusable: dict[str, str] = {}
    for name in names:
        try:
            targets[name] = load_target(settings, name)
        except InvalidSettings as error:
            unusable[name] = str(error)
    with relational_errors(settings):
        if names:
            _check_disk(engine, settings.home)
        planned = _plan_all(engine, names)
        rounds = [_TargetRound(engine, name, target, pace) for name, target in targets.items()]
        with ThreadPoolExecutor(_THREADS) as threads:
            outcomes = list(threads.map(_TargetRound.run, rounds))
        with engine.begin() as connection:
            abandoned = give_up_abandoned(connection, names)
    delivered, failed, given_up = (sum(it) for it in zip(*outcomes, (0, 0, 0), strict=True))
    return DeliveryCounts(planned, delivered, failed, given_up + abandoned, unusable)


def _check_disk(engine: sqlalchemy.Engine, folder: Path) -> None:
    """Record an event when the disk of this machine is nearly full, and when it has space again."""
    if not folder.exists():
        return
    left, subject = space_left(folder), f"{socket.gethostname()}:{folder}"
    if 1.0 <= left < _RECOVERY_FACTOR:
        return
    with engine.begin() as connection:
        if left >= _RECOVERY_FACTOR:
            record_solution(connection, EventKind.DISK_FULL, subject)
            return
        disk = shutil.disk_usage(folder)
        data = {"free_bytes": disk.free, "size_bytes": disk.total}
        record_problem(connection, EventKind.DISK_FULL, subject, data)


def _plan_all(engine: sqlalchemy.Engine, names: dict[str, bool]) -> int:
    """Write the notices of all events; without targets, events wait for a process with targets."""
    planned = batch = 0
    while names:
        with engine.begin() as connection:
            batch = plan_notices(connection, names)
        if not batch:
            break
        planned += batch
    return planned


@dataclass(frozen=True, slots=True)
class _TargetRound:
    """Sends the due notices of one target."""

    engine: sqlalchemy.Engine
    name: str
    target: NoticeTarget
    pace: DeliveryPace

    def run(self) -> tuple[int, int, int]:
        """Send until nothing is due, an attempt fails, or the time of the round is over.

        :returns: numbers of delivered notices, failed attempts, and notices that were given up
        """
        delivered, ends = 0, time.monotonic() + self.pace.round_s
        while time.monotonic() < ends:
            with self.engine.begin() as connection:
                claimed = claim_notices(connection, [self.name], self.pace.lease, 1)
            if not claimed:
                break
            notice = claimed[0]
            try:
                self.target.send(notice)
            except DeliveryFailed as error:
                # Store a failed attempt, and return whether it was the last.
                pause = self.pace.pause_after(notice.attempts) if error.retryable else None
                with self.engine.begin() as connection:
                    mark_failed(connection, notice, str(error), pause)
                fields = {**_fields(notice), "error": str(error)}
                _LOG.warning("notice_given_up" if pause is None else "notice_failed", extra=fields)
                return delivered, 1, int(pause is None)
            with self.engine.begin() as connection:
                mark_delivered(connection, notice.notice_id)
            delivered += 1
            _LOG.info("notice_delivered", extra=_fields(notice))
        return delivered, 0, 0


def _fields(notice: ClaimedNotice) -> dict[str, object]:
    return {
        "notice_id": notice.notice_id, "target": notice.target, "attempts": notice.attempts,
        "event_id": notice.event.event_id, "kind": notice.event.kind.value,
    }  # fmt: skip


#: Seconds to connect, and for a whole attempt to deliver a notice to a webhook.
_CONNECT_S, _ATTEMPT_S = 5.0, 10.0
_SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of all secrets
#: Bytes of a key; Standard Webhooks names these bounds.
_KEY_BYTES = range(24, 65)
#: Status of a receiver that wants no more notices (RFC 9110).
_GONE = 410
#: Longest file with a secret or an address, bytes.
_FILE_BYTES = 64 << 10


class DeliveryFailed(ProjectError):
    """An attempt to deliver a notice failed.

    :param retryable: whether another attempt may succeed
    """

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class NoticeTarget(Protocol):
    """Receives notices."""

    def send(self, notice: ClaimedNotice) -> None:
        """Deliver a notice; returns once the receiver has acknowledged it.

        :raises DeliveryFailed: otherwise; its text has no secrets
        """


@dataclass(frozen=True, slots=True)
class Webhook:
    """An HTTP server that gets notices as signed POST requests, as Standard Webhooks describes.

    :param keys: each signs, so that a receiver may have the old secret or the new one
    """

    server: Server = field(repr=False)
    keys: tuple[bytes, ...] = field(repr=False)

    def send(self, notice: ClaimedNotice) -> None:
        """Send a request; redirects count as failures, and the body of the response is ignored."""
        body = notice_body(notice.event)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"thoth/{__version__}",
            # Otherwise, libcurl may wait for a permission to send the body.
            "Expect": "",
            **signed_headers(notice.notice_id, int(time.time()), body, self.keys),
        }
        try:
            status = asyncio.run(self._post(headers, body))
        except TimeoutError:
            raise DeliveryFailed(f"no answer within {_ATTEMPT_S:g} s") from None
        except (IndexProblem, InvalidSettings) as problem:
            raise DeliveryFailed(cut(problem)) from None
        if not 200 <= status < 300:
            raise DeliveryFailed(f"the receiver answers {status}", retryable=status != _GONE)

    async def _post(self, headers: Mapping[str, str], body: bytes) -> int:
        guard = AddressGuard(self.server.url, ())
        transport = Transport(guard, 1, _CONNECT_S, _ATTEMPT_S)
        try:
            async with asyncio.timeout(_ATTEMPT_S):
                return (await transport.post(self.server, headers, body)).status
        finally:
            await transport.aclose()


def signed_headers(
    notice_id: str, timestamp: int, body: bytes, keys: Sequence[bytes]
) -> dict[str, str]:
    """The headers by which a receiver recognises a notice, its age and its sender.

    :param timestamp: when this attempt is made, in seconds since 1970
    """
    content = f"{notice_id}.{timestamp}.".encode() + body
    digests = [base64.b64encode(hmac.digest(key, content, "sha256")).decode() for key in keys]
    return {
        "webhook-id": notice_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{it}" for it in digests),
    }


@dataclass(frozen=True, slots=True)
class AppriseService:
    """A chat, a mailbox or another service that ``apprise`` can send messages to."""

    service: Any = field(repr=False)

    def send(self, notice: ClaimedNotice) -> None:
        """Send the text of the event; ``apprise`` says only whether that succeeded."""
        text = f"{notice_text(notice.event)}\nNotice: {notice.notice_id}"
        try:
            sent = self.service.notify(
                body=text, title=notice_title(notice.event), body_format="text"
            )
        except Exception as error:
            # Plugins raise what their libraries raise, and messages may contain the address.
            raise DeliveryFailed(f"the service failed: {type(error).__name__}") from None
        if not sent:
            raise DeliveryFailed("the service has not accepted the message")


def planned_targets(settings: Settings) -> dict[str, bool]:
    """The names of all targets, with whether they also get events that are not settled.

    :raises InvalidSettings: if a webhook and another target have the same name
    """
    gets_all = settings.webhook_events == "all"
    targets = {name: gets_all for name, _ in settings.webhooks}
    for name, _ in settings.notice_targets:
        if name in targets:
            raise InvalidSettings(
                f"NOTICE_TARGETS: {name} is the name of a webhook, too: rename one"
            )
        targets[name] = False
    return targets


def load_target(settings: Settings, name: str) -> NoticeTarget:
    """A target, ready to send.

    :raises InvalidSettings: if it cannot be used; the message names the setting and no secrets
    """
    for hook, url in settings.webhooks:
        if hook == name:
            return _webhook(settings, name, url)
    for service, address in settings.notice_targets:
        if service == name:
            return _apprise_service(name, address)
    raise InvalidSettings(f"WEBHOOKS and NOTICE_TARGETS do not name {cut(name)!r}")


def send_test(settings: Settings, name: str) -> str:
    """Send a test notice to a target, at once and without a retry.

    :returns: identifier of the notice
    :raises InvalidSettings: if the target cannot be used
    :raises DeliveryFailed: if it has not acknowledged the notice
    """
    target = load_target(settings, name)
    event = Event(0, EventKind.TEST, name, {}, datetime.now(UTC))
    notice = ClaimedNotice(f"msg_{uuid.uuid4().hex}", name, 1, event)
    try:
        target.send(notice)
    except DeliveryFailed as error:
        raise DeliveryFailed(f"{name}: {error}", retryable=error.retryable) from None
    return notice.notice_id


def _webhook(settings: Settings, name: str, url: str) -> Webhook:
    secret = dict(settings.webhook_secrets).get(name)
    if secret is None:
        raise InvalidSettings(
            f"WEBHOOK_SECRETS: the webhook {name} has no secret: add {name}=SECRET"
        )
    keys = tuple(_key_in(name, it) for it in _content("WEBHOOK_SECRETS", name, secret))
    try:
        parts = urlsplit(url)
        server = server_of(url)
    except ValueError:
        raise InvalidSettings(f"WEBHOOKS: {name}: not an http or https URL") from None
    if "@" in parts.netloc:
        raise InvalidSettings(f"WEBHOOKS: {name}: the URL has a user: leave it out")
    if server.scheme != "https" and not _is_loopback(server.host):
        raise InvalidSettings(
            f"WEBHOOKS: {name}: only receivers on this machine may use http; use https"
        )
    return Webhook(server, keys)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _key_in(name: str, secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not secret.startswith(_SECRET_PREFIX) or len(key) not in _KEY_BYTES:
        raise InvalidSettings(
            f"WEBHOOK_SECRETS: {name}: not {_SECRET_PREFIX} and 24 to 64 bytes in Base64"
        )
    return key


def _apprise_service(name: str, address: str) -> AppriseService:
    try:
        import apprise
    except ImportError:
        raise InvalidSettings(
            f"NOTICE_TARGETS: {name} needs apprise", hint="install Thoth with the extra notify"
        ) from None
    # Their logs repeat addresses, which contain passwords.
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    asset = apprise.AppriseAsset(async_mode=False, plugin_paths=[], app_id="Thoth")
    if hasattr(asset, "http_redirects"):
        asset.http_redirects = False
    service = apprise.Apprise(asset=asset)
    addresses = _content("NOTICE_TARGETS", name, address)
    if len(addresses) != 1 or not service.add(addresses[0]):
        raise InvalidSettings(f"NOTICE_TARGETS: {name}: not one address that apprise knows")
    return AppriseService(service)


def _content(setting: str, name: str, value: str) -> list[str]:
    """The items of a value, or the items in the file whose absolute path the value is."""
    if not value.startswith("/"):
        return [value]
    try:
        with Path(value).open("rb") as file:
            items = file.read(_FILE_BYTES).decode().split()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise InvalidSettings(f"{setting}: {name}: {value} cannot be read: {reason}") from None
    if not items:
        raise InvalidSettings(f"{setting}: {name}: {value} is empty")
    return items
