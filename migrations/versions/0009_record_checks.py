"""record checks"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0009'
down_revision = '0008'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        'documents',
        sa.Column('parser_version', sa.Integer(), server_default=sa.text('0'), nullable=False),
    )
    op.create_table('record_checks',
    sa.Column('only_row', sa.Boolean(), server_default=sa.text('true'), nullable=False),
    sa.Column('position', sa.Text(), server_default=sa.text("''"), nullable=False),
    sa.Column('round_began_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('complete_since', sa.DateTime(timezone=True), nullable=True),
    sa.Column('completed_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint('only_row', name=op.f('ck_record_checks_one_row')),
    sa.PrimaryKeyConstraint('only_row', name=op.f('pk_record_checks'))
    )
    op.execute("INSERT INTO record_checks DEFAULT VALUES")


def downgrade() -> None:
    op.drop_table('record_checks')
    op.drop_column('documents', 'parser_version')
