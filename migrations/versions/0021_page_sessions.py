"""sessions of the web pages"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0021'
down_revision = '0020'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'page_sessions',
        sa.Column('digest', sa.Text(), nullable=False),
        sa.Column('token_id', sa.Text(), nullable=False),
        sa.Column('expires_at', sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(['token_id'], ['tokens.token_id']),
        sa.PrimaryKeyConstraint('digest'),
    )


def downgrade() -> None:
    op.drop_table('page_sessions')
