"""advice"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0004'
down_revision = '0003'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('advice',
    sa.Column('advice_id', sa.Text(), nullable=False),
    sa.Column('recommendation_type', sa.Text(), nullable=False),
    sa.Column('status', sa.Text(), nullable=False),
    sa.Column('snapshot_revision', sa.Text(), nullable=False),
    sa.Column('request_document_id', sa.Text(), nullable=False),
    sa.Column('snapshot_document_id', sa.Text(), nullable=False),
    sa.Column('evidence_document_id', sa.Text(), nullable=False),
    sa.Column('files_document_id', sa.Text(), nullable=False),
    sa.Column('report_document_id', sa.Text(), nullable=False),
    sa.Column('result_digest', sa.Text(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.ForeignKeyConstraint(['evidence_document_id'], ['documents.document_id'], name=op.f('fk_advice_evidence_document_id')),
    sa.ForeignKeyConstraint(['files_document_id'], ['documents.document_id'], name=op.f('fk_advice_files_document_id')),
    sa.ForeignKeyConstraint(['report_document_id'], ['documents.document_id'], name=op.f('fk_advice_report_document_id')),
    sa.ForeignKeyConstraint(['request_document_id'], ['documents.document_id'], name=op.f('fk_advice_request_document_id')),
    sa.ForeignKeyConstraint(['snapshot_document_id'], ['documents.document_id'], name=op.f('fk_advice_snapshot_document_id')),
    sa.PrimaryKeyConstraint('advice_id', name=op.f('pk_advice'))
    )
    op.create_index('ix_advice_created_at', 'advice', ['created_at'], unique=False)


def downgrade() -> None:
    op.drop_index('ix_advice_created_at', table_name='advice')
    op.drop_table('advice')
