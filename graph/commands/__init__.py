"""The commands of the graph room, one module per subject."""
