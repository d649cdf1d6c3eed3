"""indexes that find the last measurement and those in quarantine"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.large_tables import create_index

revision = '0032'
down_revision = '0031'
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index('ix_inspections_created_at', 'inspections', ['created_at'])
    create_index('ix_observations_ended_at', 'observations', ['ended_at'])
    create_index(
        'ix_observations_quarantined',
        'observations',
        ['document_id'],
        postgresql_where=sa.text('quarantine_reason IS NOT NULL'),
    )


def downgrade() -> None:
    op.drop_index('ix_observations_quarantined', table_name='observations')
    op.drop_index('ix_observations_ended_at', table_name='observations')
    op.drop_index('ix_inspections_created_at', table_name='inspections')
