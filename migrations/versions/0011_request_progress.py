"""request progress"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0011'
down_revision = '0010'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        'analyses', sa.Column('progress', postgresql.JSONB(astext_type=sa.Text()), nullable=True)
    )
    # No worker takes jobs from this queue any more.
    op.execute("DELETE FROM procrastinate_jobs WHERE queue_name = 'fetches' AND status = 'todo'")


def downgrade() -> None:
    op.drop_column('analyses', 'progress')
