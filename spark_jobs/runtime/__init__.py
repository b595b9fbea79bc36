"""What jobs need of the machine: Java, jars, certificates, the cache."""
