"""the resolution of the clock of each observation"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0033'
down_revision = '0032'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('observations', sa.Column('tick_share', sa.Double(), nullable=True))


def downgrade() -> None:
    op.drop_column('observations', 'tick_share')
