"""how often the comparison of a release was judged"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0020'
down_revision = '0019'
branch_labels = None
depends_on = None

_COLUMNS = ('looks', 'look_jobs')


def upgrade() -> None:
    for name in _COLUMNS:
        column = sa.Column(name, sa.Integer(), server_default=sa.text('0'), nullable=False)
        op.add_column('loop_releases', column)


def downgrade() -> None:
    for name in _COLUMNS:
        op.drop_column('loop_releases', name)
