"""Wire formats, a package each: messages → change events → messages, one message at a time.

This is the reference for what a message says. Batches belong in `schemas.columnar`; formats do not import one another.
"""
