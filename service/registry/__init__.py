"""Rules of the registry: values in, values out. Knows neither HTTP nor SQL; the store comes in through `ports`.

They are the rules of confluentinc/schema-registry 8.5, which was read and measured (tests/golden/registry).
docs/registry.md says where ours differ.
"""
