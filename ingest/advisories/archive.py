"""The vulnerabilities of packages in an archive of advisories, without a store."""

from collections import defaultdict
from datetime import UTC, datetime

import orjson
from packaging.utils import canonicalize_name

from ingest.advisories.osv import advisory_of
from ingest.advisories.sources import opened_source
from ingest.sources.source_items import RawDocument, RefusedDocument, source_argument
from model.advisories import Advisory, AffectedPackage, Vulnerability, merge_advisories
from model.errors import InvalidArgument, InvalidDocument, Reason
from model.json_documents import digest_bytes, load_json
from model.json_fields import Fields
from model.measurements.inspection import DocumentId


class AdvisoryArchive:
    """The vulnerabilities of packages, by the documents of one source.

    :param source: a zip file, a folder, a single document, or the URL of such a file
    :ivar as_of: time of the source
    :ivar refused: by place in the source, why a document is left out; documents about packages
        that nobody requests are only checked to be JSON
    :raises InvalidArgument: if it has no advisory
    :raises StoreUnavailable: if a server does not answer
    """

    def __init__(self, source: str) -> None:
        self._documents: dict[str, list[RawDocument]] = defaultdict(list)
        self.refused: dict[str, InvalidDocument] = {}
        with opened_source(source_argument(source)) as opened:
            self.as_of = opened.as_of
            for raw in opened.documents or ():
                try:
                    if isinstance(raw, RefusedDocument):
                        raise raw.error
                    for name in _names_in(raw.data or b""):
                        self._documents[name].append(raw)
                except InvalidDocument as error:
                    self.refused[raw.place] = error
        if not self._documents:
            raise InvalidArgument(f"{source}: it has no advisory about a package")

    def about(self, name: str) -> list[tuple[Vulnerability, list[AffectedPackage]]]:
        """The vulnerabilities of a package that were not withdrawn, with its affected versions."""
        newest: dict[str, Advisory] = {}
        for raw in self._documents.get(name, ()):
            try:
                value, canonical = load_json(raw.data or b"")
                document = DocumentId(digest_bytes(canonical))
                advisory = advisory_of(value, canonical, document, datetime.now(UTC))
            except InvalidDocument as error:
                self.refused[raw.place] = error
                continue
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
    try:
        record = Fields(orjson.loads(data))
    except orjson.JSONDecodeError as error:
        raise InvalidDocument(Reason.INVALID_JSON, str(error)) from None
    names = (it.nested("package").text("name") for it in record.each("affected"))
    return {canonicalize_name(it) for it in names if it}
