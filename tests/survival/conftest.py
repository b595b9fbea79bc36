from tests.service.conftest import client, store_url

__all__ = ["client", "store_url"]
