"""The places a registry can be moved between: a store, a `_schemas` topic, a dump file, another registry over HTTP."""
