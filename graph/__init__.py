"""The stores: PostgreSQL is the record, the graph a projection of it that can be rebuilt."""
