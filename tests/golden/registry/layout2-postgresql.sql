CREATE TABLE public.bridge_facts (
    name character varying NOT NULL,
    value text NOT NULL
);
CREATE TABLE public.configs (
    scope character varying NOT NULL,
    body text NOT NULL
);
CREATE TABLE public.contexts (
    context character varying NOT NULL
);
CREATE TABLE public.id_counters (
    context character varying NOT NULL,
    last bigint NOT NULL
);
CREATE TABLE public.modes (
    scope character varying NOT NULL,
    mode character varying NOT NULL
);
CREATE TABLE public.schemas (
    context character varying NOT NULL,
    id integer NOT NULL,
    identity bytea NOT NULL,
    kind character varying NOT NULL,
    text text NOT NULL,
    refs text NOT NULL,
    metadata text
);
CREATE TABLE public.version_references (
    subject character varying NOT NULL,
    version integer NOT NULL,
    to_subject character varying NOT NULL,
    to_version integer NOT NULL
);
CREATE TABLE public.versions (
    seq integer NOT NULL,
    subject character varying NOT NULL,
    version integer NOT NULL,
    context character varying NOT NULL,
    id integer NOT NULL,
    ts bigint NOT NULL,
    deleted boolean NOT NULL
);
CREATE SEQUENCE public.versions_seq_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.versions_seq_seq OWNED BY public.versions.seq;
CREATE TABLE public.warnings (
    seq integer NOT NULL,
    subject character varying NOT NULL,
    version integer NOT NULL,
    kind character varying NOT NULL,
    message text NOT NULL,
    ts bigint NOT NULL
);
CREATE SEQUENCE public.warnings_seq_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.warnings_seq_seq OWNED BY public.warnings.seq;
ALTER TABLE ONLY public.versions ALTER COLUMN seq SET DEFAULT nextval('public.versions_seq_seq'::regclass);
ALTER TABLE ONLY public.warnings ALTER COLUMN seq SET DEFAULT nextval('public.warnings_seq_seq'::regclass);
INSERT INTO public.bridge_facts VALUES ('layout', '2');
INSERT INTO public.bridge_facts VALUES ('changes', '14');
INSERT INTO public.bridge_facts VALUES ('writer edb1f305-534b-46ab-8d88-0759fc4e04ce', '14');
INSERT INTO public.configs VALUES ('s', '{"compatibilityLevel": "FULL"}');
INSERT INTO public.contexts VALUES ('.c');
INSERT INTO public.id_counters VALUES ('.c', 2);
INSERT INTO public.id_counters VALUES ('.', 6);
INSERT INTO public.modes VALUES ('d', 'READONLY');
INSERT INTO public.schemas VALUES ('.', 1, '\xef524ea1b91e73173d938ade36c1db32', 'AVRO', '"int"', '[]', NULL);
INSERT INTO public.schemas VALUES ('.', 2, '\x8bbb98c2ed1cbed50e91b124f5b02aaf', 'AVRO', '"int"', '[]', '{"properties": {"a": "ä"}}');
INSERT INTO public.schemas VALUES ('.', 3, '\x670105d86e769b35df16f102c149808c', 'AVRO', '{"type":"record","name":"In","fields":[{"name":"a","type":"int"}]}', '[]', NULL);
INSERT INTO public.schemas VALUES ('.c', 1, '\xe651acd790d3301cd08bdadccfef6a56', 'AVRO', '{"type":"record","name":"In","fields":[{"name":"b","type":"int"}]}', '[]', NULL);
INSERT INTO public.schemas VALUES ('.c', 2, '\x9cc086e02b739ca468153ed154a8de75', 'AVRO', '{"type":"record","name":"Out","fields":[{"name":"i","type":"In"}]}', '[["In", ":.:inner", 1]]', NULL);
INSERT INTO public.schemas VALUES ('.', 4, '\x308f9d6ef0c842ab2864b33293f26d4e', 'AVRO', '{"type":"record","name":"D","fields":[{"name":"x","type":{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}}]}', '[]', NULL);
INSERT INTO public.schemas VALUES ('.', 5, '\xe71fa06c38a5c15828f4a9fa10a9ce72', 'AVRO', '{"type":"record","name":"D","fields":[{"name":"x","type":{"type":"bytes","logicalType":"decimal","precision":10,"scale":4}}]}', '[]', NULL);
INSERT INTO public.version_references VALUES (':.c:outer', 1, 'inner', 1);
INSERT INTO public.versions VALUES (1, 's', 1, '.', 1, 1795285057226, false);
INSERT INTO public.versions VALUES (2, 's', 2, '.', 2, 1795285057236, true);
INSERT INTO public.versions VALUES (3, 'inner', 1, '.', 3, 1795285057244, false);
INSERT INTO public.versions VALUES (4, ':.c:inner', 1, '.c', 1, 1795285057248, false);
INSERT INTO public.versions VALUES (5, ':.c:outer', 1, '.c', 2, 1795285057254, false);
INSERT INTO public.versions VALUES (6, 'd', 1, '.', 4, 1795285057259, false);
INSERT INTO public.versions VALUES (7, 'd', 2, '.', 5, 1795285057264, false);
INSERT INTO public.warnings VALUES (1, 'd', 2, 'LOGICAL_TYPE_CHANGED', 'x: bytes decimal(10,2) became bytes decimal(10,4); the stored integer has no point, so 123 written as scale 2 is read as scale 4, a value that is wrong by a power of ten', 1795285057264);
SELECT pg_catalog.setval('public.versions_seq_seq', 8, true);
SELECT pg_catalog.setval('public.warnings_seq_seq', 1, true);
ALTER TABLE ONLY public.bridge_facts
    ADD CONSTRAINT bridge_facts_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.configs
    ADD CONSTRAINT configs_pkey PRIMARY KEY (scope);
ALTER TABLE ONLY public.contexts
    ADD CONSTRAINT contexts_pkey PRIMARY KEY (context);
ALTER TABLE ONLY public.id_counters
    ADD CONSTRAINT id_counters_pkey PRIMARY KEY (context);
ALTER TABLE ONLY public.modes
    ADD CONSTRAINT modes_pkey PRIMARY KEY (scope);
ALTER TABLE ONLY public.schemas
    ADD CONSTRAINT schemas_pkey PRIMARY KEY (context, id);
ALTER TABLE ONLY public.version_references
    ADD CONSTRAINT version_references_pkey PRIMARY KEY (subject, version, to_subject, to_version);
ALTER TABLE ONLY public.versions
    ADD CONSTRAINT versions_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY public.versions
    ADD CONSTRAINT versions_subject_version_key UNIQUE (subject, version);
ALTER TABLE ONLY public.warnings
    ADD CONSTRAINT warnings_pkey PRIMARY KEY (seq);
CREATE INDEX references_by_target ON public.version_references USING btree (to_subject, to_version);
CREATE INDEX schemas_by_identity ON public.schemas USING btree (identity, context);
CREATE INDEX versions_by_id ON public.versions USING btree (context, id);
CREATE INDEX warnings_by_subject ON public.warnings USING btree (subject, version);
ALTER TABLE ONLY public.versions
    ADD CONSTRAINT versions_context_id_fkey FOREIGN KEY (context, id) REFERENCES public.schemas(context, id);
