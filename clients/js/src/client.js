/** The app's side: open, record, answer, look at receipts, switch off. */

import { languageOf } from "./asking.js";
import { answer } from "./device.js";
import { Policy } from "./policy.js";
import { Refusal, Ring, authenticate } from "./signing.js";
import { freshState, keepReceipt, receiptOf } from "./state.js";
import { indexedDbStore } from "./stores/indexeddb.js";
import { ProxyError, httpTransport } from "./transport.js";
import { upload } from "./upload.js";
import { askedBy, record, recordedRows, stored } from "./values.js";
import { systemWords } from "./words.js";

/** @typedef {import("./buckets.js").Value} Value */
/** @typedef {import("./device.js").Source} Source */
/** @typedef {import("./query.js").Query} Query */
/** @typedef {import("./signing.js").Authentic} Authentic */
/** @typedef {import("./state.js").Receipt} Receipt */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./upload.js").Uploaded} Uploaded */

/**
 * @typedef {object} Proxy
 * @property {string} address
 * @property {string} [token] if the operator gave one
 * @property {string} [invitation] a code to enrol with
 * @property {{ticket: string, signature: string}} [ticket] of the app's own server, to enrol with
 */

/**
 * @typedef {object} Options
 * @property {(string | Proxy)[]} proxies the addresses that may receive shares
 * @property {Parameters<typeof Ring.of>[0]} ring whose questions are trusted
 * @property {import("./policy.js").Settings} [policy]
 * @property {import("./stores/memory.js").Store} [store] by default in IndexedDB
 * @property {"next" | "now"} [firstEpoch] whether a new store answers the epoch that is under way: only `next`
 *   is sure not to answer twice if the browser evicted an earlier one
 * @property {(query: Query, state: State, policy: Policy) => Source | Promise<Source>} [rows] what the app has for a query
 * @property {import("./transport.js").Transport} [transport]
 * @property {() => number} [clock] milliseconds since 1970
 * @property {import("./words.js").Words} [words] for tests
 */

const OF_SQL = ["not shared", "forbidden SQL", "columns"]; // refusals that take a slot, like an answer

/** Whether the person's browser says that they want no such use of their data. */
const objects = () => Boolean(/** @type {{globalPrivacyControl?: boolean} | undefined} */ (globalThis.navigator)?.globalPrivacyControl);

export class Client {
  /** @param {Options} options @param {Ring} ring @param {import("./stores/memory.js").Store} store */
  constructor(options, ring, store) {
    this.ring = ring;
    this.store = store;
    this.proxies = options.proxies.map((proxy) => (typeof proxy === "string" ? { address: proxy } : proxy));
    this.policy = new Policy(options.policy ?? {}, this.proxies.map((proxy) => proxy.address));
    this.clock = options.clock ?? Date.now;
    this.transport = options.transport ?? httpTransport(undefined, this.clock);
    this.words = options.words ?? systemWords();
    this.rowsOf = options.rows ?? recordedRows;
    this.firstEpoch = options.firstEpoch ?? "next";
    /** @type {number | null} seconds by which the proxies' clocks are ahead */
    this.skew = null;
    /** @type {{name: string, row: object, keep: number | undefined}[]} recorded, and not stored yet */
    this.unsaved = [];
    /** Whether the browser promised not to evict the store. */
    this.persistent = false;
    /** Whether a store seems to have been evicted: what was spent before is not known. */
    this.lost = false;
  }

  get now() {
    return Math.floor(this.clock() / 1000);
  }

  /**
   * @template T
   * @param {(state: State) => T | Promise<T>} work
   * @returns {Promise<T>}
   */
  change(work) {
    const create = (/** @type {boolean} */ lost) => {
      this.lost = lost;
      return freshState(lost || this.firstEpoch === "next" ? this.now : null);
    };
    return this.store.transaction(create, work);
  }

  /** Whether anything is recorded, answered or sent. A person's own word counts more than their browser's. @param {State} state */
  isOn(state) {
    return state.enabled ?? !objects();
  }

  enabled() {
    return this.change((state) => this.isOn(state));
  }

  /** Switch everything off, or on again. @param {boolean} enabled */
  setEnabled(enabled) {
    return this.change((state) => void (state.enabled = enabled));
  }

