"""the previous secret of a rotated token"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0026'
down_revision = '0025'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('tokens', sa.Column('previous_digest', sa.Text(), nullable=True))
    op.add_column('tokens', sa.Column('previous_until', sa.DateTime(timezone=True), nullable=True))
    op.create_unique_constraint(
        op.f('uq_tokens_previous_digest'), 'tokens', ['previous_digest']
    )


def downgrade() -> None:
    op.drop_constraint(op.f('uq_tokens_previous_digest'), 'tokens', type_='unique')
    op.drop_column('tokens', 'previous_until')
    op.drop_column('tokens', 'previous_digest')
