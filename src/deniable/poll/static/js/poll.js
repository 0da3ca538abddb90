// The poll as the proxies show it, checked against the link, and one device for each of its questions.

import { hex, unhex } from "../client/bytes.js";
import { open } from "../client/client.js";
import { Refusal, Ring, authenticate } from "../client/signing.js";
import { indexedDbStore } from "../client/stores/indexeddb.js";
import { join } from "../client/wire.js";
import { systemWords } from "../client/words.js";
import { invitationOf } from "./link.js";
import { pollTransport } from "./transport.js";

const TIMEOUT = 20_000;
const HEAD = 16;
const HOUR = 3600;
const DAY = 86_400;
const RUNGS = [2, 3, 5, 7, 11]; // factors that a die or coins reach, of two answers
const MOST_BY_HAND = 6; // answers, one for each side of a die

/** How a person draws what the device would draw: the rule's name; null if coins and a die cannot. */
const handRule = (k, factor) => {
  const near = Math.round(factor);
  if (Math.abs(factor / near - 1) > 1e-9) return null;
  if (k === 2) return RUNGS.includes(near) ? near : null;
  return k <= MOST_BY_HAND && near === k + 1 ? "many" : null;
};

const now = () => Math.floor(Date.now() / 1000);

/** What one proxy shows of one question: its text, and by how much its clock is ahead. */
const ask = async (proxy, id) => {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), TIMEOUT);
  try {
    const response = await fetch(`${proxy}/v1/queries/${encodeURIComponent(id)}`, { credentials: "omit", redirect: "error", cache: "no-store", referrerPolicy: "no-referrer", signal: stop.signal });
    const date = Date.parse(response.headers.get("Date") ?? "");
    const skew = Number.isNaN(date) ? null : (date - Date.now()) / 1000;
    if (response.status === 404) return { state: "gone", skew };
    return response.ok ? { state: "shown", text: await response.text(), skew } : { state: "silent", skew: null };
  } catch {
    return { state: "silent", skew: null };
  } finally {
    clearTimeout(timer);
  }
};

/** Whether a proxy shows the question that the link names. */
const check = async (ring, document, question, found) => {
  if (found.state !== "shown") return found;
  try {
    const { query, digest } = await authenticate(ring, found.text, now());
    const shown = hex(digest);
    const places = document.proxies.map(({ url }) => url);
    const right = shown === question.digest && query.proxies.join() === places.join() && query.given.once && query.given.ask === "form";
    return { ...found, state: right ? "same" : "badCopies", query, shown };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { ...found, state: error.reason === "unknown key" ? "badKey" : "badSignature", shown: "" };
  }
};

/** Every proxy's copies of all questions, as one state each; `progress` is called as they come. Of a proxy that does not reply, what it showed earlier will do. */
export const readCopies = async (document, kept, progress) => {
  const key = { ...document.key, valid_from: 0, valid_until: 2 ** 40, revoked: false };
  const ring = await Ring.of([key]);
  return Promise.all(
    document.proxies.map(async ({ url }, i) => {
      const asked = document.questions.map(async ({ query, ...rest }) => {
        const found = await ask(url, query);
        const earlier = found.state === "silent" && kept[url]?.[query];
        return check(ring, document, { query, ...rest }, earlier ? { state: "shown", text: earlier, skew: null, kept: true } : found);
      });
      const copies = await Promise.all(asked);
      const worst = ["badKey", "badSignature", "badCopies", "silent", "gone"].find((state) => copies.some((copy) => copy.state === state));
      const summary = { state: worst ?? "same", copies, shown: copies[0].shown ?? "", kept: copies.some((copy) => copy.kept), skew: copies[0].skew, ring: [key] };
      progress(i, summary);
      return summary;
    }),
  );
};

/** A question with its device: what it says, what it costs, and what waits to be sent. */
class Asked {
  constructor(question, text, query) {
    Object.assign(this, question, { text, signed: query });
    const [column] = query.buckets.columns;
    this.texts = column.question;
    this.options = column.labels;
    this.values = [...column.choices, ...(column.other ? [null] : [])];
    this.epsilon = query.cost.double;
    this.unary = Boolean(query.mechanism.unary);
    this.factor = Math.exp(this.epsilon);
    this.hand = this.unary || ["list", "number"].includes(question.kind) ? null : handRule(this.values.length, this.factor);
    this.rows = null;
    this.refusals = {};
  }

