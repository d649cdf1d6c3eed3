"""The document store, which holds large bodies: its file system, and whether it is this record's.

Servers and workers on several machines may have different folders under one ``DOCUMENT_STORE_URL``.
An upload that a server accepted would then be lost to the workers. The record therefore has an
identifier, and its document store an object with that name.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, select, update

from common.files import private_folder
from common.settings import Settings
from graph.tables import Document, DocumentStoreRow
from model.errors import DocumentStoreMismatch, StoreUnavailable

#: How long a process relies on its last successful check, s. A store may change while it runs: if a
#: network file system is unmounted, an empty folder takes its place.
_KEPT_S = 10.0
#: Folder of the identifiers of records.
RECORDS = "records"
#: End of the names of objects that are being written.
_PART = ".part"
#: Packages for object stores by the scheme of a URL; the extra ``server`` has those of others.
_CLIENTS = {"gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}
#: Objects that were found, with the time.
_found: dict[str, float] = {}

_STORE_ID = select(DocumentStoreRow.store_id)
_NEWEST_LOCATION = (
    select(Document.location)
    .where(Document.location.is_not(None))
    .order_by(Document.ingested_at.desc())
    .limit(1)
)


def require_own_store(connection: Connection, settings: Settings, *, now: bool = False) -> None:
    """Refuse a document store that is not the one of this record.

    Before :func:`identify_store` was called for the first time, every store is accepted.

    :param now: do not rely on an earlier check
    :raises DocumentStoreMismatch: if the store lacks the identifier
    :raises StoreUnavailable: if the store cannot be read
    """
    store_id = connection.scalar(_STORE_ID)
    if store_id is None:
        return
    url = object_url(settings, _name(store_id))
    if not now and time.monotonic() < _found.get(url, 0.0) + _KEPT_S:
        return
    if not _exists(url):
        _found.pop(url, None)
        raise DocumentStoreMismatch(_name(store_id))
    _found[url] = time.monotonic()


def identify_store(connection: Connection, settings: Settings, *, now: bool = False) -> None:
    """Give the record and its store an identifier, or check it as :func:`require_own_store` does.

    :param connection: in a transaction that the caller commits
    :raises StoreUnavailable: if the store cannot be written
    """
    if connection.scalar(_STORE_ID) is not None:
        require_own_store(connection, settings, now=now)
        return
    location = connection.scalar(_NEWEST_LOCATION)
    if location is not None and not _exists(object_url(settings, location)):
        raise DocumentStoreMismatch(location)
    store_id = uuid4().hex
    url = object_url(settings, _name(store_id))
    # Written first: a record must not name an object that could not be written.
    write_object(url, b"")
    # A transaction that does the same is waited for.
    statement = update(DocumentStoreRow).where(DocumentStoreRow.store_id.is_(None))
    if not connection.execute(statement.values(store_id=store_id)).rowcount:
        with suppress(StoreUnavailable):  # leaves an unused object behind
            delete_object(url)
        require_own_store(connection, settings)


def is_identified(connection: Connection) -> bool:
    """Whether the record has an identifier; without one, it has no objects in the store."""
    return connection.scalar(_STORE_ID) is not None


def is_shared(connection: Connection, settings: Settings) -> bool:
    """Whether the store may have objects of other records: it lacks the identifier, or has several.

    :raises StoreUnavailable: if the store cannot be read
    """
    store_id = connection.scalar(_STORE_ID)
    identifiers = [it for it in objects_in(settings, RECORDS) if not it.endswith(_PART)]
    return store_id is None or identifiers != [_name(store_id)]


def objects_in(settings: Settings, folder: str) -> list[str]:
    """Locations of all objects in a folder of the store.

    :raises StoreUnavailable: if the store cannot be read
    """
    with _store_errors():
        filesystem, path = file_system_of(object_url(settings, folder))
        filesystem.invalidate_cache()
        return [f"{folder}/{it.rpartition('/')[2]}" for it in filesystem.find(path)]


def modified_at(settings: Settings, location: str) -> datetime | None:
    """When an object was written; ``None`` if it no longer exists.

    :raises StoreUnavailable: if the store cannot be read
    """
    with _store_errors(), suppress(FileNotFoundError):
        filesystem, path = file_system_of(object_url(settings, location))
        at: datetime = filesystem.modified(path)
        return at if at.tzinfo else at.replace(tzinfo=UTC)
    return None


@contextmanager
def _store_errors() -> Iterator[None]:
    """:raises StoreUnavailable: in place of every error of the block"""
    try:
        yield
    except Exception as error:
        raise unavailable_store(error) from error


def _name(store_id: str) -> str:
    return f"{RECORDS}/{store_id}"


def _exists(url: str) -> bool:
    with _store_errors():
        filesystem, path = file_system_of(url)
        # A file system may keep the listing of a folder.
        filesystem.invalidate_cache()
        return bool(filesystem.exists(path))


def write_object(url: str, content: bytes) -> None:
    """Write an object to a temporary name and move it, so that readers never see half of it.

    :raises StoreUnavailable: if the store cannot be written
    """
    with _store_errors():
        filesystem, path = file_system_of(url)
        temporary = f"{path}.{uuid4().hex}{_PART}"
        if "file" in filesystem.protocol:
            private_folder(Path(path).parent)
            Path(temporary).touch(0o600)
        else:
            filesystem.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        filesystem.pipe_file(temporary, content)
        filesystem.mv(temporary, path)


def delete_object(url: str) -> None:
    """Delete an object if it exists.

    :raises StoreUnavailable: if the store cannot be written
    """
    with _store_errors():
        filesystem, path = file_system_of(url)
        with suppress(FileNotFoundError):
            filesystem.rm_file(path)


def delete_interrupted_writes(
    settings: Settings, locations: Iterable[str], latest: datetime
) -> int:
    """Delete temporary objects among these that were last written before ``latest``.

    They stay behind if the process that writes them is killed.

    :returns: number of deleted objects
    :raises StoreUnavailable: if the store cannot be written
    """
    number = 0
    for location in locations:
        if not location.endswith(_PART):
            continue
        written_at = modified_at(settings, location)
        if written_at is not None and written_at < latest:
            delete_object(object_url(settings, location))
            number += 1
    return number


def file_system_of(url: str, **options: Any) -> tuple[Any, str]:
    """The file system of a URL, and the path in that file system.

    :param options: for the file system
    :raises ImportError: if a package is not installed; the message names what to install
    """
    from fsspec.core import url_to_fs  # slow, and needed only for large documents

    try:
        filesystem, path = url_to_fs(url, **options)
    except ImportError as error:
        scheme = url.partition("://")[0]
        package = _CLIENTS.get(scheme)
        needed = f"the package {package}" if package else "the extra `server`"
        raise ImportError(f"{scheme}:// needs {needed}, which is not installed") from error
    return filesystem, path


def object_url(settings: Settings, location: str) -> str:
    """URL of an object in the document store."""
    return f"{settings.document_store_url.rstrip('/')}/{location}"


def unavailable_store(error: Exception) -> StoreUnavailable:
    """Error for an unavailable document store, without the client's message, which has the URL."""
    if isinstance(error, ImportError):
        return StoreUnavailable("the document store", str(error), "install it on this machine")
    cause = error.strerror if isinstance(error, OSError) and error.strerror else None
    return StoreUnavailable(
        "the document store",
        cause or type(error).__name__,
        "check DOCUMENT_STORE_URL and the credentials in the environment",
    )


def client_errors(*more: type[Exception]) -> tuple[type[Exception], ...]:
    """Return ``OSError``, the exception types of the installed client libraries, and ``more``."""
    errors: list[type[Exception]] = [OSError, *more]
    try:
        from botocore.exceptions import BotoCoreError, ClientError

        errors += [BotoCoreError, ClientError]
    except ImportError:
        pass
    try:
        from aiohttp import ClientError as HttpError

        errors.append(HttpError)
    except ImportError:
        pass
    return tuple(errors)
