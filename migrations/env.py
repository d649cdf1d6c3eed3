"""How alembic reaches PostgreSQL: over the connection that ``graph.migrate`` hands it."""

from __future__ import annotations

from alembic import context

from graph.tables import Base

if context.is_offline_mode():
    raise NotImplementedError("migrations run on a connection: use `thoth migrate`")


def ours(name: str | None, kind: str, _parents: object) -> bool:
    """Whether a thing is the tables' to describe; the queue brings its own."""
    return kind != "table" or name is None or not name.startswith("procrastinate_")


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    compare_type=True,
    compare_server_default=True,
    include_name=ours,
    # A step that has to wait for a lock is tried again, without those before it.
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
