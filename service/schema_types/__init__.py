"""Avro, JSON Schema and Protobuf as Confluent's registry takes them: parsed, made canonical, compared."""
