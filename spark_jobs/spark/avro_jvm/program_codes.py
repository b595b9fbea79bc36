"""Numbers of the programs and answers of the reader in Spark's JVM; Java has them from here (the class `Codes`)."""

# Flags of a program: its record has more than a row; it is a key's, looked at beside a value, but no row of the table;
# what it writes of changing length does not come in the columns' order; each message of it is refused, with the code
# that stands from bit CODE_SHIFT on.
OF_VALUE, BESIDE, SHUFFLED, UNREADABLE = 1, 2, 4, 8
CODE_SHIFT = 4

# A step has STEP numbers: what is read (schemas/columnar/kernels/avro_codes.py), and at these places: the branch of its
# union that is null or -1, the column or -1, how it is written there, what it has to be (of a decimal its own precision
# and scale), the column's precision and scale.
STEP = 8
BRANCH, POSITION, FORM, FIRST, SECOND, PRECISION, SCALE = range(1, STEP)
SHORT, INT, LONG, DECIMAL, FLOAT, DOUBLE = range(6)  # how a number is written
AS_IT_IS = -1
COMPACT = 18  # digits of a decimal that is a long in Spark's row

# Why a message is refused. Registered versions that can't be read have the numbers after REFUSALS.
EMPTY, OTHER_TABLE, NOT_FRAMED, TOO_LARGE, UNKNOWN_ID, CUT, MALFORMED, TRAILING, NAMED, EIGHT_BYTE_ID = range(1, 11)
REFUSALS = EIGHT_BYTE_ID

# The fields of a result: code is 0, or why the message is refused.
RESULT = ("code", "id", "op", "commit_ts", "op_unknown", "key", "before", "after")
F_CODE, F_ID, F_OP, F_COMMIT_TS, F_UNKNOWN, F_KEY, F_BEFORE, F_AFTER, FIELDS = range(len(RESULT) + 1)
