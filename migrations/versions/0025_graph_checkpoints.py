"""the last batches that were projected to the graph"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0025'
down_revision = '0024'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'graph_checkpoints',
        sa.Column('only_row', sa.Boolean(), server_default=sa.text('true'), nullable=False),
        sa.Column('previous', sa.Text(), nullable=True),
        sa.Column('batch', sa.Text(), nullable=True),
        sa.CheckConstraint('only_row', name='one_row'),
        sa.PrimaryKeyConstraint('only_row'),
    )
    # The first batch gives both stores a name.
    op.execute('INSERT INTO graph_checkpoints DEFAULT VALUES')


def downgrade() -> None:
    op.drop_table('graph_checkpoints')
