"""Commands of this room, one module a command or a group of small ones."""
