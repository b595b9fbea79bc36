"""URLs of stores in messages: a password never shows."""

from __future__ import annotations

from sqlalchemy import exc, make_url

_SECRET = "password"


def mask_store_url(url: str) -> str:
    """The URL with *** for what is secret in it; of one that can't be read, the scheme."""
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError):
        scheme, separator, _ = url.partition("://")
        return f"{scheme}://…" if separator else url
    hidden = {name: "***" for name in parsed.query if _SECRET in name}
    return parsed.update_query_dict(hidden).render_as_string(hide_password=True) if hidden or parsed.password else url
