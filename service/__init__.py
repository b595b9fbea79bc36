"""The schema registry service: a Confluent-compatible REST API over one SQL store.

pyproject.toml has its layers, which import-linter holds.
"""

from __future__ import annotations

from ticdc_bridge.packages import check_at_import

DISTRIBUTION = "ticdc-bridge"
check_at_import("schemas")
