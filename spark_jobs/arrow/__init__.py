"""Arrow batches of messages, rows and change events, here and in Spark's workers. No session, no Spark classes."""
