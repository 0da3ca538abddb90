/**
 * The walk of one answer: from a verified query to shares that wait for their proxies.
 *
 * Whether a device sends, when, how much, to whom, what it charges and what it refuses depend on the
 * query, the policy, the clock and coins alone. Only the report depends on the data. Everything the
 * walk changes is in `state`, which the caller stores as a whole or not at all.
 */

import { compare, concat, hex, little, unhex, utf8 } from "./bytes.js";
import { keyedHash } from "./blake2b.js";
import { Fraction, ONE } from "./fraction.js";
import { left, payment } from "./ledger.js";
import { Refusal, authenticate, stop } from "./signing.js";
import { decide, dropExpired, isDecided, keepReceipt, receiptOf } from "./state.js";
import { split } from "./wire.js";

/** @typedef {import("./buckets.js").Value} Value */
/** @typedef {import("./policy.js").Policy} Policy */
/** @typedef {import("./query.js").Query} Query */
/** @typedef {import("./signing.js").Authentic} Authentic */
/** @typedef {import("./signing.js").Ring} Ring */
/** @typedef {import("./state.js").Receipt} Receipt */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./words.js").Words} Words */

/** @typedef {ReturnType<typeof keyedHash>} Hash */

/**
 * What an app has for a query: its rows, or why what it asks is not granted; null as long as a person
 * has not filled in a form. Which of these it is must not depend on what the rows hold. `find` gives the
 * true answers, each a list of `ones` buckets, where the rows themselves stay elsewhere.
 * @typedef {{rows: Value[][]} | {find: (words: Words, epoch: number) => Promise<number[][]>} | {refusal: Refusal} | null} Source
 */

/**
 * What came of a query, as vectors state it.
 * @typedef {object} Outcome
 * @property {Receipt["outcome"]} outcome
 * @property {string} [reason]
 * @property {number} [epoch]
 * @property {number} [due]
 * @property {string} [cost]
 * @property {Uint8Array[]} [reports]
 * @property {Uint8Array[]} [messages]
 * @property {{[proxy: string]: Uint8Array[]}} [shares]
 */

/** A keyed hash of the question, to which permanent answers belong. @param {State} state @param {Query} query */
const scopeOf = (state, query) => {
  const hash = keyedHash(unhex(state.secret), query.scope);
  return { hash, id: hex(hash(new Uint8Array(0))) };
};

/** The first `most` of these answers in the order of their keyed hashes. @param {Hash} hash @param {number[]} found @param {number} most */
const ranked = (hash, found, most) => {
  /** @type {Map<number, number>} */
  const twins = new Map();
  const named = found.map((v) => {
    const before = twins.get(v) ?? 0;
    twins.set(v, before + 1);
    return { v, rank: hex(hash(concat(utf8("row"), little(v, 8), little(before, 8)))) };
  });
  return named.sort((a, b) => compare(a.rank, b.rank)).slice(0, most).map(({ v }) => v);
};

/** Up to `ones` buckets of one row, or of all of them. @param {Query} query @param {Value[][]} rows @param {Hash | null} hash @param {Words} words */
const several = (query, rows, hash, words) => {
  let used = rows;
  if (query.given.rows !== "all" && rows.length > 1) {
    if (hash) {
      /** @type {Map<number, Value[]>} */
      const firsts = new Map();
      for (const row of [...rows].reverse()) firsts.set(query.buckets.index(row), row);
      const [chosen] = ranked(hash, [...firsts.keys()].sort((a, b) => a - b), 1);
      used = [/** @type {Value[]} */ (firsts.get(chosen))];
    } else used = [rows[words.below(rows.length)]];
  }
  const inside = [...new Set(used.flatMap((row) => query.buckets.indices(row)))].sort((a, b) => a - b);
  const chosen = hash ? ranked(hash, inside, query.ones) : words.some(inside.length, query.ones).map((i) => inside[i]);
  return chosen.sort((a, b) => a - b);
};

