"""From the roots that a person names to what an index knows of their whole closure."""
