"""scores of past advice"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0017'
down_revision = '0016'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('advice_scores',
    sa.Column('number', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('advice_id', sa.Text(), nullable=False),
    sa.Column('advised_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('knowledge', sa.Text(), nullable=False),
    sa.Column('outcome', sa.Text(), nullable=False),
    sa.Column('regret_points', sa.Double(), nullable=True),
    sa.Column('regret_pct', sa.Double(), nullable=True),
    sa.Column('claims', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('scored_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.PrimaryKeyConstraint('number', name=op.f('pk_advice_scores'))
    )
    op.create_index('uq_advice_scores_advice_id_knowledge', 'advice_scores', ['advice_id', 'knowledge'], unique=True)


def downgrade() -> None:
    op.drop_index('uq_advice_scores_advice_id_knowledge', table_name='advice_scores')
    op.drop_table('advice_scores')
