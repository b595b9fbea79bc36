"""What commands of the service are tried with."""

from __future__ import annotations

from tests.service.conftest import _no_settings_from_outside, client

__all__ = ["_no_settings_from_outside", "client"]