  /** Delete everything that this device keeps: rows, queue, receipts, permanent answers, what was spent. */
  forget() {
    this.unsaved = [];
    return this.store.forget();
  }

  /**
   * Keep a row under a name, for questions about it. Many calls at once are stored together.
   * @param {string} name @param {{[column: string]: Value}} row @param {{keep?: number}} [options] seconds
   */
  async record(name, row, { keep } = {}) {
    this.unsaved.push({ name, row: stored(row), keep });
    await Promise.resolve();
    const rows = this.unsaved.splice(0);
    if (!rows.length) return;
    await this.change((state) => {
      if (!this.isOn(state)) return;
      for (const each of rows) record(state, each.name, [each.row], this.now, each.keep);
    });
  }

  /** A signed query that is trusted now, and asks in this way if one is given. @param {string} signed @param {"form"} [ask] */
  async read(signed, ask) {
    const { query } = await authenticate(this.ring, signed, this.now);
    if (ask && query.given.ask !== ask) throw new TypeError(`query ${query.given.id} is no ${ask}`);
    return query;
  }

  /**
   * What a person chose in a form: one row or, where several buckets may be chosen, one for each choice.
   * @param {string} signed the query @param {{[column: string]: Value}[]} rows
   */
  async fill(signed, rows) {
    const query = await this.read(signed, "form");
    await this.change((state) => void (state.forms[query.name] = { asked: askedBy(query), rows: rows.map(stored) }));
  }

  /**
   * A form in the person's language: per column its question, and per bucket its label and the value to choose.
   * @param {string} signed @param {readonly string[]} [languages]
   */
  async form(signed, languages = globalThis.navigator?.languages ?? []) {
    const query = await this.read(signed, "form");
    return query.buckets.columns.map(({ name, question = {}, labels = {}, choices, other }) => {
      const language = languageOf(question, languages);
      const values = /** @type {Value[]} */ ([...choices, ...(other ? [null] : [])]);
      return { name, language, question: question[language], choices: labels[language].map((label, i) => ({ label, value: values[i] })) };
    });
  }

  /** The newest receipts, oldest first. @returns {Promise<Receipt[]>} */
  receipts() {
    return this.change((state) => state.receipts);
  }

  /** When the next share is due, in seconds since 1970; null if none waits. */
  nextDue() {
    return this.change((state) => (state.queue.length ? Math.min(...state.queue.map((share) => share.due)) : null));
  }

  /**
   * What would come of a query if it were answered now: nothing is kept, charged or sent, and the
   * report is an example, because the real one is drawn when it is answered.
   * @param {string} signed
   */
  async preview(signed) {
    const state = structuredClone(await this.change((kept) => kept));
    const query = await this.read(signed);
    const source = await this.rowsOf(query, state, this.policy);
    const { receipt, out } = await this.walk(state, signed, this.now);
    const rows = source && "rows" in source ? source.rows : [];
    const { labels } = query.buckets;
    return {
      ...receipt,
      question: query.given.question,
      asks: query.given.ask ?? "sql",
      sql: query.given.sql,
      proxies: query.proxies,
      publicResults: Boolean(query.given.public_results),
      buckets: labels,
      answer: rows.map((row) => query.buckets.indices(row).map((bucket) => labels[bucket])),
      reports: out.reports ?? [],
      bytes: Object.values(out.shares ?? {}).flat().reduce((n, share) => n + share.length, 0),
    };
  }

  /** @param {State} state @param {string} text @param {number} now */
  walk(state, text, now) {
    return answer({ ...this, state, text, now, sourceOf: (query) => this.rowsOf(query, state, this.policy) });
  }

  /**
   * Ask the proxies for queries. All are asked: one alone could hold back a newer version.
   * @returns {Promise<string[] | null>} null if none can be reached
   */
  async poll() {
    const polled = await Promise.all(
      this.proxies.map(({ address }) => this.transport.poll(address).then((found) => ({ address, ...found }), (error) => {
        if (error instanceof ProxyError) return null;
        throw error;
      })),
    );
    const reached = polled.filter((found) => found !== null);
    // The smallest difference counts, so that one proxy with a wrong clock, or a lying one, stops nobody.
    const skews = reached.flatMap(({ skew }) => (skew === null ? [] : [skew]));
    this.skew = skews.length ? skews.reduce((least, skew) => (Math.abs(skew) < Math.abs(least) ? skew : least)) : null;
    if (!reached.length) return null;
    await this.change((state) => {
      for (const { address, revoked } of reached) state.revoked[address] = revoked;
    });
    return [...new Set(reached.flatMap(({ queries }) => queries))];
  }

