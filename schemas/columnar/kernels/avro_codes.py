"""What a step of an Avro record reads: numbers for the kernels and for the reader in Spark's JVM."""

# What a step reads. Of a column, into a cell:
LONG, INT, LONG_UNSIGNED, INT_UNSIGNED, TEXT_UNSIGNED, FLOAT, DOUBLE = range(7)
TEXT, BYTES, DECIMAL_TEXT, DECIMAL_BYTES, BITS = range(7, 12)
YEAR = -1  # in place of the bits that a number without sign has at most: 0, or 1901 to 2155
# Of an extension field, or the old row:
OP, COMMIT_TS, BEFORE, PASS_LONG, PASS_INT, PASS_FOUR, PASS_EIGHT, PASS_BOOLEAN, PASS_BYTES, PASS_TEXT = range(12, 22)