  async open(document, link, ring, skew) {
    const { proxies, answer } = document;
    const withCode = answer === "codes";
    this.proxies = proxies.map(({ url }) => url);
    this.device = await open({
      proxies: this.proxies.map((address) => ({ address, ...(withCode && link.code ? { invitation: invitationOf(link.code, address, this.query) } : {}) })),
      ring,
      policy: { upload_within: 1, slot: 0, limits: [], epsilon_per_answer: 20 },
      store: indexedDbStore(`poll-${link.poll}-${this.query}`),
      firstEpoch: "now",
      rows: () => this.rows, // from memory: a true answer is never stored
      transport: pollTransport(withCode, (proxy, reason) => (this.refusals[proxy] = reason)),
    });
    this.device.skew = skew;
    await this.device.setEnabled(true); // opening a poll's link and agreeing is the person's own word
  }

  /** Whether the coins have fallen here before, when, and what still waits. */
  look() {
    return this.device.change((state) => ({
      decided: Boolean(state.decided[this.signed.name]),
      time: state.receipts.findLast((each) => each.outcome === "answered")?.time ?? null,
      waiting: state.queue.map(({ proxy }) => proxy),
      shares: state.queue.map(({ record }) => unhex(record)),
    }));
  }

  /** Toss for the options that were chosen; by hand, the person has tossed, and what they say is sent as it is. */
  async toss(chosen, hand) {
    const words = systemWords();
    if (hand) words.coin = () => 1;
    this.device.words = words;
    this.rows = { rows: chosen.map((i) => [this.values[i]]) };
    try {
      const [receipt] = await this.device.answerAll([this.text]);
      return receipt;
    } finally {
      this.rows = null;
    }
  }

  /** What the shares that wait here say together: the options, after the coins. */
  async said() {
    const { shares } = await this.look();
    const { message } = join(shares, this.signed.mechanism.bytes);
    if (!message) return null;
    const report = message.subarray(HEAD, HEAD + this.signed.mechanism.bytes);
    if (!this.unary) return [report[0]];
    return this.values.map((_, i) => i).filter((i) => (report[i >> 3] >> (i & 7)) & 1);
  }

  /** Send what waits, to one proxy after the other: a code that two devices show at once is then good for one of them. */
  async send(progress) {
    this.refusals = {};
    for (const proxy of this.proxies) {
      await this.device.change((state) => {
        const later = { failures: 0, retryAt: this.device.now + HOUR };
        state.proxies = Object.fromEntries(this.proxies.filter((each) => each !== proxy).map((each) => [each, later]));
        for (const share of state.queue) share.due = Math.min(share.due, this.device.now);
      });
      await this.device.upload();
      const { waiting } = await this.look();
      if (this.refusals[proxy] || waiting.includes(proxy)) return this.refusals[proxy] ?? "waits";
      progress(proxy);
    }
    // A receipt proves participation only: the day, not the hour.
    await this.device.change((state) => {
      state.proxies = {};
      for (const each of [...state.receipts, ...state.charges]) each.time -= each.time % DAY;
    });
    return "sent";
  }

  /** Let go of what waits. The coins stay fallen: there is no second toss. */
  drop() {
    return this.device.change((state) => void (state.queue = []));
  }
}

/** The questions that both proxies show, ready to be answered. */
export const openQuestions = async (document, link, copies) => {
  const skews = copies.flatMap(({ skew }) => (skew === null ? [] : [skew]));
  const skew = skews.length ? skews.reduce((least, each) => (Math.abs(each) < Math.abs(least) ? each : least)) : null;
  return Promise.all(
    document.questions.map(async (question, i) => {
      const asked = new Asked(question, copies[0].copies[i].text, copies[0].copies[i].query);
      await asked.open(document, link, copies[0].ring, skew);
      return asked;
    }),
  );
};
