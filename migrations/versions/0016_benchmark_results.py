"""results of other benchmark systems"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0016'
down_revision = '0015'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('benchmark_entries',
    sa.Column('entry_id', sa.Text(), nullable=False),
    sa.Column('system', sa.Text(), nullable=False),
    sa.Column('origin', sa.Text(), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('hardware', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('accelerators', sa.Integer(), nullable=True),
    sa.Column('software', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('measured_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('files', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('ingested_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.PrimaryKeyConstraint('entry_id', name=op.f('pk_benchmark_entries'))
    )
    op.create_index('ix_benchmark_entries_system', 'benchmark_entries', ['system'], unique=False)
    op.create_table('benchmark_results',
    sa.Column('entry_id', sa.Text(), nullable=False),
    sa.Column('position', sa.Integer(), nullable=False),
    sa.Column('benchmark', sa.Text(), nullable=False),
    sa.Column('parameters', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('metric', sa.Text(), nullable=False),
    sa.Column('unit', sa.Text(), nullable=False),
    sa.Column('direction', sa.Text(), nullable=False),
    sa.Column('definition', sa.Text(), nullable=False),
    sa.Column('value', sa.Double(), nullable=True),
    sa.Column('samples', sa.ARRAY(sa.Double()), nullable=False),
    sa.Column('aggregate', sa.Text(), nullable=False),
    sa.Column('validity', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=True),
    sa.CheckConstraint("validity <> 'valid' OR value IS NOT NULL", name=op.f('ck_benchmark_results_valid_has_value')),
    sa.ForeignKeyConstraint(['entry_id'], ['benchmark_entries.entry_id'], name=op.f('fk_benchmark_results_entry_id')),
    sa.PrimaryKeyConstraint('entry_id', 'position', name=op.f('pk_benchmark_results'))
    )
    op.create_index('ix_benchmark_results_benchmark', 'benchmark_results', [sa.text('lower(benchmark)'), 'metric'], unique=False)
    op.create_index('ix_benchmark_results_metric', 'benchmark_results', ['metric'], unique=False)


def downgrade() -> None:
    op.drop_table('benchmark_results')
    op.drop_table('benchmark_entries')
