"""What service and jobs ask over a network: HTTP services, schema registries, table histories and Kafka."""
