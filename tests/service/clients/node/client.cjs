// What @kafkajs/confluent-schema-registry makes of a registry.
// In: the registry's URL as the argument, the job as JSON on stdin. Out: what it saw, as JSON on stdout.
'use strict'

const { SchemaRegistry, SchemaType, COMPATIBILITY } = require('@kafkajs/confluent-schema-registry')

const host = process.argv[2]
const opened = options => new SchemaRegistry({ host, retry: { retries: 0 } }, options)

async function refusal(promise) {
  try {
    return { answer: await promise }
  } catch (error) {
    return { name: error.name, status: error.status, message: error.message }
  }
}

async function avro({ schema, wider, narrower, value, subject, written }) {
  const registry = opened()
  const known = { type: SchemaType.AVRO, schema }
  const { id } = await registry.register(known, { subject })
  const message = await registry.encode(id, value)
  const seen = {
    id,
    again: (await registry.register(known, { subject })).id,
    bySchema: await registry.getRegistryIdBySchema(subject, known),
    message: message.toString('base64'),
    refused: await refusal(registry.register({ type: SchemaType.AVRO, schema: narrower }, { subject })),
    otherLevel: await refusal(registry.register(known, { subject, compatibility: COMPATIBILITY.FULL })),
    wider: (await registry.register({ type: SchemaType.AVRO, schema: wider }, { subject })).id,
    first: await registry.getRegistryId(subject, 1),
    latest: await registry.getLatestSchemaId(subject),
  }
  const reader = opened() // it knows no schema yet
  const readerSchema = { type: SchemaType.AVRO, schema: wider }
  seen.own = await reader.decode(message)
  seen.written = await reader.decode(Buffer.from(written, 'base64'))
  seen.asWider = await reader.decode(message, { [SchemaType.AVRO]: { readerSchema: await reader.getSchema(seen.wider) } })
  return seen
}

async function named({ schema, value }) {
  // Without a subject the client makes one of the record's name.
  const registry = opened()
  const { id } = await registry.register(JSON.parse(schema))
  return { id, message: (await registry.encode(id, value)).toString('base64') }
}

async function referring(type, { part, partSubject, whole, subject, name, value, written }) {
  const registry = opened()
  const partId = (await registry.register({ type, schema: part }, { subject: partSubject })).id
  const references = [{ name, subject: partSubject, version: 1 }]
  const { id } = await registry.register({ type, schema: whole, references }, { subject })
  const message = await registry.encode(id, value)
  return {
    partId,
    id,
    message: message.toString('base64'),
    own: await opened().decode(message),
    written: await opened().decode(Buffer.from(written, 'base64')),
  }
}

async function missing() {
  return {
    id: await refusal(opened().getSchema(4711)),
    subject: await refusal(opened().getLatestSchemaId('nobody')),
    version: await refusal(opened().getRegistryId('node-orders-value', 9)),
    // protobufjs takes it, so that it is the registry that refuses it
    invalid: await refusal(
      opened().register({ type: SchemaType.PROTOBUF, schema: 'syntax = "proto3"; message M { Nowhere at = 1; }' }, { subject: 'bad' }),
    ),
  }
}

async function main() {
  const job = JSON.parse(require('fs').readFileSync(0, 'utf8'))
  const seen = {
    avro: await avro(job.avro),
    named: await named(job.named),
    avroReferring: await referring(SchemaType.AVRO, job.avroReferring),
    json: await referring(SchemaType.JSON, job.json),
    protobuf: await referring(SchemaType.PROTOBUF, job.protobuf),
    missing: await missing(),
  }
  process.stdout.write(JSON.stringify(seen))
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
