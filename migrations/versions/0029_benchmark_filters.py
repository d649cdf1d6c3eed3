"""filters of benchmark results by exact name, metric and entry"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0029'
down_revision = '0028'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index('ix_benchmark_results_benchmark', table_name='benchmark_results')
    op.drop_index('ix_benchmark_results_metric', table_name='benchmark_results')
    op.create_index(
        'ix_benchmark_results_benchmark',
        'benchmark_results',
        ['benchmark', 'metric', 'entry_id'],
    )
    op.create_index('ix_benchmark_results_metric', 'benchmark_results', ['metric', 'entry_id'])


def downgrade() -> None:
    op.drop_index('ix_benchmark_results_benchmark', table_name='benchmark_results')
    op.drop_index('ix_benchmark_results_metric', table_name='benchmark_results')
    op.create_index(
        'ix_benchmark_results_benchmark',
        'benchmark_results',
        [sa.text('lower(benchmark)'), 'metric'],
    )
    op.create_index('ix_benchmark_results_metric', 'benchmark_results', ['metric'])
