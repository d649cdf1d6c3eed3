"""HTML pages. Entry point: :data:`api.pages.docs.blueprint`."""
