"""changes of performance"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0015'
down_revision = '0014'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('changes',
    sa.Column('number', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('change_id', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('event', sa.Text(), nullable=False),
    sa.Column('refers_to', sa.Text(), nullable=True),
    sa.Column('package', sa.Text(), nullable=True),
    sa.Column('host', sa.Text(), nullable=True),
    sa.Column('from_version', sa.Text(), nullable=False),
    sa.Column('to_version', sa.Text(), nullable=False),
    sa.Column('from_stack', sa.Text(), nullable=False),
    sa.Column('to_stack', sa.Text(), nullable=False),
    sa.Column('indicator', sa.Text(), nullable=False),
    sa.Column('parameters', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('device', sa.Text(), nullable=True),
    sa.Column('comparison_key', sa.Text(), nullable=False),
    sa.Column('python_version', sa.Text(), nullable=True),
    sa.Column('hardware_digest', sa.Text(), nullable=False),
    sa.Column('hardware_label', sa.Text(), nullable=False),
    sa.Column('verdict', sa.Text(), nullable=False),
    sa.Column('effect_pct', sa.Double(), nullable=False),
    sa.Column('observed_pct', sa.Double(), nullable=False),
    sa.Column('interval_low_pct', sa.Double(), nullable=False),
    sa.Column('interval_high_pct', sa.Double(), nullable=False),
    sa.Column('delta_pct', sa.Double(), nullable=False),
    sa.Column('jobs', sa.Integer(), nullable=False),
    sa.Column('baseline_jobs', sa.Integer(), nullable=False),
    sa.Column('comparisons', sa.Integer(), nullable=False),
    sa.Column('look', sa.Integer(), nullable=False),
    sa.Column('seen_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('rule', sa.Text(), nullable=False),
    sa.Column('recorded_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.CheckConstraint("(event = 'announced') = (refers_to IS NULL)", name=op.f('ck_changes_refers')),
    sa.ForeignKeyConstraint(['refers_to'], ['changes.change_id'], name=op.f('fk_changes_refers_to_changes')),
    sa.PrimaryKeyConstraint('number', name=op.f('pk_changes')),
    sa.UniqueConstraint('change_id', name=op.f('uq_changes_change_id'))
    )
    op.create_index('ix_changes_package', 'changes', ['package'], unique=False)
    op.create_index('ix_changes_recorded_at', 'changes', ['recorded_at'], unique=False)
    op.create_index('ix_changes_refers_to', 'changes', ['refers_to'], unique=False)
    op.create_table('change_looks',
    sa.Column('change_id', sa.Text(), nullable=False),
    sa.Column('looks', sa.Integer(), nullable=False),
    sa.Column('jobs', sa.Integer(), nullable=False),
    sa.PrimaryKeyConstraint('change_id', name=op.f('pk_change_looks'))
    )


def downgrade() -> None:
    op.drop_table('change_looks')
    op.drop_table('changes')
