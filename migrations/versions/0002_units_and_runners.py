"""units and runners"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('observations', sa.Column('unit', sa.Text(), nullable=True))
    op.add_column('observations', sa.Column('failure_reason', sa.Text(), nullable=True))
    op.add_column('observations', sa.Column('failure_message', sa.Text(), nullable=True))
    op.add_column('observations', sa.Column('host', sa.Text(), nullable=True))
    op.add_column('observations', sa.Column('block', sa.Text(), nullable=True))
    op.add_column('observations', sa.Column('turn', sa.Integer(), nullable=True))
    op.add_column('observations', sa.Column('steal_share', sa.Double(), nullable=True))
    # No other unit could be recorded so far; the graph's step 0003 does the same there.
    op.execute("UPDATE observations SET unit = 'FLOP/s' WHERE rate IS NOT NULL")
    op.create_check_constraint(
        op.f('ck_observations_rate_has_unit'), 'observations', '(rate IS NULL) = (unit IS NULL)'
    )


def downgrade() -> None:
    op.drop_constraint(op.f('ck_observations_rate_has_unit'), 'observations')
    op.drop_column('observations', 'steal_share')
    op.drop_column('observations', 'turn')
    op.drop_column('observations', 'block')
    op.drop_column('observations', 'host')
    op.drop_column('observations', 'failure_message')
    op.drop_column('observations', 'failure_reason')
    op.drop_column('observations', 'unit')
