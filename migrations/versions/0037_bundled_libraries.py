"""the libraries that wheels of an inspection bundle, and the energy of each observation"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0037'
down_revision = '0036'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        'inspections',
        sa.Column('bundled', postgresql.JSONB(none_as_null=True), nullable=True),
    )
    op.add_column('observations', sa.Column('energy_j', sa.Double(), nullable=True))
    op.add_column('observations', sa.Column('energy_note', sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column('observations', 'energy_note')
    op.drop_column('observations', 'energy_j')
    op.drop_column('inspections', 'bundled')
