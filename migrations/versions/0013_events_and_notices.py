"""events of the loop, and the outbox of notices"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0013'
down_revision = '0012'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('events',
    sa.Column('event_id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('subject', sa.Text(), nullable=False),
    sa.Column('data', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('noticed_at', sa.DateTime(timezone=True), nullable=True),
    sa.PrimaryKeyConstraint('event_id', name=op.f('pk_events'))
    )
    op.create_index('ix_events_unnoticed', 'events', ['event_id'], unique=False, postgresql_where=sa.text('noticed_at IS NULL'))
    op.create_table('notices',
    sa.Column('notice_id', sa.Text(), nullable=False),
    sa.Column('event_id', sa.BigInteger(), nullable=False),
    sa.Column('target', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), server_default=sa.text("'waiting'"), nullable=False),
    sa.Column('attempts', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('next_attempt_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('error', sa.Text(), nullable=True),
    sa.CheckConstraint("state IN ('waiting', 'delivered', 'given_up')", name=op.f('ck_notices_state')),
    sa.ForeignKeyConstraint(['event_id'], ['events.event_id'], name=op.f('fk_notices_event_id')),
    sa.PrimaryKeyConstraint('notice_id', name=op.f('pk_notices'))
    )
    op.create_index('ix_notices_due', 'notices', ['next_attempt_at'], unique=False, postgresql_where=sa.text("state = 'waiting'"))
    op.create_index('uq_notices_event_id_target', 'notices', ['event_id', 'target'], unique=True)


def downgrade() -> None:
    op.drop_index('uq_notices_event_id_target', table_name='notices')
    op.drop_index('ix_notices_due', table_name='notices', postgresql_where=sa.text("state = 'waiting'"))
    op.drop_table('notices')
    op.drop_index('ix_events_unnoticed', table_name='events', postgresql_where=sa.text('noticed_at IS NULL'))
    op.drop_table('events')
