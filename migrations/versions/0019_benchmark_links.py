"""results of other benchmark systems in the graph: benchmarks, software and parts of machines"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0019'
down_revision = '0018'
branch_labels = None
depends_on = None

#: The name of a processor or an accelerator without vendor, family name, clock and punctuation, so
#: that "Tesla V100-SXM2-16GB" and "NVIDIA V100 SXM2 16GB" are the same model.
_HARDWARE_MODEL = r"""
CREATE FUNCTION hardware_model(name text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT trim(regexp_replace(
        regexp_replace(
            regexp_replace(lower(name), '\(r\)|\(tm\)|®|™|@.*$|^\d+ ?x ', ' ', 'g'),
            '\m(nvidia|tesla|geforce|intel|amd|xeon|cpu|gpu|processor)\M', ' ', 'g'
        ),
        '[^a-z0-9.]+', ' ', 'g'
    ))
$$
"""
#: The name of the processor in the label of a hardware class, which begins with this name.
_CPU_OF = r"""
CREATE FUNCTION cpu_of(label text, identity jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT regexp_replace(
        replace(label, coalesce(', ' || (identity #>> '{gpus,0,name}'), ''), ''),
        ', ([0-9]+ CPUs|quota |threads |[A-Z_]+=|as requested).*$', ''
    )
$$
"""


def upgrade() -> None:
    # No release of Thoth has stored results yet, and their files can be read again.
    op.execute("DELETE FROM benchmark_results")
    op.execute("DELETE FROM benchmark_entries")
    op.execute(_HARDWARE_MODEL)
    op.execute(_CPU_OF)
    op.add_column('benchmark_entries', sa.Column('result_count', sa.Integer(), nullable=False))
    op.create_table('benchmarks',
    sa.Column('benchmark_id', sa.Text(), nullable=False),
    sa.Column('system', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('benchmark_id', name=op.f('pk_benchmarks')),
    sa.UniqueConstraint('system', 'name', name=op.f('uq_benchmarks_system_name'))
    )
    op.create_table('benchmark_software',
    sa.Column('software_id', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('version', sa.Text(), nullable=True),
    sa.Column('package', sa.Text(), nullable=True),
    sa.Column('purl', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('software_id', name=op.f('pk_benchmark_software'))
    )
    op.create_index('ix_benchmark_software_name', 'benchmark_software', ['name'], unique=False)
    op.create_index('ix_benchmark_software_package', 'benchmark_software', ['package'], unique=False)
    op.create_index('ix_benchmark_software_purl', 'benchmark_software', ['purl'], unique=False)
    op.create_table('benchmark_entry_software',
    sa.Column('entry_id', sa.Text(), nullable=False),
    sa.Column('software_id', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['entry_id'], ['benchmark_entries.entry_id'], name=op.f('fk_benchmark_entry_software_entry_id')),
    sa.ForeignKeyConstraint(['software_id'], ['benchmark_software.software_id'], name=op.f('fk_benchmark_entry_software_software_id')),
    sa.PrimaryKeyConstraint('entry_id', 'software_id', name=op.f('pk_benchmark_entry_software'))
    )
    op.create_index('ix_benchmark_entry_software_software_id', 'benchmark_entry_software', ['software_id'], unique=False)
    op.create_table('hardware_parts',
    sa.Column('part_id', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('model', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('part_id', name=op.f('pk_hardware_parts'))
    )
    op.create_table('benchmark_entry_parts',
    sa.Column('entry_id', sa.Text(), nullable=False),
    sa.Column('part_id', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['entry_id'], ['benchmark_entries.entry_id'], name=op.f('fk_benchmark_entry_parts_entry_id')),
    sa.ForeignKeyConstraint(['part_id'], ['hardware_parts.part_id'], name=op.f('fk_benchmark_entry_parts_part_id')),
    sa.PrimaryKeyConstraint('entry_id', 'part_id', name=op.f('pk_benchmark_entry_parts'))
    )
    op.create_index('ix_benchmark_entry_parts_part_id', 'benchmark_entry_parts', ['part_id'], unique=False)


def downgrade() -> None:
    for kind in ('benchmark', 'software', 'hardware_part', 'benchmark_entry', 'benchmark_results'):
        op.execute(f"DELETE FROM outbox WHERE kind = '{kind}'")
    op.drop_table('benchmark_entry_parts')
    op.drop_table('hardware_parts')
    op.drop_table('benchmark_entry_software')
    op.drop_table('benchmark_software')
    op.drop_table('benchmarks')
    op.drop_column('benchmark_entries', 'result_count')
    op.execute("DROP FUNCTION hardware_model(text)")
    op.execute("DROP FUNCTION cpu_of(text, jsonb)")
