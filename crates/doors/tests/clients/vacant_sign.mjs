// A vacant in a few lines: signs calls and verifies answers with nothing of Chancery's own.
import assert from 'node:assert/strict'
import { createPublicKey, generateKeyPairSync, randomUUID, sign, verify } from 'node:crypto'
import { createRequire } from 'node:module'

export const KEY = 'urn:vacant:v1'
const { blake2b } = createRequire(import.meta.url)('@noble/hashes/blake2.js')
const ED25519_SPKI = Buffer.from('302a300506032b6570032100', 'hex')

// Sorted members, no white space; enough for texts without characters outside the BMP.
const canonical = (value) => {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  return `{${Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(',')}}`
}

const signedBytes = (meta, role, texts, contextId, messageId) => Buffer.from(canonical({
  from: meta.from_vacant_id, to: meta.to_vacant_id, seq: meta.sequence_no, ts: meta.timestamp,
  prev: meta.prev_envelope_hash, idem: meta.idempotency_key,
  payload: {
    contextId: contextId || null, messageId: messageId || null, role,
    parts: texts.map((text) => ({ type: 'text', text })),
  },
}))

export class Caller {
  constructor(target) {
    const pair = generateKeyPairSync('ed25519')
    this.key = pair.privateKey
    this.id = pair.publicKey.export({ type: 'spki', format: 'der' }).subarray(12).toString('hex')
    Object.assign(this, { target, number: 0, tip: '0'.repeat(64), heard: 0 })
  }

  envelope(text, messageId, contextId) {
    const meta = {
      from_vacant_id: this.id, to_vacant_id: this.target, sequence_no: this.number + 1,
      timestamp: new Date().toISOString().replace('Z', '000+00:00'),
      prev_envelope_hash: this.tip, idempotency_key: randomUUID(),
    }
    const signed = signedBytes(meta, 'ROLE_USER', [text], contextId, messageId)
    this.pending = Buffer.from(blake2b(signed, { dkLen: 32 })).toString('hex')
    return { ...meta, caller_signature: sign(null, signed, this.key).toString('hex') }
  }

  verify(meta, role, texts, contextId, messageId) {
    const spki = Buffer.concat([ED25519_SPKI, Buffer.from(this.target, 'hex')])
    const key = createPublicKey({ key: spki, type: 'spki', format: 'der' })
    const signed = signedBytes(meta, role, texts, contextId, messageId)
    assert(verify(null, signed, key, Buffer.from(meta.caller_signature, 'hex')), 'the answer does not verify')
    assert.deepEqual([meta.from_vacant_id, meta.to_vacant_id], [this.target, this.id])
    assert.equal(meta.sequence_no, this.heard + 1)
    Object.assign(this, { number: this.number + 1, tip: this.pending, heard: this.heard + 1 })
  }
}
