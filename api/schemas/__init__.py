"""What goes over the wire: marshmallow schemas, one module per subject."""
