"""the identifier of the document store"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0028'
down_revision = '0027'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'document_store',
        sa.Column('only_row', sa.Boolean(), server_default=sa.text('true'), nullable=False),
        sa.Column('store_id', sa.Text(), nullable=True),
        sa.CheckConstraint('only_row', name='one_row'),
        sa.PrimaryKeyConstraint('only_row'),
    )
    op.execute('INSERT INTO document_store DEFAULT VALUES')


def downgrade() -> None:
    op.drop_table('document_store')
