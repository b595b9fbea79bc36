"""What TiCDC's messages are: tables and changes, the formats that carry them, and the batch engine. For both programs.

Nothing here knows the service, the jobs, a network, a database or Spark.
"""
