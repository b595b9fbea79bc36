"""Avro as a schema type: parsing as strict as Confluent's, Java's canonical text, and its normalised form."""
