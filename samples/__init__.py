"""Small inspection documents of our own making, for the demo and for tests."""
