"""Commands of this room with many options, one module a group."""
