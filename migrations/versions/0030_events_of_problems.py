"""the last event of a problem by its subject"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.large_tables import create_index

revision = '0030'
down_revision = '0029'
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index(
        'ix_events_problems',
        'events',
        ['subject', 'event_id'],
        postgresql_where=sa.text("kind IN ('night.failed', 'disk.full', 'problem.solved')"),
    )


def downgrade() -> None:
    op.drop_index('ix_events_problems', table_name='events')
