"""the start of the machine and the installation of the environment of each observation"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0035'
down_revision = '0034'
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ('boot', 'build'):
        op.add_column('observations', sa.Column(name, sa.Text(), nullable=True))


def downgrade() -> None:
    for name in ('boot', 'build'):
        op.drop_column('observations', name)
