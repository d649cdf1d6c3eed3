"""Performance indicators, and the executor that runs them on pinned stacks."""
