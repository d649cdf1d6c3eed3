"""results of other benchmark systems by validity"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0022'
down_revision = '0021'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        'ix_benchmark_results_validity',
        'benchmark_results',
        ['validity', 'entry_id', 'position'],
        postgresql_where=sa.text("validity IN ('failed', 'invalid')"),
    )


def downgrade() -> None:
    op.drop_index('ix_benchmark_results_validity', table_name='benchmark_results')
