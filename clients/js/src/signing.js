/**
 * Signed queries: what a device checks before it reads what is asked. The signature is verified over
 * the bytes as received; only then is the query parsed. Anyone who relays queries can send a device
 * anything, and it costs the device one signature check.
 */

import { concat, digest, hex, isText, parsed, unhex, utf8 } from "./bytes.js";
import { FormError, encode, read } from "./canonical.js";
import { flag, key, like, list, must, shape } from "./checks.js";
import { verify } from "./ed25519.js";
import { Header, Query, SEPARATOR, applied, readEnvelope, readVersion, within } from "./query.js";

const FORMAT = "deniable signed query 1";
const LARGEST = 1 << 21;
const UNUSABLE = "unusable query";
const OUTSIDE = "outside the envelope";
const BAD_SIGNATURE = "bad signature";
const FOREIGN = "foreign channel";
const NOT_VALID = "key not valid";
const VERSION_SEPARATOR = utf8("deniable version 1\0");
const PERMISSION_SEPARATOR = utf8("deniable channel permission 1\0");

/**
 * Why a query is refused: a reason in a word or two, for which an app has a sentence in its person's
 * language (docs/javascript.md lists them), and which key, proxy or number it is about.
 */
export class Refusal extends Error {
  /** @param {string} reason @param {unknown} [detail] @param {import("./state.js").Receipt["outcome"]} [outcome] the walk's end, if it is not a refusal */
  constructor(reason, detail = "", outcome = "refused") {
    super(String(detail));
    this.reason = reason;
    /** What a receipt says. */
    this.facts = { outcome, reason, detail: this.message };
  }
}

/** Refuse. @type {(...facts: ConstructorParameters<typeof Refusal>) => never} */
export const stop = (...facts) => {
  throw new Refusal(...facts);
};

const moment = /** @type {import("./checks.js").Check<number>} */ (must(Number.isSafeInteger));
const trustedKey = shape({ owner: like(/^/), public: key, valid_from: moment, valid_until: moment, revoked: flag }, {}, true);
/** @typedef {ReturnType<typeof trustedKey>} TrustedKey `public` is 64 hexadecimal digits; times are seconds since 1970 */

/** The id of a public key. @param {string} publicKey */
export const keyId = async (publicKey) =>
  hex(await digest("SHA-256", utf8("deniable key 1\0"), unhex(publicKey))).slice(0, 16);

/** The keys a device trusts. */
export class Ring {
  /** @param {Map<string, TrustedKey>} keys by id */
  constructor(keys) {
    this.keys = keys;
  }

  /**
   * A ring from the contents of a ring file, or from the list of its keys.
   * @param {{keys: TrustedKey[]} | TrustedKey[]} file
   */
  static async of(file) {
    const listed = list(trustedKey)(Array.isArray(file) ? file : file.keys, "ring");
    return new Ring(new Map(await Promise.all(listed.map(async (each) => /** @type {[string, TrustedKey]} */ ([await keyId(each.public), each])))));
  }

  /** The key with this id, if it is trusted now. @param {string} id @param {number} now */
  trusted(id, now) {
    const key = this.keys.get(id);
    if (!key) stop("unknown key", id);
    if (key.revoked) stop("revoked key", id);
    if (now < key.valid_from || now >= key.valid_until) stop(NOT_VALID, id);
    return key;
  }

  /** Refuse a key that is on the ring and not trusted now; for one that is not on it, the analyst vouches. @param {string} id @param {number} now */
  checkDelegate(id, now) {
    if (this.keys.has(id)) this.trusted(id, now);
  }

  /** Whether this analyst holds, or held, the key. @param {string} analyst @param {string} publicKey */
  lists(analyst, publicKey) {
    return [...this.keys.values()].some((key) => key.owner === analyst && key.public === publicKey);
  }
}

/** @param {string} publicKey @param {string} signature hexadecimal @param {...Uint8Array} content */
const signed = (publicKey, signature, ...content) => verify(unhex(publicKey), unhex(signature), concat(...content));

/** The fields of a signed query; nothing is verified yet. @param {string} text */
export const parseSigned = (text) => {
  const fields = text.length > LARGEST ? null : parsed(text);
  const names = Object.keys(fields ?? {}).sort().join(" ");
  const expected = /^format key query signature( version version_signature)?$/.test(names);
  const strings = expected && Object.values(fields).every((value) => typeof value === "string" && isText(value));
  if (!strings || fields.format !== FORMAT || !/^[0-9a-f]{16}$/.test(fields.key)) {
    stop(UNUSABLE);
  }
  for (const name of ["signature", "version_signature"]) {
    const digits = String(fields[name] ?? "").replace(/[ \t\n\v\f\r]/g, "");
    if (!/^([0-9a-f]{2})*$/i.test(digits)) stop(BAD_SIGNATURE);
    if (name in fields) fields[name] = digits;
  }
  return /** @type {{query: string, key: string, signature: string, version?: string, version_signature?: string}} */ (fields);
};

