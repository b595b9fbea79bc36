"""The Spark API (`decode`, `encode`, `transcode`, the data source), its plans, and the session."""
