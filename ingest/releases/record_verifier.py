"""Compares each part of a stored release with the document that the part comes from.

Several documents may describe a release. For each part, the document with the highest rank is
decisive. A differing release is not excluded from evidence, because advice would then miss a
version. Instead, its differing rows are written again from the document.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import orjson
from sqlalchemy import Connection

from graph.record.known_releases import (
    correct_release,
    latest_documents,
    raised_alarms,
    stored_releases,
    without_source,
)
from graph.record.release_merging import HashAlarm, KnownRelease
from graph.record.releases import release_rows, restore_releases
from graph.tables import ReleaseFileRow, RequirementRow
from graph.verification.comparison import (
    RecordDifference,
    compare_rows,
    extra_row,
    missing_row,
    stored_text,
    unreadable,
)
from graph.verification.run import ComparedDocuments, StoredDocument, VerificationRun, Verifier
from ingest.releases.parsing import release_of
from model.errors import InvalidDocument
from model.measurements.inspection import DocumentId
from model.packages.releases import Release

_TABLE = "package_versions"


class ReleaseVerifier(Verifier):
    """Compares releases with their documents, and writes differing rows again."""

    def compare(
        self, connection: Connection, run: VerificationRun, documents: Sequence[StoredDocument]
    ) -> Iterator[RecordDifference]:
        releases: dict[str, Release] = {}
        for document in documents:
            try:
                releases[document.document_id] = _release(document)
            except InvalidDocument as error:
                yield unreadable(document.document_id, document.schema_version, error)
        known = _Known.read(connection, releases, lock=False)
        for document_id, release in releases.items():
            if document_id not in known.described:
                yield missing_row(document_id, _TABLE, release.purl)
        yield from compare_rows(
            connection,
            {
                document_id: list(
                    release_rows(correct_release(known.stored[release.purl], release, known.alarms))
                )
                for document_id, release in known.described.items()
            },
            (RequirementRow, ReleaseFileRow),
        )
        for document_id, purl in latest_documents(connection, releases):
            if document_id not in known.described or known.described[document_id].purl != purl:
                yield extra_row(document_id, _TABLE, purl)
        tellers = {release.purl: document_id for document_id, release in known.described.items()}
        for unsourced in without_source(connection, known.stored.values()):
            ranks, wanted = stored_text(" | ".join(unsourced.ranks)), "ranks of stored documents"
            yield RecordDifference(
                tellers[unsourced.purl], _TABLE, unsourced.purl, "ranks", ranks, wanted
            )

    def settle(
        self, connection: Connection, run: VerificationRun, compared: ComparedDocuments
    ) -> None:
        releases: dict[str, Release] = {}
        for document in compared.differing:
            with suppress(InvalidDocument):
                releases[document.document_id] = _release(document)
        if releases:
            known = _Known.read(connection, releases, lock=True)
            restored = dict(known.stored)
            for release in known.described.values():
                # Of several documents about one release, each sets right what it described.
                restored[release.purl] = correct_release(
                    restored[release.purl], release, known.alarms
                )
            restore_releases(connection, restored)
            run.counts["releases_restored"] += len(restored)


def _release(document: StoredDocument) -> Release:
    """The release that a stored document describes."""
    release = release_of(orjson.loads(document.body))
    return replace(release, document_id=DocumentId(document.document_id))


@dataclass(frozen=True, slots=True)
class _Known:
    """Releases as they are stored in the record.

    :param stored: by package URL
    :param described: by document, the release that it describes, as the record spells it
    """

    stored: Mapping[str, KnownRelease]
    described: Mapping[str, Release]
    alarms: Collection[HashAlarm]

    @classmethod
    def read(cls, connection: Connection, releases: Mapping[str, Release], *, lock: bool) -> _Known:
        """The stored releases that these documents describe."""
        stored = stored_releases(connection, releases.values(), lock=lock)
        described = {key: stored.as_known(it) for key, it in releases.items()}
        return cls(
            stored.locked,
            {key: it for key, it in described.items() if it.purl in stored.locked},
            raised_alarms(connection, stored.locked.values()),
        )


VERIFIER = ReleaseVerifier()