/** The true answers, always `most_rows` of them, each a list of `ones` buckets. @param {Query} query @param {Value[][]} given @param {Hash | null} hash @param {Words} words */
export const truth = (query, given, hash, words) => {
  const { buckets, mostRows, ones } = query;
  const nothing = buckets.complete ? buckets.size - 1 : -1;
  const rows = query.given.rows === "aggregate" && given.length > 1 ? [] : given;
  if (ones > 1) {
    const found = several(query, rows, hash, words);
    if (!found.length) found.push(nothing);
    return [[...found, ...Array(ones).fill(-1)].slice(0, ones)];
  }
  const found = hash
    ? ranked(hash, rows.map((row) => buckets.index(row)), mostRows)
    : words.some(rows.length, mostRows).map((i) => buckets.index(rows[i]));
  return Array.from({ length: mostRows }, (_, i) => [(found[i] ?? -1) < 0 ? nothing : found[i]]);
};

/**
 * Reports made from permanent answers, which are drawn where a slot has none for its answer and may have another.
 * @param {State} state @param {Query} query @param {{hash: Hash, id: string}} scope @param {number[][]} sets @param {number} epoch @param {Words} words
 */
const memoized = (state, query, scope, sets, epoch, words) => {
  const { mechanism, distinct } = query;
  const names = sets.map((set) => hex(scope.hash(concat(...set.map((v) => little(v, 8))))));
  const kept = names.map((name, slot) => {
    const mine = state.memo.filter((entry) => entry.scope === scope.id && entry.slot === slot);
    const found = mine.find((entry) => entry.name === name);
    if (found || mine.length < distinct) return found;
    return mine.reduce((newest, entry) => (entry.spoke >= newest.spoke ? entry : newest));
  });
  const fresh = [...kept.keys()].filter((slot) => !kept[slot]);
  const draw = mechanism.permanent ?? mechanism.draw;
  draw(fresh.map((slot) => sets[slot]), words).forEach((row, i) => {
    const slot = fresh[i];
    const entry = { scope: scope.id, slot, name: names[slot], row: hex(row), spoke: 0 };
    state.memo.push(entry);
    kept[slot] = entry;
  });
  const rows = kept.map((entry) => {
    if (entry) entry.spoke = epoch;
    return unhex(entry?.row ?? "");
  });
  return mechanism.replay ? mechanism.replay(rows, words) : rows;
};

/**
 * Draw, charge and queue one epoch's answer.
 * @param {State} state @param {Policy} policy @param {Authentic} asked @param {number} stratum @param {number} epoch
 * @param {number} now @param {NonNullable<Source>} source @param {Words} words @param {Outcome} out
 */
const answerEpoch = async (state, policy, asked, stratum, epoch, now, source, words, out) => {
  const { query } = asked;
  const { mostRows, name } = query;
  const n = query.proxies.length;
  dropExpired(state, now);
  if (state.queue.length + mostRows * n > policy.settings.queue_messages * n) {
    decide(state, name, epoch); // so that each lost epoch is counted once
    stop("queue full", policy.settings.queue_messages);
  }
  const scope = query.memoize ? scopeOf(state, query) : null;
  const { cost, make } = payment(state, policy, query, scope && scope.id, now);
  if ("refusal" in source) {
    decide(state, name, epoch);
    throw source.refusal;
  }
  const [end, ready] = [query.endOf(epoch), now + policy.slot];
  const due = ready + words.below(Math.max(1, Math.min(policy.settings.upload_within, end - ready)));
  decide(state, name, epoch, query.given.once);
  const sampling = query.given.strata[stratum]?.sampling ?? query.given.sampling;
  const chosen = words.coin(Fraction.ofDouble(sampling).times(new Fraction(ONE)).floor);
  /** @type {(Uint8Array | null)[]} */
  let reports = Array(mostRows).fill(null);
  /** @type {number | null} */
  let charge = null;
  if (chosen) {
    const sets = "rows" in source ? truth(query, source.rows, scope && scope.hash, words) : await source.find(words, epoch);
    charge = make();
    out.cost = cost.toString();
    out.reports = scope ? memoized(state, query, scope, sets, epoch, words) : query.mechanism.draw(sets, words);
    reports = out.reports;
  }
  if (chosen || query.given.cover) {
    out.due = due;
    enqueue(state, policy, asked, stratum, epoch, due, reports, charge, words, out);
  }
  if (!chosen) stop("", "", "sampled out");
  return cost;
};

/**
 * Make a message of each report, or of nothing, and let its shares wait.
 * @param {State} state @param {Policy} policy @param {Authentic} asked @param {number} stratum @param {number} epoch @param {number} due
 * @param {(Uint8Array | null)[]} reports @param {number | null} charge @param {Words} words @param {Outcome} out
 */