  /** Upload what is due; of several tabs, one after the other, so that no share is sent twice. @returns {Promise<Uploaded>} */
  upload() {
    const work = () => upload(this);
    return this.store.alone ? this.store.alone(work) : work();
  }

  /** The token for a proxy, for which the device enrols if it has none. @param {string} address */
  async tokenOf(address) {
    const { token, invitation, ticket } = this.proxies.find((proxy) => proxy.address === address) ?? {};
    const known = token ?? (await this.change((state) => state.tokens[address]));
    if (known) return known;
    const fresh = await this.transport.enrol(address, ticket ?? (invitation ? { invitation } : {}));
    return this.change((state) => (state.tokens[address] ??= fresh));
  }

  /**
   * Poll, upload what is due, and answer what is asked. Without a network, known queries are answered.
   * @param {string[]} [given] signed queries to answer in place of the proxies'
   * @returns {Promise<Receipt[]>}
   */
  async answerAll(given) {
    if (!(await this.enabled())) return [];
    const found = given ?? (await this.poll());
    if (this.policy.settings.upload_within) await this.upload();
    const texts = found ?? (await this.change((state) => Object.values(state.versions).map(({ signed }) => signed)));
    const receipts = await this.answerEach(texts);
    if (!this.policy.settings.upload_within) await this.upload();
    return receipts;
  }

  /** Of several versions of a query, the newest valid one is answered. @param {string[]} texts */
  async answerEach(texts) {
    const now = this.now;
    /** @type {{text: string, query: Query}[]} */
    const authentic = [];
    /** @type {Map<string, Refusal>} one of each reason: anyone who relays queries can send thousands of them */
    const refused = new Map();
    for (const text of texts) {
      try {
        authentic.push({ text, query: (await authenticate(this.ring, text, now)).query });
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        refused.set(error.reason, error);
      }
    }
    /** @type {Receipt[]} */
    const receipts = [...refused.values()].map((error) => receiptOf(now, error.facts));
    if (receipts.length) await this.change((state) => receipts.forEach((receipt) => keepReceipt(state, receipt)));
    authentic.sort((a, b) => b.query.given.serial - a.query.given.serial);
    const done = new Set();
    let slots = 0;
    for (const { text, query } of authentic) {
      if (done.has(query.name)) continue;
      const { receipt } = await this.change(async (state) => {
        const result = await this.walk(state, text, now + slots * this.policy.slot);
        if (result.receipt.epoch !== null && result.receipt.outcome !== "waiting" && !query.memoize) delete state.forms[query.name];
        return result;
      });
      receipts.push(receipt);
      if (receipt.verified && receipt.reason !== "rolled-back query") done.add(query.name);
      slots += Number(["answered", "sampled out"].includes(receipt.outcome) || OF_SQL.includes(receipt.reason));
    }
    return receipts;
  }

  /**
   * Poll, answer and upload from now on, at times drawn in advance, until the function it gives is called.
   * @param {{every?: number, onRound?: (receipts: Receipt[]) => void}} [options] seconds of a round
   */
  start({ every = 60, onRound = () => undefined } = {}) {
    let stopped = false;
    /** @type {ReturnType<typeof setTimeout>} */
    let timer;
    const rounds = async () => {
      if (stopped) return;
      const start = this.clock();
      const receipts = await this.answerAll().catch(() => []);
      if (stopped) return;
      onRound(receipts);
      const rest = every * (500 + this.words.below(1000)); // milliseconds
      timer = setTimeout(rounds, Math.max(0, start + rest - this.clock()));
    };
    timer = setTimeout(rounds, 0);
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }
}

/**
 * A device: its rows, its owner's policy, and the proxies it talks to.
 * @param {Options} options
 */
export const open = async (options) => {
  const store = options.store ?? indexedDbStore();
  const client = new Client(options, await Ring.of(options.ring), store);
  await client.change(() => undefined); // a store that is blocked or full says so now
  client.persistent = (await store.persist?.()) ?? false;
  return client;
};
