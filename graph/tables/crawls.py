"""What is known of indexes themselves: projects on them, what is watched, what waits to be read."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ARRAY, CheckConstraint, Index, Text, func, text
from sqlalchemy.orm import Mapped, mapped_column

from graph.tables.base import Base


class IndexProject(Base):
    """A project as an index last answered for it."""

    __tablename__ = "index_projects"
    __table_args__ = (
        CheckConstraint("state IN ('known', 'missing', 'failed')", name="state_known"),
        Index("ix_index_projects_asked_at", "asked_at"),
    )

    index_name: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[str]
    #: Why it failed: a code, and the same for a person.
    problem: Mapped[str | None]
    message: Mapped[str | None]
    #: Digest of the page that was read last.
    page_digest: Mapped[str | None]
    #: Every version on that page, normalised.
    listed: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'"))
    #: When the index last answered; ``None`` if it never did.
    as_of: Mapped[datetime | None]
    #: When it was last asked.
    asked_at: Mapped[datetime]


class WatchedPackage(Base):
    """A package whose releases are followed, with the bounds that it was added with."""

    __tablename__ = "watched_packages"

    index_name: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    max_versions: Mapped[int | None]
    newer_than: Mapped[datetime | None]
    #: Whose requirements are followed as well.
    extras: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'"))
    #: Whether pre-releases are read although there are others.
    prereleases: Mapped[bool] = mapped_column(server_default=text("false"))
    added_at: Mapped[datetime] = mapped_column(server_default=func.now())


class QueuedRelease(Base):
    """A release whose metadata is to be read; deleted in the transaction that stores it."""

    __tablename__ = "release_queue"
    __table_args__ = (Index("ix_release_queue_retry_at", "retry_at"),)

    index_name: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[str] = mapped_column(primary_key=True)
    queued_at: Mapped[datetime] = mapped_column(server_default=func.now())
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    retry_at: Mapped[datetime] = mapped_column(server_default=func.now())
    problem: Mapped[str | None]
    message: Mapped[str | None]
    #: Set when it was tried often enough; only a person's request tries again.
    given_up_at: Mapped[datetime | None]
