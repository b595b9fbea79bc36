"""The queries of one transaction; the promises are those of `service.registry.ports`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, case, delete, exists, func, insert, or_, select, update

from service.registry.metadata import VERSION
from service.registry.model import (
    DEFAULT_CONTEXT,
    Content,
    Counts,
    Reference,
    Stored,
    VersionRow,
    Warned,
    qualified,
)
from service.store.tables import configs, contexts, counters, modes, references, schemas, versions, warnings

_FULL = select(
    versions.c.subject,
    versions.c.version,
    versions.c.id,
    versions.c.ts,
    versions.c.deleted,
    schemas.c.identity,
    schemas.c.kind,
    schemas.c.text,
    schemas.c.refs,
    schemas.c.metadata,
).join_from(versions, schemas, and_(versions.c.context == schemas.c.context, versions.c.id == schemas.c.id))
_ROW = select(versions.c.subject, versions.c.version, versions.c.id, versions.c.deleted)


class Transaction:
    """Reader and Writer on one SQL connection."""

    def __init__(self, connection: Connection) -> None:
        self._sql = connection

    # ---- reading

    def version(self, subject: str, version: int) -> Stored | None:
        return self._one(_FULL.where(versions.c.subject == subject, versions.c.version == version))

    def latest(self, subject: str, *, deleted: bool = False) -> Stored | None:
        return self._one(_highest(_FULL.where(versions.c.subject == subject), deleted))

    def by_content(
        self, subject: str, content: Content, *, deleted: bool = False, schema_id: int | None = None
    ) -> Stored | None:
        same = (schemas.c.identity == content.identity, schemas.c.kind == content.kind)
        query = _FULL.where(versions.c.subject == subject, *same)
        query = query if schema_id is None else query.where(versions.c.id == schema_id)
        return self._one(_highest(query, deleted))

    def lookalikes(self, subject: str, *, deleted: bool = False) -> list[Stored]:
        numbered = schemas.c.metadata.contains(f'"{VERSION}"', autoescape=True)
        query = _FULL.where(versions.c.subject == subject, or_(schemas.c.refs != "[]", numbered))
        return self._all(_highest(query, deleted))

    def versions(self, subject: str) -> list[VersionRow]:
        return self._rows(_ROW.where(versions.c.subject == subject).order_by(versions.c.version))

    def live(self, subject: str) -> list[Stored]:
        query = _FULL.where(versions.c.subject == subject, ~versions.c.deleted)
        return self._all(query.order_by(versions.c.version))

    def holders(self, context: str, schema_id: int) -> list[Stored]:
        query = _FULL.where(versions.c.context == context, versions.c.id == schema_id)
        return self._all(query.order_by(versions.c.seq))

    def search(self, prefix: str, *, deleted: bool = False) -> list[Stored]:
        query = _FULL.where(func.substr(versions.c.subject, 1, len(prefix)) == prefix)
        query = query if deleted else query.where(~versions.c.deleted)
        return self._all(query.order_by(versions.c.subject, versions.c.version))

    def subjects(self) -> list[tuple[str, bool]]:
        live = func.max(case((versions.c.deleted, 0), else_=1))
        found = self._sql.execute(select(versions.c.subject, live).group_by(versions.c.subject))
        return sorted((subject, bool(alive)) for subject, alive in found)

    def schema(self, context: str, schema_id: int) -> Content | None:
        query = select(schemas).where(schemas.c.context == context, schemas.c.id == schema_id)
        row = self._sql.execute(query).first()
        return None if row is None else _content(row)

    def id_of(self, context: str, content: Content) -> int | None:
        same = (schemas.c.identity == content.identity, schemas.c.kind == content.kind)
        query = select(func.min(schemas.c.id)).where(schemas.c.context == context, *same)
        return self._sql.execute(query).scalar()

    def ids_of(self, identity: bytes) -> list[tuple[str, int]]:
        query = select(schemas.c.context, schemas.c.id).where(schemas.c.identity == identity)
        return [(context, number) for context, number in self._sql.execute(query.order_by(*query.selected_columns))]

    def max_id(self, context: str) -> int:
        return self._sql.execute(select(counters.c.last).where(counters.c.context == context)).scalar() or 0

    def referrers(self, subject: str, version: int) -> list[VersionRow]:
        joined = and_(references.c.subject == versions.c.subject, references.c.version == versions.c.version)
        query = _ROW.join(references, joined)
        return self._rows(query.where(references.c.to_subject == subject, references.c.to_version == version))

    def configs(self, scopes: Sequence[str]) -> dict[str, dict[str, Any]]:
        found = self._sql.execute(select(configs.c.scope, configs.c.body).where(configs.c.scope.in_(scopes)))
        return {scope: json.loads(body) for scope, body in found}

    def all_configs(self) -> dict[str, dict[str, Any]]:
        return {scope: json.loads(body) for scope, body in self._sql.execute(select(configs.c.scope, configs.c.body))}

    def modes(self, scopes: Sequence[str]) -> dict[str, str]:
        found = self._sql.execute(select(modes.c.scope, modes.c.mode).where(modes.c.scope.in_(scopes)))
        return {row.scope: row.mode for row in found}

    def contexts(self) -> list[str]:
        return sorted(self._sql.execute(select(contexts.c.context)).scalars())

    def counts(self) -> Counts:
        same = and_(versions.c.context == schemas.c.context, versions.c.id == schemas.c.id)
        kinds = select(schemas.c.kind, versions.c.deleted, func.count()).join_from(versions, schemas, same)
        by_state: dict[bool, dict[str, int]] = {False: {}, True: {}}
        for kind, deleted, number in self._sql.execute(kinds.group_by(schemas.c.kind, versions.c.deleted)):
            by_state[bool(deleted)][kind] = number
        subjects = select(func.count(versions.c.subject.distinct())).where(~versions.c.deleted)
        total = self._sql.execute(select(func.count()).select_from(schemas)).scalar_one()
        return Counts(total, self._sql.execute(subjects).scalar_one(), by_state[False], by_state[True])

    def warnings(self, subject: str | None = None) -> list[Warned]:
        query = select(*(warnings.c[name] for name in ("subject", "version", "kind", "message", "ts")))
        query = query if subject is None else query.where(warnings.c.subject == subject)
        return [Warned(*row) for row in self._sql.execute(query.order_by(warnings.c.seq))]

    # ---- writing

    def new_id(self, context: str) -> int:
        number = self.max_id(context) + 1
        self.use_id(context, number)
        return number

    def use_id(self, context: str, number: int) -> None:
        last = self._sql.execute(select(counters.c.last).where(counters.c.context == context)).scalar()
        if last is None:
            self._sql.execute(insert(counters).values(context=context, last=number))
        elif last < number:
            self._sql.execute(update(counters).where(counters.c.context == context).values(last=number))

    def put_schema(self, context: str, schema_id: int, content: Content) -> None:
        refs = [[one.name, one.subject, one.version] for one in content.references]
        body = None if content.metadata is None else json.dumps(content.metadata, ensure_ascii=False)
        self._sql.execute(
            insert(schemas).values(
                context=context,
                id=schema_id,
                identity=content.identity,
                kind=content.kind,
                text=content.text,
                refs=json.dumps(refs, ensure_ascii=False),
                metadata=body,
            )
        )

    def put_version(self, context: str, subject: str, version: int, schema_id: int, content: Content, ts: int) -> None:
        row = {"context": context, "subject": subject, "version": version, "id": schema_id, "ts": ts, "deleted": False}
        self._sql.execute(insert(versions).values(row))
        if context != DEFAULT_CONTEXT and not self._sql.execute(_context(context)).first():
            self._sql.execute(insert(contexts).values(context=context))
        targets = {(qualified(one.subject or "", context), one.version) for one in content.references}
        for to_subject, to_version in targets:
            values = {"subject": subject, "version": version, "to_subject": to_subject, "to_version": to_version}
            self._sql.execute(insert(references).values(values))

    def soft_delete(self, subject: str, numbers: Iterable[int]) -> None:
        where = and_(versions.c.subject == subject, versions.c.version.in_(list(numbers)))
        self._sql.execute(update(versions).where(where).values(deleted=True))

    def remove(self, subject: str, numbers: Iterable[int]) -> None:
        gone = list(numbers)
        if not gone:
            return
        those = and_(versions.c.subject == subject, versions.c.version.in_(gone))
        ids = list(self._sql.execute(select(versions.c.context, versions.c.id).where(those).distinct()))
        for table in (references, versions, warnings):
            self._sql.execute(delete(table).where(table.c.subject == subject, table.c.version.in_(gone)))
        held = exists().where(versions.c.context == schemas.c.context, versions.c.id == schemas.c.id)
        for context, schema_id in ids:
            this = and_(schemas.c.context == context, schemas.c.id == schema_id)
            self._sql.execute(delete(schemas).where(this, ~held))

    def put_config(self, scope: str, config: dict[str, Any]) -> None:
        self.drop_config(scope)
        self._sql.execute(insert(configs).values(scope=scope, body=json.dumps(config, ensure_ascii=False)))

    def drop_config(self, scope: str) -> None:
        self._sql.execute(delete(configs).where(configs.c.scope == scope))

    def put_mode(self, scope: str, mode: str | None) -> None:
        self._sql.execute(delete(modes).where(modes.c.scope == scope))
        if mode is not None:
            self._sql.execute(insert(modes).values(scope=scope, mode=mode))

    def drop_context(self, context: str) -> None:
        self._sql.execute(delete(contexts).where(contexts.c.context == context))

    def put_warning(self, warned: Warned) -> None:
        self._sql.execute(insert(warnings).values(**asdict(warned)))

    # ---- rows

    def _one(self, query: Select[Any]) -> Stored | None:
        row = self._sql.execute(query.limit(1)).first()
        return None if row is None else _stored(row)

    def _all(self, query: Select[Any]) -> list[Stored]:
        return [_stored(row) for row in self._sql.execute(query)]

    def _rows(self, query: Select[Any]) -> list[VersionRow]:
        return [VersionRow(row.subject, row.version, row.id, bool(row.deleted)) for row in self._sql.execute(query)]


def _highest(query: Select[Any], deleted: bool) -> Select[Any]:
    query = query if deleted else query.where(~versions.c.deleted)
    return query.order_by(versions.c.version.desc())


def _context(context: str) -> Select[Any]:
    return select(contexts.c.context).where(contexts.c.context == context)


def _stored(row: Row[Any]) -> Stored:
    return Stored(row.subject, row.version, row.id, _content(row), row.ts, bool(row.deleted))


def _content(row: Row[Any]) -> Content:
    refs = tuple(Reference(*one) for one in json.loads(row.refs))
    body = None if row.metadata is None else json.loads(row.metadata)
    return Content(bytes(row.identity), row.text, row.kind, refs, body)
