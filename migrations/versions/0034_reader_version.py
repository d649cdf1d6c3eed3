"""the version of the readers of other benchmark systems"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0034'
down_revision = '0033'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        'benchmark_entries',
        sa.Column('reader_version', sa.Integer(), server_default=sa.text('0'), nullable=False),
    )


def downgrade() -> None:
    op.drop_column('benchmark_entries', 'reader_version')
