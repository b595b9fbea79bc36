BEGIN TRANSACTION;
CREATE TABLE bridge_facts (
	name VARCHAR NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "bridge_facts" VALUES('layout','1');
CREATE TABLE configs (
	scope VARCHAR NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (scope)
);
INSERT INTO "configs" VALUES('s','{"compatibilityLevel": "FULL"}');
CREATE TABLE id_counters (
	context VARCHAR NOT NULL, 
	last INTEGER NOT NULL, 
	PRIMARY KEY (context)
);
INSERT INTO "id_counters" VALUES('.',3);
INSERT INTO "id_counters" VALUES('.c',2);
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
INSERT INTO "schemas" VALUES('.c',1,X'E1DD9A1EF98B451B53690370B393966B','AVRO','"long"','[]',NULL);
INSERT INTO "schemas" VALUES('.',2,X'2BD0DE4F5DAEC222929AD8559C86FF5F','AVRO','"long"','[]','{"properties": {"a": "b"}}');
INSERT INTO "schemas" VALUES('.',3,X'F1163F9DF4EA66A5D245047638262F86','AVRO','{"type":"record","name":"In","fields":[]}','[]',NULL);
INSERT INTO "schemas" VALUES('.c',2,X'FDF6BEDA07DED3C5F8ECEEB72FBBCA86','AVRO','{"type":"record","name":"Out","fields":[{"name":"i","type":"In"}]}','[["In", "inner", 1]]',NULL);
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
INSERT INTO "versions" VALUES(1,'s',1,'.',1,1795275421336,0);
INSERT INTO "versions" VALUES(2,':.c:s',1,'.c',1,1795275421348,0);
INSERT INTO "versions" VALUES(3,'s',2,'.',2,1795275421365,1);
INSERT INTO "versions" VALUES(4,'inner',1,'.',3,1795275421383,0);
INSERT INTO "versions" VALUES(5,':.c:outer',1,'.c',2,1795275421393,0);
CREATE INDEX schemas_by_identity ON schemas (identity, context);
CREATE INDEX references_by_target ON version_references (to_subject, to_version);
CREATE INDEX versions_by_id ON versions (context, id);
COMMIT;
