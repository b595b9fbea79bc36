"""Moving a registry from one place to another: what there is to move, what that changes, and what stands in the way.

No I/O here. `service.moving` reads and writes the places: stores, topics, dump files, registries over HTTP.
"""