/**
 * What `make` gives; a text that is not a query is refused for `reason`.
 * @template T
 * @param {() => T | Promise<T>} make @param {string} [reason]
 */
const readable = async (make, reason = UNUSABLE) => {
  try {
    return await make();
  } catch (error) {
    if (!(error instanceof FormError)) throw error;
    stop(reason, error.message);
  }
};

/** @param {Header} header @param {TrustedKey} key @param {Ring} ring @param {number} now */
const checkChannel = async (header, key, ring, now) => {
  const { permission, channel_owner: owner, analyst, channel, most_rows, grace = 0, schedule } = header.header;
  if (!permission) {
    if (owner && owner !== key.public && !ring.lists(analyst, owner)) {
      stop(FOREIGN);
    }
    return;
  }
  const { signature, ...terms } = permission;
  const permitted =
    (await signed(terms.owner, signature, PERMISSION_SEPARATOR, encode(terms))) &&
    terms.channel === channel &&
    terms.guest === key.public &&
    most_rows <= terms.messages &&
    grace <= terms.grace &&
    schedule.expires <= terms.end;
  if (!permitted) stop(FOREIGN);
  ring.checkDelegate(await keyId(terms.owner), now);
};

/**
 * The canonical text of the effective query, if its version is inside the envelope.
 * @param {Header} header @param {string} version @param {string} signature @param {Ring} ring @param {number} now
 */
const delegated = async (header, version, signature, ring, now) => {
  const stated = header.tree.envelope ?? null;
  if (stated === null) stop(OUTSIDE);
  const envelope = await readable(() => readEnvelope(stated, "envelope"));
  const id = await keyId(envelope.controller);
  ring.checkDelegate(id, now);
  if (envelope.until !== null && now >= envelope.until) stop(NOT_VALID, id);
  if (!(await signed(envelope.controller, signature, VERSION_SEPARATOR, utf8(version)))) {
    stop(BAD_SIGNATURE, id);
  }
  const tree = await readable(() => read(version));
  const given = await readable(() => readVersion(tree, "version"));
  const { inverted, ...coins } = given.mechanism;
  const { serial } = header.header;
  const inside =
    given.query === hex(await header.digest()) &&
    serial < given.serial &&
    given.serial <= serial + envelope.versions &&
    [given.sampling, ...(given.strata ?? [])].every((value) => within(value, envelope.sampling)) &&
    (envelope.inversion || !inverted) &&
    Object.entries(coins).every(([name, value]) => within(value, envelope[/** @type {"p"} */ (name)]));
  if (!inside) stop(OUTSIDE, given.serial);
  return { id, content: await readable(() => applied(header.tree, /** @type {object} */ (tree))) };
};

/**
 * @typedef {object} Authentic
 * @property {Query} query
 * @property {Uint8Array} digest
 * @property {Uint8Array} channelTag
 * @property {string[]} keys the ids of the keys by which it stands or falls
 */

/** @type {Map<string, Promise<Omit<Authentic, "keys">>>} parsed queries, by their canonical text */
const recent = new Map();
const MOST_PARSED = 16;

/** @param {string} content */
const parse = (content) => {
  let found = recent.get(content);
  if (!found) {
    if (recent.size >= MOST_PARSED) recent.delete(/** @type {string} */ (recent.keys().next().value));
    found = (async () => {
      const query = new Query(content);
      return { query, digest: await query.digest(), channelTag: await query.channelTag() };
    })();
    recent.set(content, found);
  }
  return found;
};

/**
 * The query, if its signatures, keys and form are right at the time `now`; a {@link Refusal} otherwise.
 * @param {Ring} ring @param {string} text @param {number} now
 * @returns {Promise<Authentic>}
 */
export const authenticate = async (ring, text, now) => {
  const fields = parseSigned(text);
  const key = ring.trusted(fields.key, now);
  if (!(await signed(key.public, fields.signature, SEPARATOR, utf8(fields.query)))) {
    stop(BAD_SIGNATURE, fields.key);
  }
  const header = await readable(() => new Header(fields.query));
  if (header.header.analyst !== key.owner) stop(BAD_SIGNATURE, fields.key);
  await checkChannel(header, key, ring, now);
  const keys = [fields.key];
  if (header.header.permission) keys.push(await keyId(header.header.permission.owner));
  let content = fields.query;
  if (fields.version !== undefined) {
    const version = await delegated(header, fields.version, fields.version_signature ?? "", ring, now);
    keys.push(version.id);
    content = version.content;
  }
  const found = await readable(() => parse(content), fields.version === undefined ? UNUSABLE : OUTSIDE);
  return { ...found, keys };
};
