"""service"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0006'
down_revision = '0005'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        'ix_artifacts_imports', 'artifacts', ['imports'], unique=False, postgresql_using='gin'
    )
    op.create_index(
        'ix_documents_knowledge', 'documents', ['ingested_at'], unique=False,
        postgresql_where=sa.text("kind IN ('inspection', 'release', 'advisory', 'analysis')"),
    )
    op.create_index(
        'ix_documents_inspections', 'documents', ['ingested_at', 'document_id'], unique=False,
        postgresql_where=sa.text("kind = 'inspection'"),
    )
    op.create_index(
        'ix_observations_hardware_digest', 'observations', ['hardware_digest', 'observation_id'],
        unique=False,
    )
    op.create_index(
        'ix_observations_indicator_id', 'observations', ['indicator_id', 'observation_id'],
        unique=False,
    )
    op.create_index(
        'ix_advised_stacks_stack_digest', 'advised_stacks', ['stack_digest'], unique=False
    )
    op.create_index(
        'ix_vulnerabilities_aliases', 'vulnerabilities', ['aliases'], unique=False,
        postgresql_using='gin',
    )
    op.create_table('audit_log',
    sa.Column('entry_id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('request_id', sa.Text(), nullable=False),
    sa.Column('token_id', sa.Text(), nullable=True),
    sa.Column('address', sa.Text(), nullable=False),
    sa.Column('method', sa.Text(), nullable=False),
    sa.Column('route', sa.Text(), nullable=False),
    sa.Column('status', sa.Integer(), nullable=False),
    sa.Column('subject', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('entry_id', name=op.f('pk_audit_log'))
    )
    op.create_index('ix_audit_log_at', 'audit_log', ['at'], unique=False)
    op.create_table('tokens',
    sa.Column('token_id', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('prefix', sa.Text(), nullable=False),
    sa.Column('digest', sa.Text(), nullable=False),
    sa.Column('scopes', sa.ARRAY(sa.Text()), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('expires_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('revoked_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('last_used_at', sa.DateTime(timezone=True), nullable=True),
    sa.PrimaryKeyConstraint('token_id', name=op.f('pk_tokens')),
    sa.UniqueConstraint('digest', name=op.f('uq_tokens_digest'))
    )
    op.create_table('analyses',
    sa.Column('analysis_id', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), server_default=sa.text("'pending'"), nullable=False),
    sa.Column('reason', sa.Text(), nullable=True),
    sa.Column('parameters', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('request_document_id', sa.Text(), nullable=False),
    sa.Column('result_document_id', sa.Text(), nullable=True),
    sa.Column('cache_key', sa.Text(), nullable=False),
    sa.Column('log', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('token_id', sa.Text(), nullable=True),
    sa.Column('accepted_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('started_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('finished_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('attempts', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.CheckConstraint("state IN ('pending', 'running', 'succeeded', 'failed', 'error')", name=op.f('ck_analyses_state_known')),
    sa.ForeignKeyConstraint(['request_document_id'], ['documents.document_id'], name=op.f('fk_analyses_request_document_id')),
    sa.ForeignKeyConstraint(['result_document_id'], ['documents.document_id'], name=op.f('fk_analyses_result_document_id')),
    sa.ForeignKeyConstraint(['token_id'], ['tokens.token_id'], name=op.f('fk_analyses_token_id')),
    sa.PrimaryKeyConstraint('analysis_id', name=op.f('pk_analyses'))
    )
    op.create_index('ix_analyses_accepted_at', 'analyses', ['kind', 'accepted_at', 'analysis_id'], unique=False)
    op.create_index('ix_analyses_cache_key', 'analyses', ['kind', 'cache_key', 'accepted_at'], unique=False)


def downgrade() -> None:
    op.drop_index('ix_analyses_cache_key', table_name='analyses')
    op.drop_index('ix_analyses_accepted_at', table_name='analyses')
    op.drop_table('analyses')
    op.drop_table('tokens')
    op.drop_index('ix_audit_log_at', table_name='audit_log')
    op.drop_table('audit_log')
    op.drop_index('ix_vulnerabilities_aliases', table_name='vulnerabilities')
    op.drop_index('ix_advised_stacks_stack_digest', table_name='advised_stacks')
    op.drop_index('ix_observations_indicator_id', table_name='observations')
    op.drop_index('ix_observations_hardware_digest', table_name='observations')
    op.drop_index('ix_documents_inspections', table_name='documents')
    op.drop_index('ix_artifacts_imports', table_name='artifacts')
    op.drop_index('ix_documents_knowledge', table_name='documents')
