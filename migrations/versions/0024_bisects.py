"""searches of thoth bisect"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0024'
down_revision = '0023'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'bisects',
        sa.Column('bisect_id', sa.Text(), nullable=False),
        sa.Column('subjects', sa.ARRAY(sa.Text()), nullable=False),
        sa.Column('packages', sa.ARRAY(sa.Text()), nullable=False),
        sa.Column('indicator', sa.Text(), nullable=False),
        sa.Column('parameters', postgresql.JSONB(), nullable=False),
        sa.Column('others', sa.ARRAY(sa.Text()), nullable=False),
        sa.Column('python_version', sa.Text(), nullable=True),
        sa.Column('index_name', sa.Text(), nullable=False),
        sa.Column('hardware_digest', sa.Text(), nullable=False),
        sa.Column('hardware_label', sa.Text(), nullable=False),
        sa.Column('command', sa.Text(), nullable=False),
        sa.Column('state', sa.Text(), nullable=False),
        sa.Column('reason', sa.Text(), nullable=True),
        sa.Column('jobs', sa.Integer(), nullable=False),
        sa.Column('max_jobs', sa.Integer(), nullable=False),
        sa.Column('searches', postgresql.JSONB(), nullable=False),
        sa.Column('started_at', sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            'updated_at', sa.DateTime(timezone=True), server_default=sa.text('now()'),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint('bisect_id'),
    )
    op.create_index('ix_bisects_started_at', 'bisects', ['started_at', 'bisect_id'])
    op.create_index('ix_bisects_packages', 'bisects', ['packages'], postgresql_using='gin')


def downgrade() -> None:
    op.drop_table('bisects')
