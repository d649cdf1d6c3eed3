"""bodies in the document store that no document has any more"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0031'
down_revision = '0030'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'unreferenced_bodies',
        sa.Column('entry_id', sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column('document_id', sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint('entry_id'),
    )


def downgrade() -> None:
    op.drop_table('unreferenced_bodies')
