"""import names of releases, and status of projects

Releases and projects that are there have neither; both are unknown until an index is read again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0012'
down_revision = '0011'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('package_versions', sa.Column('imports', postgresql.ARRAY(sa.Text()), nullable=True))
    op.add_column('package_versions', sa.Column('imports_source', sa.Text(), nullable=True))
    op.create_index('ix_package_versions_imports', 'package_versions', ['imports'], unique=False, postgresql_using='gin')
    op.add_column('index_projects', sa.Column('status', sa.Text(), nullable=True))
    op.add_column('index_projects', sa.Column('status_reason', sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column('index_projects', 'status_reason')
    op.drop_column('index_projects', 'status')
    op.drop_index('ix_package_versions_imports', table_name='package_versions', postgresql_using='gin')
    op.drop_column('package_versions', 'imports_source')
    op.drop_column('package_versions', 'imports')
