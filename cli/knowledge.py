"""The knowledge of a command: from stores and indexes, a pack, an archive, or a running service.

Commands catch up with the graph, show progress, and say what is missing.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from http.client import HTTPException
from pathlib import Path
from ssl import SSLCertVerificationError
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import click

from adviser.advice_request import StackRequest
from adviser.advise import Resolver
from adviser.answering.archive_knowledge import ArchiveKnowledge
from adviser.answering.index_resolution import IndexResolution, ResolutionProgress
from adviser.answering.knowledge import Knowledge, KnowledgeSources, ReadingCallbacks
from adviser.answering.lock_comparison import LockKnowledge, compare_lock_versions, guard_document
from adviser.answering.target_hardware import requested_hardware
from adviser.guard import MissingKind
from adviser.guard_findings import comparison_lines
from adviser.packs.trust import evidence_pack, read_policy, trust_of
from cli.console import print_canonical_json, print_lines, print_note, progress_bars
from common import __version__
from common.index.configuration import configured_indexes
from common.settings import Settings
from graph.engine import GRAPH, Stores
from graph.hung_stores import watchdog
from graph.record.evidence import day_of, purls_in
from graph.record.freshness import FEW_ENTRIES, lag_of, pending_packages
from graph.record.indexes import with_suggestions, without_releases
from ingest.crawl.record_writer import store_read
from model.errors import InvalidArgument, InvalidSettings, StoreUnavailable
from model.measurements.evidence import Evidence, EvidencePack
from model.packages.candidates import AbsenceReason, Dependency, IndexesSilent
from model.packages.environments import Environment, environment
from model.packages.identity import Purl
from model.text import counted, first_few, printable

if TYPE_CHECKING:
    from adviser.packs.pack_files import Pack


#: Longest time that a command spends on projecting, in seconds; a running batch is completed.
CATCH_UP_S = 30.0
_SHOWN_NAMES = 5
#: What to do about a missing package, by the reason.
_REMEDIES = {
    "not_found": "check the spelling, or name the index that has the package (--index)",
    "unavailable": "run the command again; check the address and the credentials of the index",
    "not_configured": "configure the index on this machine (PACKAGE_INDEXES), or correct its name",
}


def knowledge_for(
    stores: Stores,
    request: StackRequest,
    options: Mapping[str, Any],
    resolver: Resolver,
    more: Iterable[Dependency] = (),
) -> Knowledge:
    """The knowledge for the request of a command.

    :param options: ``fetch`` and ``build`` of :func:`cli.options.request_options`
    :param more: requirements whose packages are read besides those of the request
    """
    fetch = options["build"] or options["fetch"]
    observer = TerminalObserver(stores)
    return Knowledge.for_request(KnowledgeSources(stores), request, fetch, observer, resolver, more)


class TerminalObserver:
    """Shows on standard error which data is read and missing, and stores the data."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def before_graph(self) -> None:
        """Wait until the graph is up to date."""
        catch_up_graph(self._stores)

    def reading(self) -> AbstractContextManager[ReadingCallbacks]:
        """Show progress bars."""
        return reading_progress()

    def after_reading(self, resolution: IndexResolution) -> None:
        """Store the data, and print its amount and what is still missing."""
        stores, progress = self._stores, resolution.progress
        store_read(stores.settings, stores.engine, resolution.listed.unstored())
        if progress.requests:
            rounds = f" {counted(progress.rounds, 'round')} and" if progress.rounds else ""
            _note(
                f"read {progress.read:,} of {progress.listed:,} listed releases of"
                f" {counted(progress.packages, 'package')}, in{rounds}"
                f" {counted(progress.requests, 'request')}"
                f" ({progress.bytes_received / 1e6:.1f} MB)"
            )
        for (name, version), reason in resolution.unbuilt().items():
            _note(f"not built: {name} {version}: {reason}")
        for warning in resolution.warnings:
            _note(f"warning: {warning}")
        self._print_unmet(resolution)

    def _print_unmet(self, resolution: IndexResolution) -> None:
        """Print why the indexes cannot provide required packages, with remedies."""
        reasons, absences = resolution.unmet(), resolution.listed.absences
        if not reasons:
            return
        unknown = {name for name, it in absences.items() if it.reason == "not_found"}
        with self._stores.engine.connect() as connection:
            reasons = with_suggestions(connection, reasons, unknown)
        required = resolution.required
        for name, reason in reasons.items():
            is_own = name in required
            label = "still missing" if is_own else "warning"
            who = "" if is_own else ", which only other packages require"
            _note(f"{label}: {name}{who}: {reason}")
        kinds = dict.fromkeys(it.reason for name, it in absences.items() if name in required)
        if not all(it.is_complete for it in resolution.listed.packages.values()):
            kinds[AbsenceReason.UNAVAILABLE] = None
        names = configured_indexes(self._stores.settings)
        known = f"; configured: {', '.join(names)}" if len(names) > 1 else ""
        for kind in kinds:
            more = known if kind is AbsenceReason.NOT_FOUND else ""
            _note(f"hint: {_REMEDIES[kind]}{more}")

    def on_silence(self, error: IndexesSilent) -> None:
        """Print an error for packages that the store lacks, and a warning for others."""
        with self._stores.engine.connect() as connection:
            unknown = without_releases(connection, error.absences)
        for name, absence in error.absences.items():
            label = "still missing" if name in unknown else "warning"
            _note(f"{label}: {name}: {absence.message}")
        _note(
            f"{'error' if unknown else 'warning'}: the indexes gave no page of a required package,"
            " so the answer covers only the versions in the store; check the addresses of the"
            " indexes (PACKAGE_INDEXES) and the network"
        )


