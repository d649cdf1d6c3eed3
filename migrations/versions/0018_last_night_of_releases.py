"""the last night that worked on a release"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0018'
down_revision = '0017'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('loop_releases', sa.Column('last_night', sa.Integer(), nullable=True))


def downgrade() -> None:
    op.drop_column('loop_releases', 'last_night')
