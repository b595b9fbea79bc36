"""Jobs in Spark: streams and their micro-batches, sinks, checkpoints, metrics; and the same in one go."""
