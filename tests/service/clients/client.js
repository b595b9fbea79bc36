// @kafkajs/confluent-schema-registry against the registry whose URL is the argument.
const assert = require('assert')
const { SchemaRegistry, SchemaType, COMPATIBILITY } = require('@kafkajs/confluent-schema-registry')

const order = {
  type: 'record',
  name: 'Order',
  namespace: 'shop',
  fields: [{ name: 'id', type: 'long' }, { name: 'note', type: ['null', 'string'], default: null }],
}
const wider = { ...order, fields: [...order.fields, { name: 'paid', type: 'boolean', default: false }] }
const proto = 'syntax = "proto3";\npackage shop;\nmessage Stop { int64 id = 1; string name = 2; }\n'
const json = JSON.stringify({ type: 'object', properties: { id: { type: 'integer' } }, additionalProperties: false })

async function main(host) {
  const registry = new SchemaRegistry({ host })
  const avro = { type: SchemaType.AVRO, schema: JSON.stringify(order) }
  const first = await registry.register(avro, { subject: 'orders-value', compatibility: COMPATIBILITY.FULL })
  assert.deepStrictEqual(await registry.register(avro, { subject: 'orders-value', compatibility: COMPATIBILITY.FULL }), first)
  assert.strictEqual(await registry.getRegistryIdBySchema('orders-value', avro), first.id)
  const message = await registry.encode(first.id, { id: 5, note: 'five' })
  assert.strictEqual(message.readInt32BE(1), first.id)
  assert.deepStrictEqual({ ...(await new SchemaRegistry({ host }).decode(message)) }, { id: 5, note: 'five' })

  const second = await registry.register({ type: SchemaType.AVRO, schema: JSON.stringify(wider) }, { subject: 'orders-value', compatibility: COMPATIBILITY.FULL })
  assert.notStrictEqual(second.id, first.id)
  assert.strictEqual(await registry.getRegistryId('orders-value', 1), first.id)
  assert.strictEqual(await registry.getLatestSchemaId('orders-value'), second.id)
  const refused = { ...order, fields: [{ name: 'id', type: 'string' }] }
  await assert.rejects(
    registry.register({ type: SchemaType.AVRO, schema: JSON.stringify(refused) }, { subject: 'orders-value', compatibility: COMPATIBILITY.FULL }),
    error => error.status === 409
  )
  await assert.rejects(registry.getSchema(4711), error => error.status === 404)

  for (const [type, schema, value] of [
    [SchemaType.PROTOBUF, proto, { id: 7, name: 'seven' }],
    [SchemaType.JSON, json, { id: 7 }],
  ]) {
    const { id } = await registry.register({ type, schema }, { subject: `stops-${type}` })
    const decoded = await new SchemaRegistry({ host }).decode(await registry.encode(id, value))
    assert.deepStrictEqual(JSON.parse(JSON.stringify({ ...decoded, id: Number(decoded.id) })), value)
  }
}

main(process.argv[2]).catch(error => {
  console.error(error)
  process.exit(1)
})
