"""advice in the graph"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0005'
down_revision = '0004'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('advice', sa.Column('python_version', sa.Text(), nullable=True))
    op.add_column('advice', sa.Column('platform', sa.Text(), nullable=True))
    op.create_table('advised_stacks',
    sa.Column('advice_id', sa.Text(), nullable=False),
    sa.Column('rank', sa.Integer(), autoincrement=False, nullable=False),
    sa.Column('stack_digest', sa.Text(), nullable=False),
    sa.Column('score', sa.Double(), nullable=False),
    sa.ForeignKeyConstraint(['advice_id'], ['advice.advice_id'], name=op.f('fk_advised_stacks_advice_id')),
    sa.ForeignKeyConstraint(['stack_digest'], ['stacks.digest'], name=op.f('fk_advised_stacks_stack_digest')),
    sa.PrimaryKeyConstraint('advice_id', 'rank', name=op.f('pk_advised_stacks'))
    )
    op.create_table('advice_observations',
    sa.Column('advice_id', sa.Text(), nullable=False),
    sa.Column('observation_id', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['advice_id'], ['advice.advice_id'], name=op.f('fk_advice_observations_advice_id')),
    sa.ForeignKeyConstraint(['observation_id'], ['observations.observation_id'], name=op.f('fk_advice_observations_observation_id')),
    sa.PrimaryKeyConstraint('advice_id', 'observation_id', name=op.f('pk_advice_observations'))
    )
    # What was advised before becomes a node too; what it was tied to was only in its report.
    op.execute("INSERT INTO outbox (kind, key) SELECT 'advice', advice_id FROM advice ORDER BY advice_id")


def downgrade() -> None:
    op.execute("DELETE FROM outbox WHERE kind = 'advice'")
    op.drop_table('advice_observations')
    op.drop_table('advised_stacks')
    op.drop_column('advice', 'platform')
    op.drop_column('advice', 'python_version')
