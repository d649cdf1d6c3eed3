"""Who may do what, and how often: tokens, limits, the audit log, and what is never stored."""
