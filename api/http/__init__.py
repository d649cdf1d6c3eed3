"""What all routes share: errors, paging, bodies, schema fields, and cached answers."""
