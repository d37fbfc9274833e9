// The official A2A client for JavaScript: card, signed send, stream, a typed error for an unsigned message.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { Role } from '@a2a-js/sdk'
import { ClientFactory } from '@a2a-js/sdk/client'
import { ExtensionSupportRequiredError } from '@a2a-js/sdk/errors'
import { Caller, KEY } from './vacant_sign.mjs'

const base = process.argv[2]
const client = await new ClientFactory().createFromUrl(base)
const card = await (await fetch(`${base}/.well-known/agent-card.json`)).json()
const extension = card.capabilities.extensions.find(({ uri }) => uri === `${KEY}:capability`)
const caller = new Caller(extension.params.vacant_id)

const request = (text, isSigned) => {
  const messageId = randomUUID()
  const metadata = isSigned ? { [KEY]: caller.envelope(text, messageId) } : undefined
  return {
    tenant: '',
    message: {
      messageId, contextId: '', taskId: '', role: Role.ROLE_USER, extensions: [], referenceTaskIds: [],
      parts: [{ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: '' }],
      metadata,
    },
    configuration: undefined,
    metadata: undefined,
  }
}

const check = (answer, text) => {
  const texts = answer.parts.map((part) => part.content.value)
  assert.deepEqual(texts, [`echo: ${text}`])
  caller.verify(answer.metadata[KEY], 'ROLE_AGENT', texts, answer.contextId, answer.messageId)
}

check(await client.sendMessage(request('one', true)), 'one')
const told = []
for await (const event of client.sendMessageStream(request('two', true))) told.push(event)
assert.equal(told.length, 1)
check(told[0].payload.value, 'two')
await assert.rejects(client.sendMessage(request('unsigned', false)), ExtensionSupportRequiredError)
console.log(`@a2a-js/sdk: verified number ${caller.heard}, unsigned refused`)
