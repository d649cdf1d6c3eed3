"""Evidence packs in the record: manifests, the parts of their files, and followed addresses.

Packs are apart from our own measurements. Parts are documents of a kind of their own, so backups
have them, and every part is compared with its digest when it is read.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO

from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from common.settings import Settings
from graph.record.documents import DeliveredDocument, add_documents, body_of, delete_documents
from graph.record.freshness import count_change
from graph.record.postgresql_helpers import AdvisoryLock, columns_for, lock_transaction, storable
from graph.tables import Document, FollowedAddressRow, PackPartRow, PackRow
from model.errors import DamagedDocument, InvalidPack, Reason
from model.json_documents import digest_bytes

#: Kind of the documents that are parts of packs.
PACK_PART = "pack_part"
#: Size of a part, and about the memory that adding and reading a pack takes.
PART_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class PackHead:
    """A pack without its files.

    :param manifest: canonical JSON, whose SHA-256 is the digest
    :param envelope: DSSE envelope as JSON; ``None`` if the pack is not signed
    :param key: fingerprint of the key that signed it
    :param address: path or URL that it was added from, without secrets
    """

    digest: str
    name: str
    manifest: str
    envelope: str | None
    key: str | None
    address: str


@dataclass(frozen=True, slots=True)
class StoredPack(PackHead):
    """A pack of the record."""

    added_at: datetime


def add_pack(
    connection: Connection, settings: Settings, head: PackHead,
    files: Iterable[tuple[str, BinaryIO]],
) -> bool:  # fmt: skip
    """Store a pack whose files were compared with its manifest; the caller owns the transaction.

    :param files: path and content of each, read in order
    :returns: ``False`` if the record has it already; a new signature by the same key replaces the
        former one
    :raises InvalidPack: if the record has it, signed by another key
    :raises StoreUnavailable: if a part cannot be written to the document store
    """
    lock_transaction(connection, AdvisoryLock.PACKS)
    values = {it: getattr(head, it) for it in ("digest", "name", "manifest", "envelope", "key")}
    known = connection.execute(
        select(PackRow.envelope, PackRow.key).where(PackRow.digest == head.digest)
    ).one_or_none()
    if known is not None:
        if head.envelope in {None, known.envelope}:
            return False
        if known.key not in {None, head.key}:
            raise InvalidPack(
                Reason.CONFLICTING_FIELDS, "the store has this pack, signed by another key",
                field="envelope.json", place=head.address,
                hint="`thoth pack remove` removes the other one",
            )  # fmt: skip
        row = {it: values[it] for it in ("envelope", "key")}
        connection.execute(update(PackRow).where(PackRow.digest == head.digest).values(row))
    else:
        connection.execute(insert(PackRow).values(values | {"address": storable(head.address)}))
        for path, file in files:
            for position, body in enumerate(_parts(file)):
                part = DeliveredDocument(digest_bytes(body), PACK_PART, "1", head.digest, body)
                add_documents(connection, settings, [part])
                place = {"pack_digest": head.digest, "path": path, "position": position}
                connection.execute(
                    insert(PackPartRow).values(place | {"document_id": part.document_id})
                )
    count_change(connection)
    return True


def _parts(file: BinaryIO) -> Iterator[bytes]:
    """The content in parts; an empty file has one."""
    yield file.read(PART_BYTES)
    while body := file.read(PART_BYTES):
        yield body


def stored_packs(connection: Connection) -> list[StoredPack]:
    """All packs, in the order of their digests."""
    query = select(*columns_for(StoredPack, PackRow)).order_by(PackRow.digest)
    return [StoredPack(*row) for row in connection.execute(query)]


def pack_files(
    connection: Connection, settings: Settings, digest: str
) -> Iterator[tuple[str, bytes]]:
    """The parts of the files of a pack: path and content; parts of a file in their order.

    :raises DamagedDocument: if a part differs from its digest
    """
    part = PackPartRow
    query = select(part.path, part.document_id).where(part.pack_digest == digest)
    for row in connection.execute(query.order_by(part.path, part.position)).all():
        body = body_of(connection, settings, row.document_id)
        if body is None:
            raise DamagedDocument(row.document_id, "the record does not have it")
        yield row.path, body


def remove_pack(connection: Connection, digest: str) -> None:
    """Delete a pack, with the parts that no other pack has; the caller owns the transaction.

    Afterwards, call :func:`graph.record.documents.delete_unreferenced_bodies`.
    """
    lock_transaction(connection, AdvisoryLock.PACKS)
    part = PackPartRow
    query = select(part.document_id).where(part.pack_digest == digest).distinct()
    parts = list(connection.scalars(query))
    connection.execute(delete(PackRow).where(PackRow.digest == digest))  # and its parts
    unused = ~select(part.document_id).where(part.document_id == Document.document_id).exists()
    delete_documents(
        connection, Document.document_id.in_(parts) & (Document.kind == PACK_PART) & unused
    )
    count_change(connection)


@dataclass(frozen=True, slots=True)
class FollowedAddress:
    """An address whose new packs the nightly run adds.

    :param read_at: when its index was last read completely; ``None`` before the first time
    """

    address: str
    followed_at: datetime
    read_at: datetime | None


def followed_addresses(connection: Connection) -> list[FollowedAddress]:
    """All followed addresses, in their order."""
    row = FollowedAddressRow
    query = select(*columns_for(FollowedAddress, row)).order_by(row.address)
    return [FollowedAddress(*it) for it in connection.execute(query)]


def follow_address(connection: Connection, address: str) -> None:
    """Remember an address; nothing changes if it is followed already."""
    statement = insert(FollowedAddressRow).values(address=address)
    connection.execute(statement.on_conflict_do_nothing())


def unfollow_address(connection: Connection, address: str) -> bool:
    """Forget an address, and return whether it was followed; its packs stay."""
    row = FollowedAddressRow
    return bool(connection.execute(delete(row).where(row.address == address)).rowcount)


def note_read(connection: Connection, address: str) -> None:
    """Note that the index of an address was read completely."""
    row = FollowedAddressRow
    connection.execute(
        update(row).where(row.address == address).values(read_at=func.clock_timestamp())
    )
