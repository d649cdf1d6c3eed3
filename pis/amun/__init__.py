"""The executor: builds the environment of a stack, runs a script in it, describes the machine."""
