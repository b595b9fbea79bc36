"""Which topic a message goes to, by the rule of `--topic`."""

import re

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import Event, Watermark
from ticdc_bridge.schemas.model.table import TableId


def topic_by_rule(rule: str, event: Event) -> str:
    """A topic by TiCDC's rule (upstream ticdc `eventrouter/topic/expression.go`); Kafka's forbidden ones become `_`."""
    id_ = TableId("", "") if isinstance(event, Watermark) else TableId(event.db, event.table_name)
    return table_topic_by_rule(rule, id_)


def check_topic_rule(rule: str) -> None:
    """SetupError USAGE for a rule that names no topic, or what no rule knows: its rows would go to a wrong topic."""
    rest = rule.replace("{schema}", "").replace("{table}", "")
    unknown = re.findall(r"{[^{}]*}|[{}].*", rest)
    if unknown or not rule:
        what = f"{unknown[0]} is not known" if unknown else "it is empty"
        raise SetupError("USAGE", details=f"topic rule {rule!r}: {what}; a rule may have {{schema}} and {{table}}")


def table_topic_by_rule(rule: str, id_: TableId) -> str:
    """The topic that the rule names for a table's rows."""
    topic = _NOT_KAFKA.sub("_", rule.replace("{schema}", id_.db).replace("{table}", id_.table))[:249]
    return {".": "_", "..": "__"}.get(topic, topic)


_NOT_KAFKA = re.compile(r"[^A-Za-z0-9._-]")
