// The official MCP client for JavaScript, over HTTP: tools listed, both called, an unsigned call refused.
import assert from 'node:assert/strict'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { Caller, KEY } from './vacant_sign.mjs'

const client = new Client({ name: 'official', version: '1' })
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])))
const { tools } = await client.listTools()
assert.deepEqual(tools.map(({ name }) => name), ['vacant_call', 'vacant_describe'])
const described = await client.callTool({ name: 'vacant_describe', arguments: {} })
const caller = new Caller(described.structuredContent.vacant_id)

const call = (text, isSigned) => {
  const metadata = isSigned ? { [KEY]: caller.envelope(text) } : {}
  const parts = [{ type: 'text', text }]
  const message = { role: 'ROLE_USER', parts, contextId: null, messageId: null, metadata }
  const envelope = { jsonrpc: '2.0', id: '1', method: 'message/send', params: { message } }
  return client.callTool({ name: 'vacant_call', arguments: { envelope } })
}

for (const text of ['one', 'two']) {
  const { message } = (await call(text, true)).structuredContent
  const texts = message.parts.map((part) => part.text)
  assert.deepEqual(texts, [`echo: ${text}`])
  caller.verify(message.metadata[KEY], message.role, texts, message.contextId, message.messageId)
}
const refused = await call('unsigned', false)
assert(refused.isError)
assert.equal(refused.structuredContent.code, 'ENVELOPE_FORMAT')
await client.close()
console.log(`@modelcontextprotocol/sdk: verified number ${caller.heard}, unsigned refused`)
