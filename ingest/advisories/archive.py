"""Advisories of an archive by package, without a store."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from datetime import UTC, datetime

import orjson
from packaging.utils import canonicalize_name

from graph.record.vulnerability_queries import Vulnerability, merge_advisories
from ingest.advisories.osv import advisory_of
from ingest.advisories.sources import opened_source
from ingest.sources.source_items import RawDocument
from ingest.sources.urls import source_argument
from model.advisories import Advisory, AffectedPackage
from model.errors import InvalidArgument, InvalidDocument
from model.json_documents import digest_bytes, load_json
from model.measurements.inspection import DocumentId


class AdvisoryArchive:
    """The vulnerabilities of packages, by the documents of one source.

    Documents that cannot be read are left out.

    :param source: a zip file, a folder, a single document, or the URL of such a file
    :ivar as_of: time of the source
    :raises InvalidArgument: if it has no advisory
    :raises StoreUnavailable: if a server does not answer
    """

    def __init__(self, source: str) -> None:
        self._documents: dict[str, list[bytes]] = defaultdict(list)
        with opened_source(source_argument(source)) as opened:
            self.as_of = opened.as_of
            for raw in opened.documents or ():
                data = raw.data if isinstance(raw, RawDocument) else None
                for name in _names_in(data or b""):
                    self._documents[name].append(data or b"")
        if not self._documents:
            raise InvalidArgument(f"{source}: it has no advisory about a package")

    def about(self, name: str) -> list[tuple[Vulnerability, list[AffectedPackage]]]:
        """The vulnerabilities of a package that were not withdrawn, with its affected versions."""
        newest: dict[str, Advisory] = {}
        for data in self._documents.get(name, ()):
            with suppress(InvalidDocument):
                value, canonical = load_json(data)
                document = DocumentId(digest_bytes(canonical))
                advisory = advisory_of(value, canonical, document, datetime.now(UTC))
                known = newest.setdefault(advisory.head.advisory_id, advisory)
                newest[advisory.head.advisory_id] = max(known, advisory, key=lambda it: it.head.age)
        claims = {
            key: [] if it.head.withdrawn_at else [one for one in it.packages if one.name == name]
            for key, it in newest.items()
        }
        merged = merge_advisories([it.head for it in newest.values()])
        return [(it, [one for key in it.advisory_ids for one in claims[key]]) for it in merged]


def _names_in(data: bytes) -> set[str]:
    """The packages that a document may be about; their documents are parsed when asked for."""
    with suppress(ValueError, AttributeError, TypeError):
        names = (it["package"]["name"] for it in orjson.loads(data).get("affected", ()))
        return {canonicalize_name(it) for it in names if isinstance(it, str)}
    return set()
