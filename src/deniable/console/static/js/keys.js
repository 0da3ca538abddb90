// Signing keys that stay in the browser. A key is read from a file, kept without a way to read it out, and used to sign here.

/** @typedef {{owner: string, id: string, sign: (content: Uint8Array) => Promise<string>}} SigningKey */

const PREFIX = '302e020100300506032b657004220420';
const SEPARATOR = 'deniable query 1\0';
const ID_SEPARATOR = 'deniable key 1\0';
const FORMAT = 'deniable private key 1';
const text = new TextEncoder();

/** @param {ArrayBuffer|Uint8Array} bytes */
export const hex = (bytes) => [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
/** @param {string} digits @returns {Uint8Array<ArrayBuffer>} */
export const unhex = (digits) => Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
/** @param {string} given @returns {Uint8Array<ArrayBuffer>} */
const base64 = (given) => Uint8Array.from(atob(given.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
/** @param {Uint8Array[]} parts @returns {Uint8Array<ArrayBuffer>} */
function joined(...parts) {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** Whether this browser and this address can sign. */
export const canSign = () => Boolean(globalThis.crypto?.subtle);

/** The bytes that are signed. @param {string} content the canonical text of a query */
export const signedBytes = (content) => text.encode(SEPARATOR + content);

/** 16 hexadecimal digits that name a key. @param {Uint8Array} raw */
export async function keyId(raw) {
  return hex(await crypto.subtle.digest('SHA-256', joined(text.encode(ID_SEPARATOR), raw))).slice(0, 16);
}

/**
 * The key in a file: one of `deniable query keygen`, or PKCS#8 PEM, which does not say whose it is.
 * @param {string} content @param {string} owner @returns {Promise<SigningKey>}
 */
export async function readKey(content, owner) {
  let whose = owner, pkcs8;
  if (content.includes('-----BEGIN PRIVATE KEY-----')) {
    if (!owner) throw new Error('A PEM file does not say whose key it is: write the analyst\u2019s name first.');
    pkcs8 = base64(content.replace(/-----[^-]+-----/g, '').replace(/\s/g, ''));
  } else if (content.includes('-----BEGIN ENCRYPTED')) {
    throw new Error('This PEM file is encrypted. Decrypt it with openssl first, or sign on the command line.');
  } else {
    const told = JSON.parse(content);
    if (told.format !== FORMAT || !/^[0-9a-f]{64}$/.test(told.secret)) throw new Error('This is not a private key of deniable, nor PEM.');
    whose = String(told.owner);
    pkcs8 = unhex(PREFIX + told.secret);
  }
  // Only while its public half is found can the key be read out; the one that is kept cannot.
  const open = await crypto.subtle.importKey('pkcs8', pkcs8, { name: 'Ed25519' }, true, ['sign']);
  const jwk = await crypto.subtle.exportKey('jwk', open);
  const raw = base64(String(jwk.x));
  const kept = await crypto.subtle.importKey('pkcs8', pkcs8, { name: 'Ed25519' }, false, ['sign']);
  pkcs8.fill(0);
  return {
    owner: whose, id: await keyId(raw),
    sign: async (bytes) => hex(await crypto.subtle.sign({ name: 'Ed25519' }, kept, /** @type {BufferSource} */ (bytes))),
  };
}

/** Whether a signature over a query holds. @param {string} publicHex @param {string} signature @param {string} content */
export async function verifies(publicHex, signature, content) {
  const key = await crypto.subtle.importKey('raw', unhex(publicHex), { name: 'Ed25519' }, false, ['verify']);
  return crypto.subtle.verify({ name: 'Ed25519' }, key, unhex(signature), signedBytes(content));
}

/** A signed query, as it is published. @param {string} content @param {SigningKey} key */
export async function signedQuery(content, key) {
  const signature = await key.sign(signedBytes(content));
  return JSON.stringify({ format: 'deniable signed query 1', query: content, key: key.id, signature });
}

/** The same text for the same languages, in whatever order they are. @param {object|undefined} texts */
const ordered = (texts) => JSON.stringify(Object.entries(texts ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)));

/**
 * What the canonical text of a query says, where it differs from what was written: what is signed is what one sees.
 * @param {string} content @param {{id: string, analyst: string, question: string, sql: string, ask: string, value: string, once: boolean, public_results: boolean, columns: {buckets: string[], question?: object, labels?: object}[]}} written
 * @returns {string[]}
 */
export function differences(content, written) {
  const told = JSON.parse(content), out = [];
  for (const name of /** @type {const} */ (['id', 'analyst', 'question', 'sql'])) if (told[name] !== written[name]) out.push(name);
  // What is unset is left out of canonical bytes.
  const unset = /** @type {const} */ ({ ask: 'sql', value: '', once: false, public_results: false });
  for (const name of /** @type {const} */ (['ask', 'value', 'once', 'public_results'])) if ((told[name] ?? unset[name]) !== written[name]) out.push(name);
  written.columns.forEach((column, i) => {
    const found = told.columns[i];
    if (found?.buckets.length !== column.buckets.length) out.push('buckets');
    for (const name of /** @type {const} */ (['question', 'labels'])) if (ordered(found?.[name]) !== ordered(column[name])) out.push(`the form's ${name}`);
  });
  return out;
}
