from tests.service.conftest import client

__all__ = ["client"]
