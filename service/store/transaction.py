"""The queries of one transaction; the promises are those of `service.registry.ports`."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, and_, bindparam, case, delete, exists, func, insert, select, update

from ticdc_bridge.service.registry import model
from ticdc_bridge.service.registry.model import LAST_COUNTED, Content, StoredVersion, StoredWarning, VersionRow
from ticdc_bridge.service.registry.names import DEFAULT_CONTEXT, qualify
from ticdc_bridge.service.registry.ports import ANYTHING, CONTEXTS, ReadKey, current_reads
from ticdc_bridge.service.store import statements, tables
from ticdc_bridge.service.store.rows import content_of, schema_row, version_of_row, version_row
from ticdc_bridge.service.store.tables import configs, contexts, facts, lineage, modes, references, schemas, versions


def subject_key(subject: str) -> ReadKey:
    return "subject", subject


def id_key(context: str, schema_id: int) -> ReadKey:
    """An id, and the versions that hold it."""
    return "id", context, str(schema_id)


class Transaction:
    """Reader and Writer on one SQL connection."""

    def __init__(self, connection: Connection, changes: set[ReadKey] | None = None) -> None:
        """`changes`: None to read only; else what this transaction changes is added to it."""
        self._connection = connection
        self._changes: set[ReadKey] = set() if changes is None else changes
        reads = current_reads.get()
        self._reads: set[ReadKey] = set() if reads is None else reads.keys
        if reads is not None and changes is not None:
            reads.wrote = True

    @property
    def _sql(self) -> Connection:
        return self._connection

    @property
    def connection(self) -> Connection:
        """For other things that are kept in the same store: what is done on it belongs to this transaction."""
        return self._sql

    # ---- reading

    def version(self, subject: str, version: int) -> StoredVersion | None:
        self._reads.add(subject_key(subject))
        return self._first_row(statements.VERSION_OF(self._sql, subject=subject, version=version))

    def latest(self, subject: str, *, deleted: bool = False) -> StoredVersion | None:
        self._reads.add(subject_key(subject))
        return self._first_row(statements.LATEST[deleted](self._sql, subject=subject))

    def by_content(
        self, subject: str, content: Content, *, deleted: bool = False, schema_id: int | None = None
    ) -> StoredVersion | None:
        self._reads.add(subject_key(subject))
        if schema_id is None:
            same = statements.BY_CONTENT[deleted]
            return self._first_row(same(self._sql, subject=subject, identity=content.identity, kind=content.kind))
        query = statements.FULL.where(versions.c.subject == subject, versions.c.id == schema_id)
        query = query.where(schemas.c.identity == content.identity, schemas.c.kind == content.kind)
        query = query if deleted else query.where(~versions.c.deleted)
        return self._first_row(self._sql.execute(query.order_by(versions.c.version.desc()).limit(1)))

    def lookalikes(self, subject: str, likeness: bytes, *, deleted: bool = False) -> list[StoredVersion]:
        self._reads.add(subject_key(subject))
        return self._all(statements.LOOKALIKES[deleted](self._sql, subject=subject, likeness=likeness))

    def versions(self, subject: str) -> list[VersionRow]:
        self._reads.add(subject_key(subject))
        return self._rows(statements.VERSIONS(self._sql, subject=subject))

    def live_versions(self, subject: str) -> list[StoredVersion]:
        self._reads.add(subject_key(subject))
        query = statements.FULL.where(versions.c.subject == subject, ~versions.c.deleted)
        return self._all(self._sql.execute(query.order_by(versions.c.version)))

    def holders(self, context: str, schema_id: int) -> list[StoredVersion]:
        self._reads.add(id_key(context, schema_id))
        return self._all(statements.HOLDERS(self._sql, context=context, id=schema_id))

    def holders_of(self, context: str | None, ids: Collection[int], *, deleted: bool = False) -> list[VersionRow]:
        self._reads.add(ANYTHING)
        query = statements.ROW if deleted else statements.ROW.where(~versions.c.deleted)
        query = query if context is None else query.where(versions.c.context == context)
        query = query.order_by(versions.c.seq)
        cursors = (self._sql.execute(query.where(versions.c.id.in_(some))) for some in statements.chunks(ids))
        return [row for cursor in cursors for row in self._rows(cursor)]

    def holding(self, identities: Collection[bytes]) -> list[tuple[bytes, VersionRow]]:
        self._reads.add(ANYTHING)
        rows: list[Any] = []
        for some in statements.chunks(identities):
            padded = statements.pad(some)
            rows += statements.holding_of(len(padded))(self._sql, **statements.number_parameters(padded))
        return [(bytes(entry), VersionRow(subject, version, id_, False)) for entry, subject, version, id_ in rows]

    def repeats(self, contents: Collection[tuple[str, bytes]]) -> set[tuple[str, bytes]]:
        self._reads.add(ANYTHING)
        existing = set[tuple[str, bytes]]()
        for some in statements.chunks(contents):
            padded = statements.pad(some)
            subjects, identities = ([entry[index] for entry in padded] for index in range(2))
            number = statements.number_parameters
            find = statements.repeats_of(len(padded))
            rows = find(self._sql, **number(subjects, "subject"), **number(identities, "identity"))
            existing.update((subject, bytes(identity)) for subject, identity in rows)
        return existing & set(contents)

    def newest(self, search: str, text: str, *, deleted: bool = False) -> list[StoredVersion]:
        self._reads.add(ANYTHING)
        if "\0" in search + text:
            return []  # as in `search`
        higher = versions.alias()
        above = exists().where(higher.c.subject == versions.c.subject, higher.c.version > versions.c.version)
        query = statements.FULL.where(~above)
        if not deleted:
            query = statements.FULL.where(~versions.c.deleted, ~above.where(~higher.c.deleted))
        for column, looked_for in ((versions.c.subject, search), (schemas.c.text, text)):
            if looked_for:  # a LIKE has a longest pattern, and letters of its own
                query = query.where(func.replace(func.lower(column), func.lower(looked_for), "") != func.lower(column))
        return sorted(self._all(self._sql.execute(query)), key=lambda stored: stored.subject)

    def versions_of(self, subjects: Collection[str]) -> list[model.ListedVersion]:
        self._reads.add(ANYTHING)
        query = statements.LISTED.order_by(versions.c.version)
        names = [subject for subject in subjects if "\0" not in subject]
        cursors = (self._sql.execute(query.where(versions.c.subject.in_(some))) for some in statements.chunks(names))
        return [
            model.ListedVersion(*row[:3], bool(row.deleted), row.kind, row.ts) for cursor in cursors for row in cursor
        ]

    def search(self, prefix: str, *, deleted: bool = False) -> list[StoredVersion]:
        self._reads.add(ANYTHING)
        if "\0" in prefix:
            return []  # no name holds it, and PostgreSQL refuses to look for it
        query = statements.FULL.where(func.substr(versions.c.subject, 1, len(prefix)) == prefix)
        query = query if deleted else query.where(~versions.c.deleted)
        # Not ORDER BY: a database may sort by the rules of a language.
        return sorted(self._all(self._sql.execute(query)), key=lambda stored: (stored.subject, stored.version))

    def subjects(self) -> list[tuple[str, bool]]:
        self._reads.add(ANYTHING)
        live = func.max(case((versions.c.deleted, 0), else_=1))
        rows = self._sql.execute(select(versions.c.subject, live).group_by(versions.c.subject))
        return sorted((subject, bool(alive)) for subject, alive in rows)

    def schema(self, context: str, schema_id: int) -> Content | None:
        self._reads.add(id_key(context, schema_id))
        query = statements.CONTENT.where(schemas.c.context == context, schemas.c.id == schema_id)
        row = self._sql.execute(query).first()
        return None if row is None else content_of(schema_id, *row)

    def id_of(self, context: str, content: Content) -> int | None:
        self._reads.add(ANYTHING)
        rows = statements.ID_OF(self._sql, context=context, identity=content.identity, kind=content.kind)
        return min((number for (number,) in rows), default=None)

    def ids_of(self, identity: bytes) -> list[tuple[str, int]]:
        self._reads.add(ANYTHING)
        return [(context, number) for context, number in statements.IDS_OF(self._sql, identity=identity)]

    def max_id(self, context: str) -> int:
        self._reads.add(ANYTHING)
        row = statements.MAX_ID(self._sql, context=context).fetchone()
        return int(row[0]) if row else 0

    def referrers(self, subject: str, version: int) -> list[VersionRow]:
        self._reads.add(ANYTHING)
        joined = and_(references.c.subject == versions.c.subject, references.c.version == versions.c.version)
        query = statements.ROW.join(references, joined)
        query = query.where(references.c.to_subject == subject, references.c.to_version == version)
        return self._rows(self._sql.execute(query))

    def configs(self, scopes: Sequence[str]) -> dict[str, dict[str, Any]]:
        self._reads.update(("config", scope) for scope in scopes)
        rows = statements.configs_of(len(scopes))(self._sql, **statements.number_parameters(scopes))
        return {scope: json.loads(body) for scope, body in rows}

    def all_configs(self) -> dict[str, dict[str, Any]]:
        self._reads.add(ANYTHING)
        return {scope: json.loads(body) for scope, body in self._sql.execute(select(configs.c.scope, configs.c.body))}

    def modes(self, scopes: Sequence[str]) -> dict[str, str]:
        self._reads.update(("mode", scope) for scope in scopes)
        return dict(statements.modes_of(len(scopes))(self._sql, **statements.number_parameters(scopes)).fetchall())

    def all_modes(self) -> dict[str, str]:
        self._reads.add(ANYTHING)
        return dict(self._sql.execute(select(modes.c.scope, modes.c.mode)).fetchall())

    def marks(self) -> dict[str, int]:
        self._reads.add(ANYTHING)
        return dict(self._sql.execute(select(tables.counters.c.context, tables.counters.c.last)).fetchall())

    def contexts(self) -> list[str]:
        self._reads.add(CONTEXTS)
        return sorted(self._sql.execute(select(contexts.c.context)).scalars())

    def counts(self) -> model.Counts:
        self._reads.add(ANYTHING)
        kinds = select(schemas.c.kind, versions.c.deleted, func.count())
        kinds = kinds.join_from(versions, schemas, statements.SCHEMA_OF)
        by_state: dict[bool, dict[str, int]] = {False: {}, True: {}}
        for kind, deleted, number in self._sql.execute(kinds.group_by(schemas.c.kind, versions.c.deleted)):
            by_state[bool(deleted)][kind] = number
        subjects = select(func.count(versions.c.subject.distinct())).where(~versions.c.deleted)
        total = self._sql.execute(select(func.count()).select_from(schemas)).scalar_one()
        return model.Counts(total, self._sql.execute(subjects).scalar_one(), by_state[False], by_state[True])

    def warnings(self) -> list[StoredWarning]:
        self._reads.add(ANYTHING)
        query = select(*(tables.warnings.c[name] for name in ("subject", "version", "kind", "message", "ts")))
        return [StoredWarning(*row) for row in self._sql.execute(query.order_by(tables.warnings.c.seq))]

    def lineage(self) -> list[model.Lineage]:
        return [
            model.Lineage(*row) for row in self._sql.execute(select(lineage).order_by(lineage.c.first, lineage.c.key))
        ]

    # ---- writing

    def _note(self, keys: Collection[ReadKey]) -> None:
        """What these keys stand for is about to change."""
        self._changes.update(keys)

    def new_id(self, context: str) -> int:
        number = self.max_id(context) + 1
        while number > LAST_COUNTED and self._was_imported(context, number):
            number += 1
        self._count(context, number)
        return number

    def use_id(self, context: str, number: int) -> None:
        if number <= max(LAST_COUNTED, self.max_id(context)):
            self._count(context, number)
        elif not self._was_imported(context, number):
            self._sql.execute(insert(facts).values(name=imported_id(context, number), value=""))

    def _was_imported(self, context: str, number: int) -> bool:
        imported = select(facts.c.name).where(facts.c.name == imported_id(context, number))
        self._reads.add(ANYTHING)
        return self._sql.execute(imported).first() is not None

    def _count(self, context: str, number: int) -> None:
        last = statements.MAX_ID(self._sql, context=context).fetchone()
        if last is None:
            statements.FIRST_ID(self._sql, context=context, last=number)
        elif last[0] < number:
            statements.NEXT_ID(self._sql, this=context, last=number)

    def put_schema(self, context: str, schema_id: int, content: Content) -> None:
        row = schema_row(context, schema_id, content)
        self._note([id_key(context, schema_id)])
        statements.PUT_SCHEMA(self._sql, **row)

    def put_version(self, context: str, subject: str, version: int, schema_id: int, content: Content, ts: int) -> None:
        self._note([subject_key(subject), id_key(context, schema_id)])
        statements.PUT_VERSION(self._sql, **version_row(context, subject, version, schema_id, ts))
        if context != DEFAULT_CONTEXT:
            self.put_context(context)
        targets = {(qualify(reference.subject or "", context), reference.version) for reference in content.references}
        for to_subject, to_version in targets:
            values = {"subject": subject, "version": version, "to_subject": to_subject, "to_version": to_version}
            self._sql.execute(insert(references).values(values))

    def soft_delete(self, subject: str, numbers: Iterable[int]) -> None:
        where = and_(versions.c.subject == subject, versions.c.version.in_(list(numbers)))
        ids = self._sql.execute(select(versions.c.context, versions.c.id).where(where).distinct())
        self._note([subject_key(subject), *(id_key(context, schema_id) for context, schema_id in ids)])
        self._sql.execute(update(versions).where(where).values(deleted=True))

    def remove(self, subject: str, numbers: Iterable[int]) -> None:
        version_numbers = list(numbers)
        if not version_numbers:
            return
        those = and_(versions.c.subject == subject, versions.c.version.in_(version_numbers))
        ids = list(self._sql.execute(select(versions.c.context, versions.c.id).where(those).distinct()))
        self._note([subject_key(subject), *(id_key(context, schema_id) for context, schema_id in ids)])
        for table in (references, versions, tables.warnings):
            self._sql.execute(delete(table).where(table.c.subject == subject, table.c.version.in_(version_numbers)))
        in_use = exists().where(statements.SCHEMA_OF)
        for context, schema_id in ids:
            this = and_(schemas.c.context == context, schemas.c.id == schema_id)
            self._sql.execute(delete(schemas).where(this, ~in_use))

    def put_config(self, scope: str, config: dict[str, Any]) -> None:
        self.drop_config(scope)
        self._sql.execute(insert(configs).values(scope=scope, body=json.dumps(config, ensure_ascii=False)))

    def drop_config(self, scope: str) -> None:
        self._note([("config", scope)])
        self._sql.execute(delete(configs).where(configs.c.scope == scope))

    def put_mode(self, scope: str, mode: str | None) -> None:
        self._note([("mode", scope)])
        self._sql.execute(delete(modes).where(modes.c.scope == scope))
        if mode is not None:
            self._sql.execute(insert(modes).values(scope=scope, mode=mode))

    def put_context(self, context: str) -> None:
        if not self._sql.execute(select(contexts.c.context).where(contexts.c.context == context)).first():
            self._note([CONTEXTS])
            self._sql.execute(insert(contexts).values(context=context))

    def drop_context(self, context: str) -> None:
        self._note([CONTEXTS])
        self._sql.execute(delete(contexts).where(contexts.c.context == context))

    def put_warning(self, warned: StoredWarning) -> None:
        self._sql.execute(insert(tables.warnings).values(**asdict(warned)))

    def add_lineage(self, edges: Collection[model.Lineage]) -> None:
        c, existing = lineage.c, set[str]()
        for some in statements.chunks([edge.key for edge in edges]):
            existing.update(self._sql.execute(select(c.key).where(c.key.in_(some))).scalars())
        more = update(lineage).where(c.key == bindparam("of"))
        more = more.values(rows=c.rows + bindparam("more"), last=bindparam("now"), body=bindparam("text"))
        again = [edge for edge in edges if edge.key in existing]
        repeated = [{"of": entry.key, "more": entry.rows, "now": entry.last, "text": entry.body} for entry in again]
        new = [asdict(edge) for edge in edges if edge.key not in existing]
        for statement, rows in ((more, repeated), (insert(lineage), new)):
            if rows:
                self._sql.execute(statement, rows)

    # ---- rows

    def _first_row(self, cursor: Any) -> StoredVersion | None:
        row = cursor.fetchone()
        return None if row is None else version_of_row(row)

    def _all(self, cursor: Any) -> list[StoredVersion]:
        return [version_of_row(row) for row in cursor]

    def _rows(self, cursor: Any) -> list[VersionRow]:
        return [VersionRow(subject, version, id_, bool(deleted)) for subject, version, id_, deleted in cursor]


def imported_id(context: str, number: int) -> str:
    """The fact that an id above LAST_COUNTED was imported."""
    return f"imported id {number} of {context}"
