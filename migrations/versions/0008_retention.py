"""retention"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0008'
down_revision = '0007'
branch_labels = None
depends_on = None

#: Tables that name documents and grow: one that is deleted is looked for in each of them.
_NAMING = (
    ('ix_analyses_request_document_id', 'analyses', 'request_document_id'),
    ('ix_analyses_result_document_id', 'analyses', 'result_document_id'),
    ('ix_advice_request_document_id', 'advice', 'request_document_id'),
    ('ix_advice_snapshot_document_id', 'advice', 'snapshot_document_id'),
    ('ix_advice_evidence_document_id', 'advice', 'evidence_document_id'),
    ('ix_advice_files_document_id', 'advice', 'files_document_id'),
    ('ix_advice_report_document_id', 'advice', 'report_document_id'),
    ('ix_package_versions_document_id', 'package_versions', 'document_id'),
    ('ix_package_versions_release', 'package_versions', 'release_document_id'),
    ('ix_stacks_document_id', 'stacks', 'document_id'),
    ('ix_packages_document_id', 'packages', 'document_id'),
    ('ix_vulnerabilities_document_id', 'vulnerabilities', 'document_id'),
    ('ix_advisories_document_id', 'advisories', 'document_id'),
    ('ix_native_interfaces_document_id', 'native_interfaces', 'document_id'),
    ('ix_artifacts_document_id', 'artifacts', 'document_id'),
)
#: Deferred, so that the row is locked for no longer than a commit takes; once a transaction.
_COUNT = """
CREATE FUNCTION count_knowledge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('thoth.counted', true) IS DISTINCT FROM pg_current_xact_id()::text THEN
        UPDATE knowledge SET changes = changes + 1;
        PERFORM set_config('thoth.counted', pg_current_xact_id()::text, true);
    END IF;
    RETURN NULL;
END $$
"""
_TRIGGERS = {
    'documents': """
        CREATE CONSTRAINT TRIGGER knowledge_changed AFTER INSERT ON documents
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
        WHEN (NEW.kind IN ('inspection', 'release', 'advisory', 'analysis'))
        EXECUTE FUNCTION count_knowledge()
    """,
    'index_projects': """
        CREATE CONSTRAINT TRIGGER knowledge_changed AFTER INSERT OR UPDATE ON index_projects
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION count_knowledge()
    """,
    'advisory_sources': """
        CREATE CONSTRAINT TRIGGER knowledge_changed AFTER INSERT OR UPDATE ON advisory_sources
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION count_knowledge()
    """,
}


def upgrade() -> None:
    op.add_column('analyses', sa.Column('postponed_at', sa.DateTime(timezone=True), nullable=True))
    op.add_column('analyses', sa.Column('as_of', sa.DateTime(timezone=True), nullable=True))
    op.add_column('analyses', sa.Column('graph_revision', sa.BigInteger(), nullable=True))
    op.create_index(
        'ix_analyses_open', 'analyses', ['accepted_at'], unique=False,
        postgresql_where=sa.text("state IN ('pending', 'running')"),
    )
    op.create_index('ix_analyses_finished_at', 'analyses', ['finished_at'], unique=False)
    op.create_index(
        'ix_analyses_token_id', 'analyses', ['token_id'], unique=False,
        postgresql_where=sa.text('token_id IS NOT NULL'),
    )
    op.create_index(
        'ix_documents_uploads', 'documents', ['ingested_at'], unique=False,
        postgresql_where=sa.text("kind = 'upload'"),
    )
    op.create_index('ix_index_projects_asked_at', 'index_projects', ['asked_at'], unique=False)
    for name, table, column in _NAMING:
        op.create_index(name, table, [column], unique=False, postgresql_using='hash')
    op.create_table('knowledge',
    sa.Column('only_row', sa.Boolean(), server_default=sa.text('true'), nullable=False),
    sa.Column('changes', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.CheckConstraint('only_row', name=op.f('ck_knowledge_one_row')),
    sa.PrimaryKeyConstraint('only_row', name=op.f('pk_knowledge'))
    )
    op.execute("INSERT INTO knowledge DEFAULT VALUES")
    op.execute(_COUNT)
    for trigger in _TRIGGERS.values():
        op.execute(trigger)


def downgrade() -> None:
    for table in _TRIGGERS:
        op.execute(f"DROP TRIGGER knowledge_changed ON {table}")
    op.execute("DROP FUNCTION count_knowledge()")
    op.drop_table('knowledge')
    for name, table, _ in reversed(_NAMING):
        op.drop_index(name, table_name=table)
    op.drop_index('ix_index_projects_asked_at', table_name='index_projects')
    op.drop_index('ix_documents_uploads', table_name='documents')
    op.drop_index('ix_analyses_token_id', table_name='analyses')
    op.drop_index('ix_analyses_finished_at', table_name='analyses')
    op.drop_index('ix_analyses_open', table_name='analyses')
    op.drop_column('analyses', 'graph_revision')
    op.drop_column('analyses', 'as_of')
    op.drop_column('analyses', 'postponed_at')
