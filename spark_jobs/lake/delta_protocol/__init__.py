"""Delta's protocol as far as `merge` writes it without Spark: each module is an object of the protocol, named as there.

Source: "Delta Transaction Log Protocol", PROTOCOL.md in delta-io/delta.
"""
