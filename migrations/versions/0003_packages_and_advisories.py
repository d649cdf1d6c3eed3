"""packages and advisories"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('advisory_sources',
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('etag', sa.Text(), nullable=True),
    sa.Column('last_modified', sa.Text(), nullable=True),
    sa.Column('sha256', sa.Text(), nullable=True),
    sa.Column('advisories', sa.Integer(), nullable=False),
    sa.Column('as_of', sa.DateTime(timezone=True), nullable=False),
    sa.PrimaryKeyConstraint('source', name=op.f('pk_advisory_sources'))
    )
    op.create_table('index_projects',
    sa.Column('index_name', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('problem', sa.Text(), nullable=True),
    sa.Column('message', sa.Text(), nullable=True),
    sa.Column('page_digest', sa.Text(), nullable=True),
    sa.Column('listed', sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
    sa.Column('as_of', sa.DateTime(timezone=True), nullable=True),
    sa.Column('asked_at', sa.DateTime(timezone=True), nullable=False),
    sa.CheckConstraint("state IN ('known', 'missing', 'failed')", name=op.f('ck_index_projects_state_known')),
    sa.PrimaryKeyConstraint('index_name', 'name', name=op.f('pk_index_projects'))
    )
    op.create_table('package_events',
    sa.Column('event_id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('index_name', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('version', sa.Text(), nullable=False),
    sa.Column('detail', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('occurred_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.PrimaryKeyConstraint('event_id', name=op.f('pk_package_events'))
    )
    op.create_index('ix_package_events_name', 'package_events', ['name'], unique=False)
    op.create_table('release_queue',
    sa.Column('index_name', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('version', sa.Text(), nullable=False),
    sa.Column('queued_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('attempts', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('retry_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('problem', sa.Text(), nullable=True),
    sa.Column('message', sa.Text(), nullable=True),
    sa.Column('given_up_at', sa.DateTime(timezone=True), nullable=True),
    sa.PrimaryKeyConstraint('index_name', 'name', 'version', name=op.f('pk_release_queue'))
    )
    op.create_index('ix_release_queue_retry_at', 'release_queue', ['retry_at'], unique=False)
    op.create_table('watched_packages',
    sa.Column('index_name', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('max_versions', sa.Integer(), nullable=True),
    sa.Column('newer_than', sa.DateTime(timezone=True), nullable=True),
    sa.Column('extras', sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
    sa.Column('prereleases', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('added_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.PrimaryKeyConstraint('index_name', 'name', name=op.f('pk_watched_packages'))
    )
    op.create_table('native_environments',
    sa.Column('digest', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('architecture', sa.Text(), nullable=False),
    sa.Column('os_name', sa.Text(), nullable=True),
    sa.Column('os_version', sa.Text(), nullable=True),
    sa.Column('document_id', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['document_id'], ['documents.document_id'], name=op.f('fk_native_environments_document_id')),
    sa.PrimaryKeyConstraint('digest', name=op.f('pk_native_environments'))
    )
    op.create_table('native_interfaces',
    sa.Column('interface', sa.Text(), nullable=False),
    sa.Column('library', sa.Text(), nullable=False),
    sa.Column('version', sa.Text(), nullable=True),
    sa.Column('document_id', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['document_id'], ['documents.document_id'], name=op.f('fk_native_interfaces_document_id')),
    sa.PrimaryKeyConstraint('interface', name=op.f('pk_native_interfaces'))
    )
    op.create_table('packages',
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('revision', sa.Text(), nullable=True),
    sa.Column('document_id', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['document_id'], ['documents.document_id'], name=op.f('fk_packages_document_id')),
    sa.PrimaryKeyConstraint('name', name=op.f('pk_packages'))
    )
    op.create_table('vulnerabilities',
    sa.Column('vulnerability_id', sa.Text(), nullable=False),
    sa.Column('aliases', sa.ARRAY(sa.Text()), nullable=False),
    sa.Column('summary', sa.Text(), nullable=True),
    sa.Column('severity', sa.Text(), nullable=True),
    sa.Column('score', sa.Double(), nullable=True),
    sa.Column('vector', sa.Text(), nullable=True),
    sa.Column('published_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('modified_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('withdrawn_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('document_id', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['document_id'], ['documents.document_id'], name=op.f('fk_vulnerabilities_document_id')),
    sa.PrimaryKeyConstraint('vulnerability_id', name=op.f('pk_vulnerabilities'))
    )
    op.create_table('advisories',
    sa.Column('advisory_id', sa.Text(), nullable=False),
    sa.Column('vulnerability_id', sa.Text(), nullable=False),
    sa.Column('aliases', sa.ARRAY(sa.Text()), nullable=False),
    sa.Column('summary', sa.Text(), nullable=True),
    sa.Column('severity', sa.Text(), nullable=True),
    sa.Column('score', sa.Double(), nullable=True),
    sa.Column('vector', sa.Text(), nullable=True),
    sa.Column('published_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('modified_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('withdrawn_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('document_id', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['document_id'], ['documents.document_id'], name=op.f('fk_advisories_document_id')),
    sa.ForeignKeyConstraint(['vulnerability_id'], ['vulnerabilities.vulnerability_id'], name=op.f('fk_advisories_vulnerability_id')),
    sa.PrimaryKeyConstraint('advisory_id', name=op.f('pk_advisories'))
    )
    op.create_index('ix_advisories_vulnerability_id', 'advisories', ['vulnerability_id'], unique=False)
    op.create_table('affected_versions',
    sa.Column('vulnerability_id', sa.Text(), nullable=False),
    sa.Column('purl', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['purl'], ['package_versions.purl'], name=op.f('fk_affected_versions_purl')),
    sa.ForeignKeyConstraint(['vulnerability_id'], ['vulnerabilities.vulnerability_id'], name=op.f('fk_affected_versions_vulnerability_id')),
    sa.PrimaryKeyConstraint('vulnerability_id', 'purl', name=op.f('pk_affected_versions'))
    )
    op.create_index('ix_affected_versions_purl', 'affected_versions', ['purl'], unique=False)
    op.create_table('artifacts',
    sa.Column('sha256', sa.Text(), nullable=False),
    sa.Column('filename', sa.Text(), nullable=False),
    sa.Column('purl', sa.Text(), nullable=False),
    sa.Column('imports', sa.ARRAY(sa.Text()), nullable=False),
    sa.Column('bundled', sa.ARRAY(sa.Text()), nullable=False),
    sa.Column('document_id', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['document_id'], ['documents.document_id'], name=op.f('fk_artifacts_document_id')),
    sa.ForeignKeyConstraint(['purl'], ['package_versions.purl'], name=op.f('fk_artifacts_purl')),
    sa.PrimaryKeyConstraint('sha256', name=op.f('pk_artifacts'))
    )
    op.create_index('ix_artifacts_purl', 'artifacts', ['purl'], unique=False)
    op.create_table('native_environment_interfaces',
    sa.Column('digest', sa.Text(), nullable=False),
    sa.Column('interface', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['digest'], ['native_environments.digest'], name=op.f('fk_native_environment_interfaces_digest')),
    sa.ForeignKeyConstraint(['interface'], ['native_interfaces.interface'], name=op.f('fk_native_environment_interfaces_interface')),
    sa.PrimaryKeyConstraint('digest', 'interface', name=op.f('pk_native_environment_interfaces'))
    )
    op.create_index('ix_native_environment_interfaces_interface', 'native_environment_interfaces', ['interface'], unique=False)
    op.create_table('release_files',
    sa.Column('purl', sa.Text(), nullable=False),
    sa.Column('filename', sa.Text(), nullable=False),
    sa.Column('sha256', sa.Text(), nullable=True),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('size_bytes', sa.BigInteger(), nullable=True),
    sa.Column('requires_python', sa.Text(), nullable=True),
    sa.Column('yanked', sa.Boolean(), nullable=False),
    sa.Column('yanked_reason', sa.Text(), nullable=True),
    sa.Column('uploaded_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('metadata_sha256', sa.Text(), nullable=True),
    sa.Column('attested', sa.Boolean(), nullable=True),
    sa.Column('listed', sa.Boolean(), server_default=sa.text('true'), nullable=False),
    sa.Column('rank', sa.Text(), nullable=True),
    sa.ForeignKeyConstraint(['purl'], ['package_versions.purl'], name=op.f('fk_release_files_purl')),
    sa.PrimaryKeyConstraint('purl', 'filename', name=op.f('pk_release_files'))
    )
    op.create_index('ix_release_files_sha256', 'release_files', ['sha256'], unique=False)
    op.create_table('requirements',
    sa.Column('purl', sa.Text(), nullable=False),
    sa.Column('position', sa.Integer(), nullable=False),
    sa.Column('raw', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=True),
    sa.Column('specifier', sa.Text(), nullable=False),
    sa.Column('marker', sa.Text(), nullable=True),
    sa.Column('extras', sa.ARRAY(sa.Text()), nullable=False),
    sa.Column('for_extras', sa.ARRAY(sa.Text()), nullable=False),
    sa.Column('url', sa.Text(), nullable=True),
    sa.Column('problem', sa.Text(), nullable=True),
    sa.ForeignKeyConstraint(['purl'], ['package_versions.purl'], name=op.f('fk_requirements_purl')),
    sa.PrimaryKeyConstraint('purl', 'position', name=op.f('pk_requirements'))
    )
    op.create_index('ix_requirements_name', 'requirements', ['name'], unique=False)
    op.create_table('advisory_packages',
    sa.Column('advisory_id', sa.Text(), nullable=False),
    sa.Column('position', sa.Integer(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('ranges', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('versions', sa.ARRAY(sa.Text()), nullable=False),
    sa.ForeignKeyConstraint(['advisory_id'], ['advisories.advisory_id'], name=op.f('fk_advisory_packages_advisory_id')),
    sa.PrimaryKeyConstraint('advisory_id', 'position', name=op.f('pk_advisory_packages'))
    )
    op.create_index('ix_advisory_packages_name', 'advisory_packages', ['name'], unique=False)
    op.create_table('artifact_interfaces',
    sa.Column('sha256', sa.Text(), nullable=False),
    sa.Column('interface', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['interface'], ['native_interfaces.interface'], name=op.f('fk_artifact_interfaces_interface')),
    sa.ForeignKeyConstraint(['sha256'], ['artifacts.sha256'], name=op.f('fk_artifact_interfaces_sha256')),
    sa.PrimaryKeyConstraint('sha256', 'interface', name=op.f('pk_artifact_interfaces'))
    )
    op.create_index('ix_artifact_interfaces_interface', 'artifact_interfaces', ['interface'], unique=False)
    op.add_column('package_versions', sa.Column('state', sa.Text(), server_default=sa.text("'unread'"), nullable=False))
    op.add_column('package_versions', sa.Column('problem', sa.Text(), nullable=True))
    op.add_column('package_versions', sa.Column('problem_message', sa.Text(), nullable=True))
    op.add_column('package_versions', sa.Column('requires_python', sa.Text(), nullable=True))
    op.add_column('package_versions', sa.Column('extras', sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False))
    op.add_column('package_versions', sa.Column('license', sa.Text(), nullable=True))
    op.add_column('package_versions', sa.Column('yanked', sa.Boolean(), server_default=sa.text('false'), nullable=False))
    op.add_column('package_versions', sa.Column('yanked_reason', sa.Text(), nullable=True))
    op.add_column('package_versions', sa.Column('uploaded_at', sa.DateTime(timezone=True), nullable=True))
    op.add_column('package_versions', sa.Column('metadata_source', sa.Text(), nullable=True))
    op.add_column('package_versions', sa.Column('metadata_file', sa.Text(), nullable=True))
    op.add_column('package_versions', sa.Column('wheels', sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False))
    op.add_column('package_versions', sa.Column('has_sdist', sa.Boolean(), nullable=True))
    op.add_column('package_versions', sa.Column('files_complete', sa.Boolean(), server_default=sa.text('false'), nullable=False))
    op.add_column('package_versions', sa.Column('release_document_id', sa.Text(), nullable=True))
    op.add_column('package_versions', sa.Column('facts', sa.Text(), nullable=True))
    op.add_column('package_versions', sa.Column('as_of', sa.DateTime(timezone=True), nullable=True))
    op.add_column('package_versions', sa.Column('ranks', sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False))
    op.create_index('ix_package_versions_state', 'package_versions', ['state'], unique=False, postgresql_where=sa.text("state <> 'solved'"))
    op.create_foreign_key(op.f('fk_package_versions_release_document_id'), 'package_versions', 'documents', ['release_document_id'], ['document_id'])
    op.create_check_constraint(
        op.f('ck_package_versions_state_known'), 'package_versions',
        "state IN ('unread', 'solved', 'unsolvable', 'unparsable')",
    )
    op.create_index('ix_outbox_package', 'outbox', ['key'], unique=False, postgresql_where=sa.text("kind = 'package'"))
    # A package is a row of its own now, as one may be required and have no version here.
    # Its revision is what `graph.repositories.packages` makes of versions that nobody read.
    op.execute(
        """
        INSERT INTO packages (name, document_id, revision)
        SELECT name, min(document_id), 'sha256:' || encode(sha256(convert_to(string_agg(
            purl || ' ' || state, E'\\n' ORDER BY purl COLLATE "C"), 'UTF8')), 'hex')
        FROM package_versions GROUP BY name
        """
    )
    op.execute("INSERT INTO outbox (kind, key) SELECT 'package', name FROM packages")
    # Their nodes get properties that they did not have.
    op.execute("INSERT INTO outbox (kind, key) SELECT 'package_version', purl FROM package_versions")


def downgrade() -> None:
    # Older code knows no such entries, and would refuse all others with them.
    op.execute(
        "DELETE FROM outbox WHERE kind IN"
        " ('package', 'vulnerability', 'artifact', 'native_interface', 'native_environment')"
    )
    op.drop_index('ix_outbox_package', table_name='outbox', postgresql_where=sa.text("kind = 'package'"))
    op.drop_constraint(op.f('ck_package_versions_state_known'), 'package_versions')
    op.drop_constraint(op.f('fk_package_versions_release_document_id'), 'package_versions', type_='foreignkey')
    op.drop_index('ix_package_versions_state', table_name='package_versions', postgresql_where=sa.text("state <> 'solved'"))
    op.drop_column('package_versions', 'ranks')
    op.drop_column('package_versions', 'as_of')
    op.drop_column('package_versions', 'facts')
    op.drop_column('package_versions', 'release_document_id')
    op.drop_column('package_versions', 'files_complete')
    op.drop_column('package_versions', 'has_sdist')
    op.drop_column('package_versions', 'wheels')
    op.drop_column('package_versions', 'metadata_file')
    op.drop_column('package_versions', 'metadata_source')
    op.drop_column('package_versions', 'uploaded_at')
    op.drop_column('package_versions', 'yanked_reason')
    op.drop_column('package_versions', 'yanked')
    op.drop_column('package_versions', 'license')
    op.drop_column('package_versions', 'extras')
    op.drop_column('package_versions', 'requires_python')
    op.drop_column('package_versions', 'problem_message')
    op.drop_column('package_versions', 'problem')
    op.drop_column('package_versions', 'state')
    op.drop_index('ix_artifact_interfaces_interface', table_name='artifact_interfaces')
    op.drop_table('artifact_interfaces')
    op.drop_index('ix_advisory_packages_name', table_name='advisory_packages')
    op.drop_table('advisory_packages')
    op.drop_index('ix_requirements_name', table_name='requirements')
    op.drop_table('requirements')
    op.drop_index('ix_release_files_sha256', table_name='release_files')
    op.drop_table('release_files')
    op.drop_index('ix_native_environment_interfaces_interface', table_name='native_environment_interfaces')
    op.drop_table('native_environment_interfaces')
    op.drop_index('ix_artifacts_purl', table_name='artifacts')
    op.drop_table('artifacts')
    op.drop_index('ix_affected_versions_purl', table_name='affected_versions')
    op.drop_table('affected_versions')
    op.drop_index('ix_advisories_vulnerability_id', table_name='advisories')
    op.drop_table('advisories')
    op.drop_table('vulnerabilities')
    op.drop_table('packages')
    op.drop_table('native_interfaces')
    op.drop_table('native_environments')
    op.drop_table('watched_packages')
    op.drop_index('ix_release_queue_retry_at', table_name='release_queue')
    op.drop_table('release_queue')
    op.drop_index('ix_package_events_name', table_name='package_events')
    op.drop_table('package_events')
    op.drop_table('index_projects')
    op.drop_table('advisory_sources')
