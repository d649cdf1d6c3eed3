"""watches and the nightly loop"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0014'
down_revision = '0013'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('watches',
    sa.Column('watch_id', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('weight', sa.Double(), nullable=False),
    sa.Column('enabled', sa.Boolean(), server_default=sa.text('true'), nullable=False),
    sa.Column('request', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('closure', sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=True),
    sa.Column('measured_jobs', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('planned_jobs', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('advice_id', sa.Text(), nullable=True),
    sa.Column('versions', postgresql.JSONB(astext_type=sa.Text()), nullable=True),
    sa.Column('added_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('state_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.PrimaryKeyConstraint('watch_id', name=op.f('pk_watches'))
    )
    op.create_table('loop_releases',
    sa.Column('index_name', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('version', sa.Text(), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=True),
    sa.Column('measured_jobs', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('planned_jobs', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('nights', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('seen_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('state_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.PrimaryKeyConstraint('index_name', 'name', 'version', name=op.f('pk_loop_releases'))
    )
    op.create_index('ix_loop_releases_state', 'loop_releases', ['state', 'seen_at'], unique=False)
    op.create_table('loop_nights',
    sa.Column('night', sa.Integer(), nullable=False),
    sa.Column('open', sa.Boolean(), server_default=sa.text('true'), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=True),
    sa.Column('began_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True),
    sa.PrimaryKeyConstraint('night', name=op.f('pk_loop_nights'))
    )
    op.create_index('uq_loop_nights_open', 'loop_nights', ['open'], unique=True, postgresql_where=sa.text('open'))
    op.create_table('loop_steps',
    sa.Column('night', sa.Integer(), nullable=False),
    sa.Column('step', sa.Text(), nullable=False),
    sa.Column('attempts', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('finished', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('reason', sa.Text(), nullable=True),
    sa.Column('output', postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
    sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['night'], ['loop_nights.night'], name=op.f('fk_loop_steps_night')),
    sa.PrimaryKeyConstraint('night', 'step', name=op.f('pk_loop_steps'))
    )
    op.create_table('loop_batches',
    sa.Column('batch_id', sa.Text(), nullable=False),
    sa.Column('night', sa.Integer(), nullable=False),
    sa.Column('watch_id', sa.Text(), nullable=False),
    sa.Column('stacks', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('indicator', sa.Text(), nullable=False),
    sa.Column('blocks', sa.Integer(), nullable=False),
    sa.Column('jobs', sa.Integer(), nullable=False),
    sa.Column('measured_jobs', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=True),
    sa.Column('attempts', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('report', postgresql.JSONB(astext_type=sa.Text()), nullable=True),
    sa.Column('state_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.ForeignKeyConstraint(['night'], ['loop_nights.night'], name=op.f('fk_loop_batches_night')),
    sa.ForeignKeyConstraint(['watch_id'], ['watches.watch_id'], name=op.f('fk_loop_batches_watch_id')),
    sa.PrimaryKeyConstraint('batch_id', name=op.f('pk_loop_batches'))
    )
    op.create_index('ix_loop_batches_state', 'loop_batches', ['state'], unique=False)


def downgrade() -> None:
    for table in ('loop_batches', 'loop_steps', 'loop_nights', 'loop_releases', 'watches'):
        op.drop_table(table)
