"""Where messages come from and go to: files, topics, Parquet, dead letters. What they say does not matter here."""
