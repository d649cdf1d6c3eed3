"""Who may do what, and how often: tokens, limits, and the audit log."""
