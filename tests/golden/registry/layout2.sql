BEGIN TRANSACTION;
CREATE TABLE bridge_facts (
	name VARCHAR NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "bridge_facts" VALUES('layout','2');
CREATE TABLE configs (
	scope VARCHAR NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (scope)
);
INSERT INTO "configs" VALUES('s','{"compatibilityLevel": "FULL"}');
CREATE TABLE contexts (
	context VARCHAR NOT NULL, 
	PRIMARY KEY (context)
);
INSERT INTO "contexts" VALUES('.c');
CREATE TABLE id_counters (
	context VARCHAR NOT NULL, 
	last INTEGER NOT NULL, 
	PRIMARY KEY (context)
);
INSERT INTO "id_counters" VALUES('.',6);
INSERT INTO "id_counters" VALUES('.c',2);
CREATE TABLE modes (
	scope VARCHAR NOT NULL, 
	mode VARCHAR NOT NULL, 
	PRIMARY KEY (scope)
);
INSERT INTO "modes" VALUES('d','READONLY');
CREATE TABLE schemas (
	context VARCHAR NOT NULL, 
	id INTEGER NOT NULL, 
	identity BLOB NOT NULL, 
	kind VARCHAR NOT NULL, 
	text TEXT NOT NULL, 
	refs TEXT NOT NULL, 
	metadata TEXT, 
	PRIMARY KEY (context, id)
);
INSERT INTO "schemas" VALUES('.',1,X'EF524EA1B91E73173D938ADE36C1DB32','AVRO','"int"','[]',NULL);
INSERT INTO "schemas" VALUES('.',2,X'8BBB98C2ED1CBED50E91B124F5B02AAF','AVRO','"int"','[]','{"properties": {"a": "ä"}}');
INSERT INTO "schemas" VALUES('.',3,X'670105D86E769B35DF16F102C149808C','AVRO','{"type":"record","name":"In","fields":[{"name":"a","type":"int"}]}','[]',NULL);
INSERT INTO "schemas" VALUES('.c',1,X'E651ACD790D3301CD08BDADCCFEF6A56','AVRO','{"type":"record","name":"In","fields":[{"name":"b","type":"int"}]}','[]',NULL);
INSERT INTO "schemas" VALUES('.c',2,X'9CC086E02B739CA468153ED154A8DE75','AVRO','{"type":"record","name":"Out","fields":[{"name":"i","type":"In"}]}','[["In", ":.:inner", 1]]',NULL);
INSERT INTO "schemas" VALUES('.',4,X'308F9D6EF0C842AB2864B33293F26D4E','AVRO','{"type":"record","name":"D","fields":[{"name":"x","type":{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}}]}','[]',NULL);
INSERT INTO "schemas" VALUES('.',5,X'E71FA06C38A5C15828F4A9FA10A9CE72','AVRO','{"type":"record","name":"D","fields":[{"name":"x","type":{"type":"bytes","logicalType":"decimal","precision":10,"scale":4}}]}','[]',NULL);
CREATE TABLE version_references (
	subject VARCHAR NOT NULL, 
	version INTEGER NOT NULL, 
	to_subject VARCHAR NOT NULL, 
	to_version INTEGER NOT NULL, 
	PRIMARY KEY (subject, version, to_subject, to_version)
);
INSERT INTO "version_references" VALUES(':.c:outer',1,'inner',1);
CREATE TABLE versions (
	seq INTEGER NOT NULL, 
	subject VARCHAR NOT NULL, 
	version INTEGER NOT NULL, 
	context VARCHAR NOT NULL, 
	id INTEGER NOT NULL, 
	ts BIGINT NOT NULL, 
	deleted BOOLEAN NOT NULL, 
	PRIMARY KEY (seq), 
	UNIQUE (subject, version), 
	FOREIGN KEY(context, id) REFERENCES schemas (context, id)
);
INSERT INTO "versions" VALUES(1,'s',1,'.',1,1795285054662,0);
INSERT INTO "versions" VALUES(2,'s',2,'.',2,1795285054667,1);
INSERT INTO "versions" VALUES(3,'inner',1,'.',3,1795285054672,0);
INSERT INTO "versions" VALUES(4,':.c:inner',1,'.c',1,1795285054672,0);
INSERT INTO "versions" VALUES(5,':.c:outer',1,'.c',2,1795285054675,0);
INSERT INTO "versions" VALUES(6,'d',1,'.',4,1795285054679,0);
INSERT INTO "versions" VALUES(7,'d',2,'.',5,1795285054681,0);
CREATE TABLE warnings (
	seq INTEGER NOT NULL, 
	subject VARCHAR NOT NULL, 
	version INTEGER NOT NULL, 
	kind VARCHAR NOT NULL, 
	message TEXT NOT NULL, 
	ts BIGINT NOT NULL, 
	PRIMARY KEY (seq)
);
INSERT INTO "warnings" VALUES(1,'d',2,'LOGICAL_TYPE_CHANGED','x: bytes decimal(10,2) became bytes decimal(10,4); the stored integer has no point, so 123 written as scale 2 is read as scale 4, a value that is wrong by a power of ten',1795285054681);
CREATE INDEX schemas_by_identity ON schemas (identity, context);
CREATE INDEX references_by_target ON version_references (to_subject, to_version);
CREATE INDEX warnings_by_subject ON warnings (subject, version);
CREATE INDEX versions_by_id ON versions (context, id);
COMMIT;