const enqueue = (state, policy, { query, digest, channelTag }, stratum, epoch, due, reports, charge, words, out) => {
  const { size_class: sizeClass, serial, question } = query.given;
  const where = { sizeClass, stratum, epoch, queryTag: digest.subarray(0, 8), channelTag };
  const expires = query.endOf(epoch) + policy.keeps(query);
  const answer = charge === null ? null : state.next++;
  if (answer !== null && charge !== null) {
    state.answers[answer] = { charge, serial, question, epoch, messages: reports.length };
  }
  const made = reports.map((report) => split(where, report, query.proxies.length, words));
  out.messages = made.map(({ content }) => content);
  out.shares = Object.fromEntries(query.proxies.map((proxy, i) => [proxy, made.map(({ records }) => records[i])]));
  for (const { id, records } of made) {
    query.proxies.forEach((proxy, i) => {
      const share = { proxy, due, expires, record: hex(records[i]), message: hex(id), answer, tried: false };
      state.queue.push({ place: state.next++, ...share });
    });
  }
};

/** Refuse a query that has expired, or of which a newer version is known; remember its version. @param {State} state @param {Authentic} asked @param {string} text @param {number} now */
const accept = (state, { query, digest, keys }, text, now) => {
  const revoked = new Set(Object.values(state.revoked).flat());
  const lost = keys.find((key) => revoked.has(key));
  if (lost) stop("revoked key", lost);
  const { serial, schedule: { expires } } = query.given;
  if (now >= expires) stop("expired query", expires);
  const seen = state.versions[query.name];
  const written = hex(digest);
  if (seen && (serial < seen.serial || (serial === seen.serial && written !== seen.digest))) {
    stop("rolled-back query", seen.serial);
  }
  state.versions[query.name] = { serial, digest: written, signed: text };
};

/** The epoch to answer now. @param {State} state @param {Policy} policy @param {Query} query @param {number} now @param {number | null} skew */
const currentEpoch = (state, policy, query, now, skew) => {
  const epoch = query.epochOf(now);
  if (epoch < 0 || epoch >= query.given.schedule.epochs) stop("", "schedule", "waiting");
  if (isDecided(state, query.name, epoch)) stop("", "", "again");
  if (state.born !== null && query.endOf(epoch - 1) <= state.born) stop("", "new store", "waiting");
  if (skew !== null && Math.abs(skew) > policy.settings.clock_tolerance) {
    stop("clock", skew);
  }
  return epoch;
};

/**
 * Answer a signed query for the current epoch, if all checks pass: the receipt, and what was drawn.
 * @param {object} given
 * @param {State} given.state changed in place: the caller stores it, or drops it
 * @param {Ring} given.ring
 * @param {Policy} given.policy
 * @param {string} given.text the signed query
 * @param {number} given.now
 * @param {Words} given.words
 * @param {(query: Query) => Source | Promise<Source>} given.sourceOf what there is to answer with
 * @param {number | null} [given.skew] seconds by which the proxies' clocks are ahead
 * @returns {Promise<{receipt: Receipt, out: Outcome}>}
 */
export const answer = async ({ state, ring, policy, text, now, words, sourceOf, skew = null }) => {
  const receipt = receiptOf(now, {});
  /** @type {Outcome} */
  const out = { outcome: "answered" };
  try {
    const asked = await authenticate(ring, text, now);
    const { query } = asked;
    const { analyst, id, serial, question } = query.given;
    Object.assign(receipt, { analyst, query: id, serial, question, verified: true });
    accept(state, asked, text, now);
    const stratum = policy.stratum(query);
    if (!query.readable) stop("patterns");
    out.epoch = receipt.epoch = currentEpoch(state, policy, query, now, skew);
    const source = await sourceOf(query);
    if (!source) stop("", "form", "waiting");
    receipt.epsilon = (await answerEpoch(state, policy, asked, stratum, out.epoch, now, source, words, out)).double;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    Object.assign(receipt, error.facts);
    Object.assign(out, { outcome: receipt.outcome, reason: receipt.reason });
  }
  if (receipt.verified) receipt.left = left(state, policy, receipt.analyst, now)?.double ?? null;
  if (receipt.outcome !== "again" && receipt.outcome !== "waiting") keepReceipt(state, receipt);
  return { receipt, out };
};
