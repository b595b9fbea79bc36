"""Arrow batches of messages, rows and change events, in this process and in Spark's workers. No session, no Spark
classes.
"""
