"""documents, stacks and inspections"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0001'
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('documents',
    sa.Column('document_id', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('schema_version', sa.Text(), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('size_bytes', sa.BigInteger(), nullable=False),
    sa.Column('body', sa.LargeBinary(), nullable=True),
    sa.Column('location', sa.Text(), nullable=True),
    sa.Column('ingested_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.CheckConstraint('(body IS NULL) <> (location IS NULL)', name=op.f('ck_documents_body_or_location')),
    sa.PrimaryKeyConstraint('document_id', name=op.f('pk_documents'))
    )
    op.create_table('outbox',
    sa.Column('entry_id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.PrimaryKeyConstraint('entry_id', name=op.f('pk_outbox'))
    )
    op.create_table('quarantine',
    sa.Column('quarantine_id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('place', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=False),
    sa.Column('field', sa.Text(), nullable=False),
    sa.Column('message', sa.Text(), nullable=False),
    sa.Column('attempts', sa.Integer(), server_default=sa.text('1'), nullable=False),
    sa.Column('first_seen_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('last_seen_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('resolved_at', sa.DateTime(timezone=True), nullable=True),
    sa.PrimaryKeyConstraint('quarantine_id', name=op.f('pk_quarantine'))
    )
    op.create_index('ix_quarantine_open', 'quarantine', ['reason'], unique=False, postgresql_where=sa.text('resolved_at IS NULL'))
    op.create_index('uq_quarantine_source_place_field', 'quarantine', ['source', 'place', 'field'], unique=True)
    op.create_table('hardware',
    sa.Column('digest', sa.Text(), nullable=False),
    sa.Column('label', sa.Text(), nullable=False),
    sa.Column('identity', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('document_id', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['document_id'], ['documents.document_id'], name=op.f('fk_hardware_document_id')),
    sa.PrimaryKeyConstraint('digest', name=op.f('pk_hardware'))
    )
    op.create_table('indicators',
    sa.Column('indicator_id', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('component', sa.Text(), nullable=True),
    sa.Column('script_sha256', sa.Text(), nullable=True),
    sa.Column('document_id', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['document_id'], ['documents.document_id'], name=op.f('fk_indicators_document_id')),
    sa.PrimaryKeyConstraint('indicator_id', name=op.f('pk_indicators'))
    )
    op.create_table('package_versions',
    sa.Column('purl', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('version', sa.Text(), nullable=False),
    sa.Column('index_name', sa.Text(), nullable=False),
    sa.Column('document_id', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['document_id'], ['documents.document_id'], name=op.f('fk_package_versions_document_id')),
    sa.PrimaryKeyConstraint('purl', name=op.f('pk_package_versions'))
    )
    op.create_index('ix_package_versions_name', 'package_versions', ['name'], unique=False)
    op.create_table('runtime_environments',
    sa.Column('digest', sa.Text(), nullable=False),
    sa.Column('os_name', sa.Text(), nullable=True),
    sa.Column('os_version', sa.Text(), nullable=True),
    sa.Column('python_version', sa.Text(), nullable=True),
    sa.Column('cuda_version', sa.Text(), nullable=True),
    sa.Column('base_image', sa.Text(), nullable=True),
    sa.Column('native_packages', sa.ARRAY(sa.Text()), nullable=False),
    sa.Column('document_id', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['document_id'], ['documents.document_id'], name=op.f('fk_runtime_environments_document_id')),
    sa.PrimaryKeyConstraint('digest', name=op.f('pk_runtime_environments'))
    )
    op.create_table('stacks',
    sa.Column('digest', sa.Text(), nullable=False),
    sa.Column('package_count', sa.Integer(), nullable=False),
    sa.Column('document_id', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['document_id'], ['documents.document_id'], name=op.f('fk_stacks_document_id')),
    sa.PrimaryKeyConstraint('digest', name=op.f('pk_stacks'))
    )
    op.create_table('inspections',
    sa.Column('document_id', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('stack_digest', sa.Text(), nullable=True),
    sa.Column('stack_note', sa.Text(), nullable=True),
    sa.Column('job_count', sa.Integer(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['document_id'], ['documents.document_id'], name=op.f('fk_inspections_document_id')),
    sa.ForeignKeyConstraint(['stack_digest'], ['stacks.digest'], name=op.f('fk_inspections_stack_digest')),
    sa.PrimaryKeyConstraint('document_id', name=op.f('pk_inspections'))
    )
    op.create_index('ix_inspections_stack_digest', 'inspections', ['stack_digest'], unique=False)
    op.create_table('stack_packages',
    sa.Column('stack_digest', sa.Text(), nullable=False),
    sa.Column('purl', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['purl'], ['package_versions.purl'], name=op.f('fk_stack_packages_purl')),
    sa.ForeignKeyConstraint(['stack_digest'], ['stacks.digest'], name=op.f('fk_stack_packages_stack_digest')),
    sa.PrimaryKeyConstraint('stack_digest', 'purl', name=op.f('pk_stack_packages'))
    )
    op.create_index('ix_stack_packages_purl', 'stack_packages', ['purl'], unique=False)
    op.create_table('observations',
    sa.Column('observation_id', sa.Text(), nullable=False),
    sa.Column('document_id', sa.Text(), nullable=False),
    sa.Column('job_id', sa.Text(), nullable=False),
    sa.Column('position', sa.Integer(), nullable=False),
    sa.Column('outcome', sa.Text(), nullable=False),
    sa.Column('exit_code', sa.Integer(), nullable=False),
    sa.Column('indicator_id', sa.Text(), nullable=False),
    sa.Column('hardware_digest', sa.Text(), nullable=False),
    sa.Column('environment_digest', sa.Text(), nullable=False),
    sa.Column('comparison_key', sa.Text(), nullable=False),
    sa.Column('parameters', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('device', sa.Text(), nullable=True),
    sa.Column('elapsed_s', sa.Double(), nullable=True),
    sa.Column('rate', sa.Double(), nullable=True),
    sa.Column('reported_rate', sa.Double(), nullable=True),
    sa.Column('repetitions_s', sa.ARRAY(sa.Double()), nullable=False),
    sa.Column('correction', sa.Text(), nullable=True),
    sa.Column('quarantine_reason', sa.Text(), nullable=True),
    sa.Column('unstable_reason', sa.Text(), nullable=True),
    sa.Column('started_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('memory_bytes', sa.BigInteger(), nullable=True),
    sa.Column('user_s', sa.Double(), nullable=True),
    sa.Column('system_s', sa.Double(), nullable=True),
    sa.CheckConstraint("(outcome = 'measured') = (rate IS NOT NULL)", name=op.f('ck_observations_measured_has_rate')),
    sa.CheckConstraint('rate > 0', name=op.f('ck_observations_rate_positive')),
    sa.ForeignKeyConstraint(['document_id'], ['inspections.document_id'], name=op.f('fk_observations_document_id')),
    sa.ForeignKeyConstraint(['environment_digest'], ['runtime_environments.digest'], name=op.f('fk_observations_environment_digest')),
    sa.ForeignKeyConstraint(['hardware_digest'], ['hardware.digest'], name=op.f('fk_observations_hardware_digest')),
    sa.ForeignKeyConstraint(['indicator_id'], ['indicators.indicator_id'], name=op.f('fk_observations_indicator_id')),
    sa.PrimaryKeyConstraint('observation_id', name=op.f('pk_observations'))
    )
    op.create_index('ix_observations_comparison_key', 'observations', ['comparison_key'], unique=False)
    op.create_index('ix_observations_document_id', 'observations', ['document_id'], unique=False)
    # Bodies come compressed: PostgreSQL need not try again.
    op.execute("ALTER TABLE documents ALTER COLUMN body SET STORAGE EXTERNAL")


def downgrade() -> None:
    op.drop_index('ix_observations_document_id', table_name='observations')
    op.drop_index('ix_observations_comparison_key', table_name='observations')
    op.drop_table('observations')
    op.drop_index('ix_stack_packages_purl', table_name='stack_packages')
    op.drop_table('stack_packages')
    op.drop_index('ix_inspections_stack_digest', table_name='inspections')
    op.drop_table('inspections')
    op.drop_table('stacks')
    op.drop_table('runtime_environments')
    op.drop_index('ix_package_versions_name', table_name='package_versions')
    op.drop_table('package_versions')
    op.drop_table('indicators')
    op.drop_table('hardware')
    op.drop_index('uq_quarantine_source_place_field', table_name='quarantine')
    op.drop_index('ix_quarantine_open', table_name='quarantine', postgresql_where=sa.text('resolved_at IS NULL'))
    op.drop_table('quarantine')
    op.drop_table('outbox')
    op.drop_table('documents')
