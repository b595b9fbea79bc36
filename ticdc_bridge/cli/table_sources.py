"""Table definitions that a command is given: a file, a folder, or a live TiDB."""

from __future__ import annotations

from ticdc_bridge.schemas.inputs.live_tables import TableStatements
from ticdc_bridge.schemas.inputs.table_sources import definition_source, source_statements
from ticdc_bridge.schemas.model.credentials import mask_credentials
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.reasons import reason_of


def read_tables(source: str, db: str) -> TableStatements:
    """The statements of --ddl, and the commit_ts that a TiDB tells. db: of names that have none. SetupError."""
    try:
        return source_statements(definition_source(source), db)
    except (OSError, ValueError) as error:
        raise SetupError("USAGE", details=f"--ddl {mask_credentials(source)}: {reason_of(error)}") from None