@contextmanager
def reading_progress() -> Iterator[ReadingCallbacks]:
    """Show on standard error what is read from indexes."""
    with progress_bars("packages", "releases") as bars:

        def show(progress: ResolutionProgress) -> None:
            if bars.visible:
                bars.update("packages", progress.packages, progress.packages)
                bars.update("releases", progress.read, progress.read)
                return
            reached = counted(progress.packages, "package"), counted(progress.rounds, "round")
            text = f"{', '.join(reached)}; releases"
            bars.update("releases", progress.read, description=text)

        def show_build(name: str, version: str) -> None:
            line = printable(f"building the metadata of {name} {version}")
            if bars.visible:
                bars.advance("builds", description=line)
            else:
                click.echo(line, err=True)

        yield show, show_build


def _note(text: str) -> None:
    click.echo(printable(text), err=True)


def catch_up_graph(stores: Stores, within_s: float = CATCH_UP_S) -> None:
    """Project pending changes; standard error shows the progress, and a remaining lag.

    An advice over all listed versions stores many releases and does not wait for the graph.

    :raises StoreUnavailable: if the graph does not answer
    """
    with stores.engine.connect() as connection:
        behind = lag_of(connection)
    if not behind.count:
        return
    from graph.projection import catch_up  # loads the driver, and usually nothing is pending

    if behind.count > FEW_ENTRIES:
        changes = counted(behind.count, "change")
        click.echo(f"the graph is {changes} behind the record: catching up", err=True)
    patience_s = within_s + stores.settings.hung_store_s
    with watchdog(GRAPH, patience_s) as got_on, progress_bars("changes") as bars:

        def advance(done: int, total: int) -> None:
            got_on()
            bars.update("changes", done, total)

        left = catch_up(
            stores.engine,
            stores.driver,
            within_s=within_s,
            progress=advance,
            database=stores.database,
        )
    if left.count:
        click.echo(
            f"warning: the graph is still {counted(left.count, 'change')} behind the record, the"
            f" oldest of {left.oldest_s:.0f} s ago, so the newest releases may be missing:"
            " `thoth graph sync` projects all",
            err=True,
        )


def require_projected(stores: Stores, names: Collection[str]) -> None:
    """Refuse to conclude that there is no stack while the graph lacks changes of its packages.

    :raises StoreUnavailable: if changes of one of these packages are pending
    """
    with stores.engine.connect() as connection:
        pending = pending_packages(connection, names)
    if pending:
        cause = f"changes are not projected yet: {first_few(sorted(pending), _SHOWN_NAMES)}"
        raise StoreUnavailable(GRAPH, printable(cause), "run `thoth graph sync`, then try again")


def knowledge_of_pack(
    settings: Settings,
    path: Path,
    old: Mapping[str, str],
    new: Mapping[str, str],
    where: Environment,
) -> LockKnowledge:
    """The knowledge of a pack about two locks; prints its origin and what it may decide.

    :raises InvalidPack: if it is damaged or was changed
    """
    known, _ = knowledge_in_pack(settings, path, {*old, *new}, where)
    return known.of_locks(old, new, where, {it.digest for it in known.hardware})


