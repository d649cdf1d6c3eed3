"""the schema of 0.2.0; the queue's tables are procrastinate's own

tests/integration/test_migrations.py tells when a newer release of procrastinate has another
schema, which is a revision of its own then.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = '0028'
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    from procrastinate.schema import SchemaManager

    schema = Path(__file__).parents[1] / 'release_0_2_0.sql'
    for sql in (SchemaManager.get_schema(), schema.read_text('utf-8')):
        op.get_bind().exec_driver_sql(sql.replace('%', '%%'))
