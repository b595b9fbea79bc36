"""Protobuf schemas: reading `.proto` texts and descriptors, and writing them as Confluent's registry does."""
