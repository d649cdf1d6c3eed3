"""claims and requests"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0010'
down_revision = '0009'
branch_labels = None
depends_on = None

#: What a job used and what the machine did meanwhile.
_OF_OBSERVATIONS = (
    ('spread', sa.Double()),
    ('minor_faults', sa.BigInteger()),
    ('major_faults', sa.BigInteger()),
    ('voluntary_switches', sa.BigInteger()),
    ('involuntary_switches', sa.BigInteger()),
    ('blocks_read', sa.BigInteger()),
    ('blocks_written', sa.BigInteger()),
    ('throttled', sa.Boolean()),
    ('swapped', sa.Boolean()),
    ('load', sa.Double()),
    ('launcher', sa.Text()),
    ('threads', sa.Integer()),
    ('blas', sa.Text()),
)
#: Kinds of the outbox, with the table and the column of their keys.
_PROJECTED = (
    ('package', 'packages', 'name'),
    ('vulnerability', 'vulnerabilities', 'vulnerability_id'),
    ('package_version', 'package_versions', 'purl'),
    ('native_interface', 'native_interfaces', 'interface'),
    ('artifact', 'artifacts', 'sha256'),
    ('native_environment', 'native_environments', 'digest'),
    ('stack', 'stacks', 'digest'),
    ('hardware', 'hardware', 'digest'),
    ('runtime_environment', 'runtime_environments', 'digest'),
    ('indicator', 'indicators', 'indicator_id'),
    ('inspection', 'inspections', 'document_id'),
    ('advice', 'advice', 'advice_id'),
)


def upgrade() -> None:
    op.add_column('documents', sa.Column('collector', sa.Text(), nullable=True))
    for name, kind in _OF_OBSERVATIONS:
        op.add_column('observations', sa.Column(name, kind, nullable=True))
    op.create_table('requests',
    sa.Column('document_id', sa.Text(), nullable=False),
    sa.Column('recommendation_type', sa.Text(), nullable=False),
    sa.Column('python_version', sa.Text(), nullable=True),
    sa.Column('platform', sa.Text(), nullable=True),
    sa.Column('hardware_digest', sa.Text(), nullable=True),
    sa.Column('requirements', postgresql.ARRAY(sa.Text()), nullable=False),
    sa.Column('packages', postgresql.ARRAY(sa.Text()), nullable=False),
    sa.Column('stack_count', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['document_id'], ['documents.document_id'], name=op.f('fk_requests_document_id')),
    sa.PrimaryKeyConstraint('document_id', name=op.f('pk_requests'))
    )
    op.create_table('claims',
    sa.Column('claim_id', sa.Text(), nullable=False),
    sa.Column('package', sa.Text(), nullable=True),
    sa.Column('stack_digest', sa.Text(), nullable=False),
    sa.Column('baseline_digest', sa.Text(), nullable=False),
    sa.Column('indicator', sa.Text(), nullable=False),
    sa.Column('parameters', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('device', sa.Text(), nullable=True),
    sa.Column('unit', sa.Text(), nullable=False),
    sa.Column('comparison_key', sa.Text(), nullable=False),
    sa.Column('hardware_digest', sa.Text(), nullable=False),
    sa.Column('python_version', sa.Text(), nullable=True),
    sa.Column('same_hardware', sa.Boolean(), nullable=False),
    sa.Column('same_python', sa.Boolean(), nullable=False),
    sa.Column('verdict', sa.Text(), nullable=False),
    sa.Column('effect_pct', sa.Double(), nullable=True),
    sa.Column('observed_pct', sa.Double(), nullable=True),
    sa.Column('interval_low_pct', sa.Double(), nullable=True),
    sa.Column('interval_high_pct', sa.Double(), nullable=True),
    sa.Column('delta_pct', sa.Double(), nullable=False),
    sa.Column('p_value', sa.Double(), nullable=True),
    sa.Column('method', sa.Text(), nullable=False),
    sa.Column('jobs', sa.Integer(), nullable=False),
    sa.Column('baseline_jobs', sa.Integer(), nullable=False),
    sa.Column('runs', sa.Integer(), nullable=False),
    sa.Column('baseline_runs', sa.Integer(), nullable=False),
    sa.Column('pairs', sa.Integer(), nullable=False),
    sa.Column('hosts', sa.Integer(), nullable=True),
    sa.Column('needs', sa.Text(), nullable=True),
    sa.Column('jobs_missing', sa.Integer(), nullable=False),
    sa.Column('baseline_jobs_missing', sa.Integer(), nullable=False),
    sa.Column('scored', sa.Boolean(), nullable=False),
    sa.Column('as_of', sa.DateTime(timezone=True), nullable=True),
    sa.Column('document_id', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['baseline_digest'], ['stacks.digest'], name=op.f('fk_claims_baseline_digest')),
    sa.ForeignKeyConstraint(['document_id'], ['documents.document_id'], name=op.f('fk_claims_document_id')),
    sa.ForeignKeyConstraint(['stack_digest'], ['stacks.digest'], name=op.f('fk_claims_stack_digest')),
    sa.PrimaryKeyConstraint('claim_id', name=op.f('pk_claims'))
    )
    op.create_index('ix_claims_document_id', 'claims', ['document_id'], unique=False, postgresql_using='hash')
    op.create_index('ix_claims_stack_digest', 'claims', ['stack_digest'], unique=False)
    op.create_table('claim_packages',
    sa.Column('claim_id', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('version', sa.Text(), nullable=True),
    sa.Column('index_name', sa.Text(), nullable=True),
    sa.Column('version_key', sa.Text(), nullable=True),
    sa.Column('baseline_version', sa.Text(), nullable=True),
    sa.Column('baseline_index_name', sa.Text(), nullable=True),
    sa.Column('baseline_version_key', sa.Text(), nullable=True),
    sa.ForeignKeyConstraint(['claim_id'], ['claims.claim_id'], name=op.f('fk_claim_packages_claim_id')),
    sa.PrimaryKeyConstraint('claim_id', 'name', name=op.f('pk_claim_packages'))
    )
    op.create_table('advice_claims',
    sa.Column('advice_id', sa.Text(), nullable=False),
    sa.Column('claim_id', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['advice_id'], ['advice.advice_id'], name=op.f('fk_advice_claims_advice_id')),
    sa.ForeignKeyConstraint(['claim_id'], ['claims.claim_id'], name=op.f('fk_advice_claims_claim_id')),
    sa.PrimaryKeyConstraint('advice_id', 'claim_id', name=op.f('pk_advice_claims'))
    )
    op.create_index('ix_advice_claims_claim_id', 'advice_claims', ['claim_id'], unique=False)
    _rebuild_the_graph()


def _rebuild_the_graph() -> None:
    """Nodes that are there lack the new properties; a new store has nothing to rebuild."""
    op.execute("DELETE FROM outbox")
    op.execute("INSERT INTO outbox (kind, key) SELECT 'rebuild', '' WHERE EXISTS (SELECT FROM documents)")
    for kind, table, key in _PROJECTED:
        op.execute(f"INSERT INTO outbox (kind, key) SELECT '{kind}', {key} FROM {table}")


def downgrade() -> None:
    op.execute("DELETE FROM outbox WHERE kind IN ('claim', 'request')")
    for table in ('advice_claims', 'claim_packages', 'claims', 'requests'):
        op.drop_table(table)
    for name, _ in reversed(_OF_OBSERVATIONS):
        op.drop_column('observations', name)
    op.drop_column('documents', 'collector')
