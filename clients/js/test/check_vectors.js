/** Compares the client with the vectors of tests/vectors; runs in Node and in a page alike. */

import { hex, unhex, utf8 } from "../src/bytes.js";
import { ConformingDevice } from "../src/conformance.js";
import { Query } from "../src/query.js";
import { Refusal, Ring, authenticate } from "../src/signing.js";
import { join, message, recordFault, shareRecord } from "../src/wire.js";
import { verifyPlainly } from "../src/ed25519.js";

const LATEST = 2 ** 40;
/** @param {any} value */
const text = (value) => JSON.stringify(value);
/** A tag as vectors write it, the highest byte first. @param {Uint8Array} bytes */
const tag = (bytes) => hex(bytes.slice(0, 8).reverse());

/** The steps of client-v1.json that differ, each with the fields in which it does. @param {any} vectors @param {(c: any) => boolean} [wanted] */
export const clientDifferences = async (vectors, wanted = () => true) => {
  const found = [];
  let steps = 0;
  for (const each of vectors.cases.filter(wanted)) {
    const device = new ConformingDevice();
    for (const [i, step] of each.steps.entries()) {
      steps++;
      const { ring, secret, proxies, queries } = vectors;
      const { now, rows, random } = step;
      const question = { fresh: i === 0, policy: { ...each.policy, proxies }, ring, secret, query: queries[step.query], now, rows, random };
      /** @type {{[name: string]: any}} */
      let said;
      try {
        said = await device.answer(question);
      } catch (error) {
        said = { outcome: String(error) };
      }
      const wrong = Object.keys(step.expect).filter((name) => text(said[name]) !== text(step.expect[name]));
      if (wrong.length) found.push(`${each.group}: ${each.name}, step ${i}: ${wrong.join(", ")}`);
    }
  }
  return { steps, found };
};

/** @param {any} key @param {string} owner */
const ringOf = (key, owner) => Ring.of([{ owner, public: key, valid_from: 0, valid_until: LATEST, revoked: false }]);

/** Why a signed query is refused at a time, as a device says it; empty if it is not. @param {Ring} ring @param {string} signed @param {number} now */
const refusal = async (ring, signed, now) => {
  try {
    const { query } = await authenticate(ring, signed, now);
    return now >= query.given.schedule.expires ? "expired query" : "";
  } catch (error) {
    if (error instanceof Refusal) return error.reason;
    throw error;
  }
};

const OWNER = "City of Exampleton"; // of the keys in query-v1.json and version-v1.json

/** Differences from query-v1.json. @param {any} vectors */
export const queryDifferences = async (vectors) => {
  const found = [];
  for (const each of vectors.good) {
    const query = new Query(each.content);
    const signature = unhex(each.signature);
    const facts = {
      digest: hex(await query.digest()),
      query_tag: tag(await query.digest()),
      channel_tag: tag(await query.channelTag()),
      labels: query.buckets.labels,
      report_bytes: query.mechanism.bytes,
    };
    for (const [name, value] of Object.entries(facts)) {
      if (text(value) !== text(each[name])) found.push(`${each.name}: ${name} is ${text(value)}`);
    }
    const signed = [unhex(each.public), signature, utf8(`deniable query 1\0${each.content}`)];
    if (!(await verifyPlainly(signed[0], signed[1], signed[2]))) found.push(`${each.name}: its signature is not accepted`);
  }
  for (const each of vectors.bad) {
    const ring = await ringOf(each.public, OWNER);
    const { content: query, key, signature } = each;
    const signed = text({ format: "deniable signed query 1", query, key, signature });
    const reason = await refusal(ring, signed, vectors.now);
    if (reason !== each.reason) found.push(`${each.name}: ${reason || "accepted"}`);
  }
  return found;
};

/** Differences from query-ask-v1.json. @param {any} vectors */
export const askDifferences = async (vectors) => {
  const found = [];
  const ring = await ringOf(vectors.public, "City");
  for (const each of vectors.good) {
    const query = new Query(each.content);
    const facts = {
      digest: hex(await query.digest()),
      query_tag: tag(await query.digest()),
      labels: query.buckets.labels,
      scope: new TextDecoder().decode(query.scope),
    };
    for (const [name, value] of Object.entries(facts)) {
      if (text(value) !== text(each[name])) found.push(`${each.name}: ${name} is ${text(value)}`);
    }
  }
  for (const each of [...vectors.good, ...vectors.bad]) {
    const reason = await refusal(ring, each.signed, vectors.now);
    if (reason !== (each.reason ?? "")) found.push(`${each.name}: ${reason || "accepted"}`);
  }
  return found;
};

/** Differences from version-v1.json. @param {any} vectors */
export const versionDifferences = async (vectors) => {
  const found = [];
  for (const each of [...vectors.good, ...vectors.bad]) {
    const ring = await ringOf(each.public, OWNER);
    const reason = await refusal(ring, text(each.signed), vectors.now);
    if (reason !== (each.reason ?? "")) found.push(`${each.name}: ${reason || "accepted"}`);
    if (each.reason) continue;
    const { digest } = await authenticate(ring, text(each.signed), vectors.now);
    if (hex(digest) !== each.digest || tag(digest) !== each.query_tag) found.push(`${each.name}: the digest is ${hex(digest)}`);
  }
  return found;
};

/** Differences from the messages and shares of wire-v1.json. @param {any} vectors */
export const wireDifferences = (vectors) => {
  const found = [];
  const bytes = (/** @type {string} */ digits) => unhex(digits);
  for (const each of vectors.good_messages) {
    const drawn = bytes(each.drawn);
    const content = message({
      sizeClass: each.size_class, kind: each.kind, stratum: each.stratum, epoch: each.epoch,
      queryTag: bytes(each.query_tag).reverse(), report: bytes(each.report), key: drawn.slice(16, 32),
    });
    if (hex(content) !== each.message) found.push(`${each.name}: the message differs`);
    const joined = join(each.shares.map(bytes), bytes(each.report).length);
    if (!("message" in joined) || hex(joined.message) !== each.message) found.push(`${each.name}: its shares do not join`);
    const length = content.length;
    each.shares.slice(0, -1).forEach((/** @type {string} */ share, /** @type {number} */ i) => {
      const payload = drawn.subarray(32 + i * length, 32 + (i + 1) * length);
      const made = shareRecord(each.size_class, each.epoch, bytes(each.channel).reverse(), drawn.subarray(0, 16), payload);
      if (hex(made) !== share) found.push(`${each.name}: share ${i} differs`);
    });
  }
  for (const each of vectors.bad_messages) {
    const joined = join(each.shares.map(bytes), each.report_bytes);
    const fault = "fault" in joined ? joined.fault : "accepted";
    if (fault !== each.reason) found.push(`${each.name}: ${fault}`);
  }
  for (const each of vectors.bad_shares) {
    const fault = recordFault(bytes(each.record));
    if (fault !== each.reason) found.push(`${each.name}: ${fault ?? "accepted"}`);
  }
  return found;
};
