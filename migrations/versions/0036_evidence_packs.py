"""evidence packs and the addresses that publish them"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0036'
down_revision = '0035'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'packs',
        sa.Column('digest', sa.Text(), nullable=False),
        sa.Column('name', sa.Text(), nullable=False),
        sa.Column('manifest', sa.Text(), nullable=False),
        sa.Column('envelope', sa.Text(), nullable=True),
        sa.Column('key', sa.Text(), nullable=True),
        sa.Column('address', sa.Text(), nullable=False),
        sa.Column(
            'added_at',
            sa.DateTime(timezone=True),
            server_default=sa.text('now()'),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint('digest'),
    )
    op.create_table(
        'pack_parts',
        sa.Column('pack_digest', sa.Text(), nullable=False),
        sa.Column('path', sa.Text(), nullable=False),
        sa.Column('position', sa.Integer(), nullable=False),
        sa.Column('document_id', sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(['document_id'], ['documents.document_id']),
        sa.ForeignKeyConstraint(['pack_digest'], ['packs.digest'], ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('pack_digest', 'path', 'position'),
    )
    op.create_index(
        'ix_pack_parts_document_id', 'pack_parts', ['document_id'], postgresql_using='hash'
    )
    op.create_table(
        'followed_addresses',
        sa.Column('address', sa.Text(), nullable=False),
        sa.Column(
            'followed_at',
            sa.DateTime(timezone=True),
            server_default=sa.text('now()'),
            nullable=False,
        ),
        sa.Column('read_at', sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint('address'),
    )


def downgrade() -> None:
    op.drop_table('followed_addresses')
    op.drop_table('pack_parts')
    op.drop_table('packs')
