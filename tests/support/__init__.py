"""What several tests need: servers, builders, comparisons."""
