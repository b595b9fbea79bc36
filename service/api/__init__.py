"""The REST API: one file per resource. A route parses, calls one registry function and returns."""
