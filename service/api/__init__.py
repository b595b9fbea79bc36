"""The REST API: one file per resource. A route parses, calls one registry function and returns.

The registry's routes answer as confluentinc/schema-registry 8.5 does, which was read and measured
(tests/golden/registry). docs/registry.md says where ours differ.
"""
