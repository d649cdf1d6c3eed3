"""How much is asked of an index, and how much was."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is asked of an index, and how long it is waited for.

    :param silence_s: between two pieces of an answer
    :param deadline_s: for one attempt from its beginning to the last byte; after twice this
        none is begun
    :param pause_s: the first pause before a repetition is at most this long, further ones
        twice, four times …
    :param archive_bytes: of a file that is read whole for its metadata
    :param file_bytes: of a file that is wanted for itself
    """

    connections: int = 4
    attempts: int = 4
    redirects: int = 5
    connect_s: float = 10.0
    silence_s: float = 20.0
    deadline_s: float = 60.0
    pause_s: float = 1.0
    page_bytes: int = 64 << 20
    metadata_bytes: int = 4 << 20
    archive_bytes: int = 64 << 20
    file_bytes: int = 4 << 30
    download_s: float = 3600.0


@dataclass(slots=True)
class Traffic:
    """What was exchanged with the index so far.

    :param requests: sent, repeated ones and redirects included
    :param retries: attempts after a first one that failed
    :param revalidated: pages that the index confirmed without sending them
    :param from_cache: pages and metadata for which nothing was asked
    :param bytes_received: of bodies, as they were transferred
    """

    requests: int = 0
    retries: int = 0
    revalidated: int = 0
    from_cache: int = 0
    bytes_received: int = 0
