"""The REST API: one file per resource. Its answers are those of confluentinc/schema-registry 8.5."""
