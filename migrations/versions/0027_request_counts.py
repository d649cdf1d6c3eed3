"""requests by client, counted by all processes together"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0027'
down_revision = '0026'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'request_counts',
        sa.Column('key', sa.Text(), nullable=False),
        sa.Column('requests', sa.BigInteger(), nullable=False),
        sa.Column('ends_at', sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint('key', name=op.f('pk_request_counts')),
        # Free space keeps a row that is updated all the time on its page.
        postgresql_with={'fillfactor': 50},
        prefixes=['UNLOGGED'],
    )


def downgrade() -> None:
    op.drop_table('request_counts')
