"""The adviser's commands: they read files, open stores, and print; nothing below them does."""