def knowledge_in_pack(
    settings: Settings, path: Path, names: Collection[str], where: Environment
) -> tuple[LockKnowledge, dict[tuple[str, str], str | None]]:
    """The knowledge of a pack about all versions of packages; prints its origin.

    :returns: also the declared licences, by name and version
    :raises InvalidPack: if it is damaged or was changed
    """
    # These load pyarrow.
    from adviser.packs.pack_evidence import packed_evidence, packed_hardware, packed_snapshot

    pack, about, now = _opened(settings, path)
    snapshot = packed_snapshot(pack, sorted(names), where)
    evidence = packed_evidence(pack, about, purls_in(snapshot, with_excluded=True), now)
    known = LockKnowledge(snapshot, evidence, {}, packed_hardware(pack), speed_only=True)
    rows = pack.rows("releases", ("name", "version", "license"), name=names)
    return known, {(it["name"], it["version"]): it["license"] for it in rows}


def _opened(settings: Settings, path: Path) -> tuple[Pack, EvidencePack, datetime]:
    from adviser.packs.pack_files import opened

    pack, policy, now = opened(path), read_policy(settings), datetime.now(UTC)
    about = evidence_pack(pack.manifest, pack.key, policy, now.date())
    print_note(f"pack {about.name} ({path}): {trust_of(about, policy).reason}")
    return pack, about, now


def archive_knowledge(
    settings: Settings,
    request: StackRequest,
    resolver: Resolver,
    more: Iterable[Dependency],
    options: Mapping[str, Any],
) -> ArchiveKnowledge:
    """The knowledge of an archive of advisories and a pack, without stores.

    :param options: ``advisories``, by default the archive in ADVISORIES; ``pack``; ``hardware``
    :raises InvalidPack: if the pack is damaged or was changed
    :raises InvalidArgument: if no archive is named
    """
    # It loads the calculator of severities.
    from ingest.advisories.sources import AdvisoryArchive

    source = options["advisories"] or settings.advisories
    if not source:
        option = "--pack" if options["advisories"] is None else "--advisories"
        raise InvalidArgument(
            f"{option}: no advisories are known without stores",
            hint="name an archive in the OSV format with --advisories, or in ADVISORIES",
        )
    measured: Callable[[tuple[Purl, ...]], Evidence] = cache(
        lambda _: Evidence(day_of(datetime.now(UTC)))
    )
    if options["pack"] is not None:
        from adviser.packs.pack_evidence import packed_evidence, packed_hardware

        pack, about, now = _opened(settings, options["pack"])
        measured = cache(lambda purls: packed_evidence(pack, about, purls, now))
        target = requested_hardware(packed_hardware(pack), options["hardware"])
        print_note(target.note)
        request = replace(request, hardware=target.digest, hardware_name=target.name)
    return ArchiveKnowledge(
        settings, request, resolver, AdvisoryArchive(source),
        lambda snapshot: measured(tuple(purls_in(snapshot, with_excluded=True))),
        reading_progress, tuple(more),
    )  # fmt: skip


def answer_from_pack(
    settings: Settings,
    path: Path,
    subjects: Sequence[tuple[str, Mapping[str, str]]],
    python_version: str | None,
    hardware: str | None,
    measuring: Sequence[Sized],
    *,
    as_json: bool,
) -> int:
    """Print what a pack says about the speed of two stacks, and return the exit code.

    :param subjects: the argument for each stack, and the version of each package
    :param hardware: as for :func:`requested_hardware`
    :param measuring: options for a measurement that were given; none may be
    """
    if any(measuring) or len(subjects) != 2:
        raise click.UsageError(
            "with --pack, nothing is measured: give two stacks and no options for measuring"
        )
    (old, new), where = (it for _, it in subjects), environment(python_version)
    knowledge = knowledge_of_pack(settings, path, old, new, where)
    target = requested_hardware(knowledge.hardware, hardware)
    answer = compare_lock_versions(knowledge, old, new, where, target.digest)
    unmeasured = any(it.kind is MissingKind.MEASUREMENT for it in answer.missing)
    settled = not (answer.undetermined or answer.unmeasured or unmeasured)
    lines = [*comparison_lines(answer), *answer.context]
    if not settled:
        measured = " ".join(shlex.quote(it) for it, _ in subjects)
        lines.append(
            f"to measure it here: thoth compare {measured}{answer.python} --ingest -- COMMAND"
        )
    print_note(target.note)
    if as_json:
        print_canonical_json({**guard_document(answer), "settled": settled, "sentences": lines})
    else:
        print_lines(lines)
    return 0 if settled else 4


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
    :raises InvalidSettings: if the token has another form
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
        """The knowledge of the service about two locks, each given as version by package name.

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
            cause = f"the answer has more than {_MOST_BYTES >> 20} MiB"
            raise StoreUnavailable(_SERVICE, cause, f"check --service {self._url}")
        return answer

    def _refusal(self, error: HTTPError) -> Exception:
        if 300 <= error.code < 400:
            return InvalidArgument("--service: the address redirects; give the final address")
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
