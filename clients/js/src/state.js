/** What a device keeps, as one value that can be written as JSON, and the queue of outgoing shares in it. */

import { hex } from "./bytes.js";
import { Fraction, ZERO } from "./fraction.js";

export const FORMAT = "deniable client state 1";
const MOST_DECIDED = 1000;
const MOST_RECEIPTS = 1000;

/**
 * @typedef {object} Receipt
 * @property {number} time
 * @property {"answered" | "sampled out" | "refused" | "given back" | "again" | "waiting"} outcome
 * @property {string} reason why it was refused, in a word or two
 * @property {string} detail
 * @property {string} analyst
 * @property {string} query
 * @property {number} serial
 * @property {string} question
 * @property {number | null} epoch
 * @property {number} epsilon what it cost
 * @property {number | null} left what was left for the analyst
 * @property {boolean} verified
 * @property {number} times how often the same refusal happened
 */

/**
 * @typedef {object} QueuedShare
 * @property {number} place
 * @property {string} proxy
 * @property {number} due
 * @property {number} expires
 * @property {string} record hexadecimal
 * @property {string} message its id, hexadecimal
 * @property {number | null} answer
 * @property {boolean} tried
 */

/**
 * @typedef {object} State
 * @property {string} format
 * @property {string} secret hexadecimal
 * @property {number | null} born when this state began; epochs that began before may have been answered from an earlier one
 * @property {number} changes
 * @property {number} next the next place
 * @property {number} clock
 * @property {{[name: string]: {serial: number, digest: string, signed: string}}} versions
 * @property {{[name: string]: {before: number, epochs: number[], once?: boolean}}} decided
 * @property {{[proxy: string]: string[]}} revoked
 * @property {{[proxy: string]: string}} tokens
 * @property {{place: number, time: number, analyst: string, query: string, epsilon: string, scope: string | null}[]} charges
 * @property {{[scope: string]: {[slot: string]: number}}} reserves
 * @property {{scope: string, slot: number, name: string, row: string, spoke: number}[]} memo
 * @property {QueuedShare[]} queue
 * @property {{[place: string]: {charge: number, serial: number, question: string, epoch: number, messages: number}}} answers
 * @property {{[proxy: string]: {failures: number, retryAt: number}}} proxies
 * @property {Receipt[]} receipts
 * @property {{[name: string]: {time: number, row: {[column: string]: any}}[]}} values what the app recorded
 * @property {{[name: string]: {asked: string, rows: {[column: string]: any}[]}}} forms what a person chose, by query, and what was asked
 * @property {boolean | null} enabled what the person said; null if nothing
 */

/** @param {number | null} born @returns {State} */
export const freshState = (born) => ({
  format: FORMAT,
  secret: hex(crypto.getRandomValues(new Uint8Array(32))),
  born,
  changes: 0,
  next: 1,
  clock: 0,
  versions: {},
  decided: {},
  revoked: {},
  tokens: {},
  charges: [],
  reserves: {},
  memo: [],
  queue: [],
  answers: {},
  proxies: {},
  receipts: [],
  values: {},
  forms: {},
  enabled: null,
});

/** A receipt with these facts; it is about nothing else. @param {number} time @param {Partial<Receipt>} facts @returns {Receipt} */
export const receiptOf = (time, facts) => ({
  time, outcome: "answered", reason: "", detail: "", analyst: "", query: "", serial: 0, question: "",
  epoch: null, epsilon: 0, left: null, verified: false, times: 1, ...facts,
});

/** Whether an epoch was decided, under any version. Setting the clock back does not reopen it. @param {State} state @param {string} name @param {number} epoch */
export const isDecided = (state, name, epoch) => {
  const known = state.decided[name];
  return known !== undefined && (known.once || epoch <= known.before || known.epochs.includes(epoch));
};

/** Record that an epoch is decided or, with `once`, all of them. @param {State} state @param {string} name @param {number} epoch */
export const decide = (state, name, epoch, once = false) => {
  const known = (state.decided[name] ??= { before: -1, epochs: [] });
  known.epochs = [...known.epochs, epoch].sort((a, b) => a - b);
  if (once) known.once = true;
  if (known.epochs.length > MOST_DECIDED) known.before = /** @type {number} */ (known.epochs.shift());
};

/** Keep a receipt. A repeated refusal of the same version is one receipt with a count. @param {State} state @param {Receipt} receipt */
export const keepReceipt = (state, receipt) => {
  const last = state.receipts.findLast((each) => each.analyst === receipt.analyst && each.query === receipt.query);
  const again = last?.outcome === "refused" && receipt.outcome === "refused" && last.reason === receipt.reason && last.serial === receipt.serial;
  if (last && again) {
    Object.assign(last, receipt, { times: last.times + 1 });
    return;
  }
  state.receipts.push(receipt);
  if (state.receipts.length > MOST_RECEIPTS) state.receipts.shift();
};

/** Record the time. If the clock was set back, what waits moves back with it, so that it does not wait longer. @param {State} state @param {number} now */
export const setClock = (state, now) => {
  const back = state.clock - now;
  if (back > 0) {
    for (const share of state.queue) share.due -= back;
    for (const proxy of Object.values(state.proxies)) proxy.retryAt -= back;
  }
  state.clock = now;
};

/**
 * Drop the shares that are too old to be counted, and give back the charges of answers that never left:
 * a message left only if all of its shares did. That depends on the network and the clock, not on the data.
 * @param {State} state @param {number} now
 */
export const dropExpired = (state, now) => {
  const expired = state.queue.filter((share) => share.expires <= now);
  if (!expired.length) return 0;
  /** @type {Map<number, Set<string>>} */
  const unsent = new Map();
  for (const { answer, tried, message } of expired) {
    if (answer === null || tried) continue;
    unsent.set(answer, (unsent.get(answer) ?? new Set()).add(message));
  }
  for (const [place, messages] of unsent) {
    if (state.answers[place] && messages.size === state.answers[place].messages) giveBack(state, place, now);
  }
  state.queue = state.queue.filter((share) => share.expires > now);
  const waiting = new Set(state.queue.map((share) => String(share.answer)));
  for (const place of Object.keys(state.answers)) if (!waiting.has(place)) delete state.answers[place];
  return expired.length;
};

/** @param {State} state @param {number} place @param {number} now */
const giveBack = (state, place, now) => {
  const { charge, serial, question, epoch } = state.answers[place];
  const found = state.charges.find((each) => each.place === charge);
  if (!found) return;
  state.charges = state.charges.filter((each) => each !== found);
  const { analyst, query } = found;
  const epsilon = ZERO.minus(Fraction.parse(found.epsilon)).double;
  keepReceipt(state, receiptOf(now, { outcome: "given back", analyst, query, serial, question, epoch, epsilon, verified: true }));
};
