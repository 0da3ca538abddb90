/** Messages and shares, byte by byte: docs/wire.md. */

import { concat, little } from "./bytes.js";
import { siphash } from "./siphash.js";

/** @typedef {import("./words.js").Words} Words */

const VERSION = 1;
const ANSWER = 0;
const NOTHING = 1;
const SHARE = 0x53;
const HEAD = 16;

/** How many bytes a message of a size class has. @param {number} sizeClass */
const messageBytes = (sizeClass) => (64 << sizeClass) - 16;

/**
 * A message, which is never sent as it is.
 * @param {{sizeClass: number, kind: number, stratum: number, epoch: number, queryTag: Uint8Array, report: Uint8Array, key: Uint8Array}} of
 */
export const message = ({ sizeClass, kind, stratum, epoch, queryTag, report, key }) => {
  const body = new Uint8Array(messageBytes(sizeClass) - 24);
  body.set([VERSION, kind, ...little(stratum, 2), ...little(epoch, 4), ...queryTag]);
  body.set(report, HEAD);
  return concat(body, key, siphash(key, body));
};

/** @param {Uint8Array[]} parts */
const xor = (parts) => parts.reduce((sum, part) => sum.map((byte, i) => byte ^ part[i]));

/**
 * What a device uploads to one proxy.
 * @param {number} sizeClass @param {number} epoch @param {Uint8Array} channelTag @param {Uint8Array} id @param {Uint8Array} payload
 */
export const shareRecord = (sizeClass, epoch, channelTag, id, payload) =>
  concat(Uint8Array.of(VERSION, SHARE, sizeClass, 0, ...little(epoch, 4)), channelTag, id, payload);

/**
 * A message of a report, or of nothing, and its share for each of `n` proxies.
 * @param {{sizeClass: number, stratum: number, epoch: number, queryTag: Uint8Array, channelTag: Uint8Array}} where
 * @param {Uint8Array | null} report @param {number} n @param {Words} words
 */
export const split = (where, report, n, words) => {
  const { sizeClass, epoch, channelTag } = where;
  const [id, key] = [words.bytes(16), words.bytes(16)];
  const content = message({ ...where, kind: report ? ANSWER : NOTHING, report: report ?? new Uint8Array(0), key });
  const pads = Array.from({ length: n - 1 }, () => words.bytes(content.length));
  const payloads = [...pads, xor([content, ...pads])];
  return { id, content, records: payloads.map((payload) => shareRecord(sizeClass, epoch, channelTag, id, payload)) };
};

/** Why these bytes are not one share record; null if they are. @param {Uint8Array} record */
export const recordFault = (record) => {
  if (record.length < HEAD) return "truncated";
  if (record[0] !== VERSION) return "version";
  if (record[1] !== SHARE) return "kind";
  if (record[2] > 6) return "size_class";
  if (record[3]) return "reserved";
  const length = HEAD + (64 << record[2]);
  return record.length < length ? "truncated" : record.length > length ? "trailing" : null;
};

/**
 * The message that well-formed shares join to, or why they must not be counted together: what a
 * client checks of its own shares before they are queued.
 * @param {Uint8Array[]} records @param {number} reportBytes
 * @returns {{message: Uint8Array} | {fault: string}}
 */
export const join = (records, reportBytes) => {
  const head = (/** @type {Uint8Array} */ record) => record.subarray(2, 32).join();
  if (records.length < 2 || records.some((record) => head(record) !== head(records[0]))) return { fault: "shares" };
  const content = xor(records.map((record) => record.subarray(32)));
  const end = content.length;
  const tag = siphash(content.slice(end - 24, end - 8), content.subarray(0, end - 24));
  if (tag.some((byte, i) => byte !== content[end - 8 + i])) return { fault: "tag" };
  if (content[0] !== VERSION) return { fault: "version" };
  if (content[1] > NOTHING) return { fault: "kind" };
  if (content.subarray(4, 8).some((byte, i) => byte !== records[0][4 + i])) return { fault: "epoch" };
  const used = HEAD + (content[1] === NOTHING ? 0 : reportBytes);
  return content.subarray(used, end - 24).some(Boolean) ? { fault: "padding" } : { message: content };
};
