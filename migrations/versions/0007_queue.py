"""queue

The tables of procrastinate, which brings its own schema; tests/integration/test_migrations.py
tells when a newer release of it has another, which is a revision of its own then.
"""

from __future__ import annotations

from alembic import op

revision = '0007'
down_revision = '0006'
branch_labels = None
depends_on = None

_DROP = """
DO $$ DECLARE made record; BEGIN
    FOR made IN
        SELECT 1 AS turn, 'FUNCTION IF EXISTS ' || oid::regprocedure || ' CASCADE' AS what
        FROM pg_proc WHERE starts_with(proname, 'procrastinate_')
        UNION ALL
        SELECT 2, 'TABLE IF EXISTS ' || oid::regclass || ' CASCADE'
        FROM pg_class WHERE relkind = 'r' AND starts_with(relname, 'procrastinate_')
        UNION ALL
        SELECT 3, 'TYPE IF EXISTS ' || oid::regtype || ' CASCADE'
        FROM pg_type WHERE typtype IN ('e', 'c') AND starts_with(typname, 'procrastinate_')
            AND NOT EXISTS (SELECT FROM pg_class WHERE reltype = pg_type.oid AND relkind = 'r')
        ORDER BY turn
    LOOP
        EXECUTE 'DROP ' || made.what;
    END LOOP;
END $$
"""


def upgrade() -> None:
    from procrastinate.schema import SchemaManager

    op.get_bind().exec_driver_sql(SchemaManager.get_schema().replace("%", "%%"))


def downgrade() -> None:
    op.get_bind().exec_driver_sql(_DROP)
