/**
 * Queries: every rule that a signed query must obey. What is read here is the canonical tree itself,
 * so that a field that is missing, spelled another way, or written where it must be left out is refused.
 */

import { checkAsking } from "./asking.js";
import { Buckets, Column } from "./buckets.js";
import { digest, utf8 } from "./bytes.js";
import { encode, read, write } from "./canonical.js";
import { any, different, double, flag, key, like, list, one, orNull, probability, refuse, seconds, shape, table, text, time, whole } from "./checks.js";
import { Fraction, fraction } from "./fraction.js";
import { mechanism, twoSteps } from "./mechanisms.js";
import { LONGEST_TEXT } from "./patterns.js";

export const SEPARATOR = utf8("deniable query 1\0");
const MOST_EPOCHS = 2 ** 32;
const LARGEST_LOSS = 1000;
const MOST_STEPS = 1 << 24;
const LONGEST_SQL = 8192;

const serial = whole(1, 2 ** 53 - 1);
const count = whole(1, 2 ** 40);
const messages = whole(1, 1000);
const grace = whole(1, 30 * 86_400);
const sampling = double(1);
const loss = double(1e6);
const rate = double(1e15);
const line = text(200);

/** @type {import("./checks.js").Check<{origin: number, expires: number, every: number, epochs: number}>} */
const schedule = (value, name) => {
  const given = shape({ origin: time, expires: time, every: seconds, window: seconds, slide: seconds }, {})(value, name);
  const { origin, expires, every, window, slide } = given;
  const epochs = Math.floor((expires - origin) / every);
  const wholeWindows = window % every === 0 && slide % every === 0 && slide <= window;
  return wholeWindows && expires >= origin + window && epochs <= MOST_EPOCHS ? { ...given, epochs } : refuse(name);
};

const permission = shape(
  { owner: key, channel: line, guest: key, end: time, messages, grace: whole(0, 30 * 86_400), signature: like(/^[0-9a-f]{128}$/) },
  {},
);

const HEADER = {
  format: one("deniable query 1", "deniable query 2"),
  id: like(/^[a-z0-9][a-z0-9._-]{0,63}$/),
  serial,
  analyst: line,
  schedule,
  size_class: whole(0, 6),
  most_rows: messages,
  channel: orNull(line),
};
const HEADER_TOO = { grace, channel_owner: key, permission };

/** What anyone who only carries a query's shares may know: whose it is, which version, when, on which channel. */
export class Header {
  /** @param {string} content the canonical text */
  constructor(content) {
    this.content = content;
    this.tree = table(read(content), "query");
    this.header = shape(HEADER, HEADER_TOO, true)(this.tree, "");
    const { format, channel, channel_owner: owner, permission: permitted } = this.header;
    if (format.endsWith("2") !== Boolean(owner)) refuse("format");
    if ((owner && channel === null) || (permitted && permitted.owner !== owner)) refuse("channel_owner");
  }

  /** Whose query it is, and which: versions, epochs and charges are counted by it. */
  get name() {
    return write([this.header.analyst, this.header.id]);
  }

  /** The epoch that contains a time, which may be outside the query's life. @param {number} now */
  epochOf(now) {
    const { origin, every } = this.header.schedule;
    return Math.floor((now - origin) / every);
  }

  /** The first second after an epoch. @param {number} epoch */
  endOf(epoch) {
    const { origin, every } = this.header.schedule;
    return origin + (epoch + 1) * every;
  }

  digest() {
    return digest("SHA-256", SEPARATOR, utf8(this.content));
  }

  /** What proxies see in place of the query: 8 bytes. */
  async channelTag() {
    const { analyst, id, channel, channel_owner: owner, size_class, schedule: { origin, every } } = this.header;
    const named = { name: channel ?? `${analyst}/${id}`, origin, every, size_class, ...(owner && { owner }) };
    return (await digest("SHA-256", utf8(`deniable channel ${owner ? 2 : 1}\0`), encode(named))).subarray(0, 8);
  }
}

const COINS = /** @type {const} */ (["p", "q", "epsilon"]);

/** @param {import("./checks.js").Check<number>} check @returns {import("./checks.js").Check<number[]>} */
const range = (check) => (value, name) => {
  const found = list(check, 2, 2)(value, name);
  return found[0] <= found[1] ? found : refuse(name);
};

/** What an analyst lets a controller change. */
export const readEnvelope = shape(
  {
    controller: key,
    sampling: range(sampling),
    epsilon_per_answer: loss,
    p: orNull(range(sampling)),
    q: orNull(range(sampling)),
    epsilon: orNull(range(loss)),
    inversion: flag,
    until: orNull(time),
    versions: whole(1, 2 ** 32),
  },
  { allocation: one("neyman") },
);

/** @param {number} value @param {number[] | null} bounds */
export const within = (value, bounds) => bounds !== null && bounds[0] <= value && value <= bounds[1];

const BUDGET_TOO = {
  epsilon_per_answer: loss,
  sampled: loss,
  sampled_per_answer: loss,
  zero_knowledge: loss,
  zero_knowledge_per_answer: loss,
  relative_error: sampling,
  proportion: sampling,
  answers_per_second: rate,
  bytes_per_day: rate,
  money_per_month: rate,
  latency: seconds,
};

const readQuery = shape(
  {
    ...HEADER,
    question: text(2000, { empty: true, lines: true }),
    sql: text(LONGEST_SQL, { empty: true, lines: true }),
    columns: list((tree, name) => new Column(tree, name), 1),
    proxies: list(text(500), 2, 16),
    mechanism: any,
    sampling,
    strata: list(shape({ name: text(100), sampling: orNull(sampling), population: orNull(count) }, {}), 0, 1 << 16),
    population: orNull(count),
    minimum_cohort: count,
    budget: shape({ epsilon: orNull(loss), error: orNull(probability) }, BUDGET_TOO),
    rows: one("random", "aggregate", "several", "all"),
    memoize: flag,
    cover: flag,
  },
  {
    ...HEADER_TOO,
    distinct: whole(2, 1 << 16),
    ones: whole(2, 1 << 16),
    envelope: readEnvelope,
    instantaneous: shape({ p: probability, q: probability }, {}),
    ask: one(/** @type {"form"} */ ("form"), /** @type {"value"} */ ("value")),
    value: text(63),
    once: one(/** @type {true} */ (true)),
    public_results: one(true),
  },
);

/** A whole query: what a device is asked, and what protects its owner. */
export class Query extends Header {
  /** @param {string} content */
  constructor(content) {
    super(content);
    this.given = readQuery(this.tree, "");
    const { columns, proxies, strata, most_rows, rows, ones = 1, distinct = 1, sql, memoize } = this.given;
    this.buckets = new Buckets(columns);
    this.mostRows = most_rows;
    this.ones = ones;
    this.distinct = distinct;
    this.memoize = memoize;
    this.proxies = proxies;
    different("proxies", proxies);
    different("strata", strata.map((stratum) => stratum.name));
    checkAsking(this.given, columns);
    if (utf8(sql).length > LONGEST_SQL) refuse("sql");
    if (most_rows > 1 !== (rows === "several")) refuse("most_rows");
    this.mechanism = this.readMechanism();
    this.checkAnswers();
    // The loss of one report, and what a ledger counts per row: of the permanent answer, if there is one.
    const report = this.mechanism.loss(ones);
    const charged = (memoize && this.mechanism.lifetime?.(ones)) || report;
    this.rowCost = Fraction.parse(charged);
    this.checkBudget(Fraction.ofDouble(report).times(fraction(most_rows)), Fraction.ofDouble(charged).times(fraction(most_rows * distinct)));
  }

  readMechanism() {
    const { instantaneous, memoize, size_class, mechanism: recipe } = this.given;
    const first = mechanism(recipe, this.buckets.size);
    if (!first.unary && (instantaneous || !this.buckets.complete)) refuse("mechanism");
    if (instantaneous && !memoize) refuse("instantaneous");
    if ((64 << size_class) - 56 < first.bytes) refuse("size_class");
    return instantaneous ? twoSteps(first, this.buckets.size, instantaneous) : first;
  }

  checkAnswers() {
    const { ones, distinct, memoize, mechanism: { unary, loss: lossOf }, buckets: { size, complete, columns } } = this;
    const { rows } = this.given;
    const several = ones > 1;
    const needed = rows === "all" || columns.some((column) => column.overlapping);
    const possible = unary && rows !== "several" && ones <= size && lossOf(ones) <= LARGEST_LOSS;
    if (several ? !possible : needed) refuse("ones");
    if (distinct > 1 && (!memoize || (!several && distinct > size + Number(!complete)))) refuse("distinct");
  }

  /** @param {Fraction} local of one epoch's reports @param {Fraction} life of all permanent answers */
  checkBudget(local, life) {
    const { budget, envelope, instantaneous } = this.given;
    if (budget.relative_error !== undefined && (budget.error !== null || budget.proportion === undefined)) refuse("budget.relative_error");
    if (budget.epsilon !== null) {
      const most = Fraction.ofDouble(budget.epsilon);
      if (local.exceeds(most) || (instantaneous && life.exceeds(most))) refuse("budget.epsilon");
    }
    if (envelope) this.checkEnvelope(envelope, local);
  }

  /** @param {ReturnType<typeof readEnvelope>} envelope @param {Fraction} local */
  checkEnvelope(envelope, local) {
    const { budget, strata, memoize, mechanism: recipe, sampling: own } = this.given;
    const samplings = [own, ...strata.map((stratum) => stratum.sampling ?? own)];
    const inside =
      budget.epsilon !== null &&
      !(envelope.inversion && recipe.name !== "TwoCoin") &&
      samplings.every((value) => within(value, envelope.sampling)) &&
      COINS.every((name) => {
        const bounds = envelope[name];
        if (!(name in recipe)) return bounds === null;
        return within(recipe[name].value, bounds) && !(memoize && bounds && bounds[0] !== bounds[1]);
      });
    if (!inside || local.exceeds(Fraction.ofDouble(envelope.epsilon_per_answer))) refuse("envelope");
  }

  /** What an answer costs or, for memoized answers, all of them together. */
  get cost() {
    return this.rowCost.times(fraction(this.mostRows * this.distinct));
  }

  /** Whether the patterns take few enough steps for one answer. */
  get readable() {
    return this.buckets.positions * LONGEST_TEXT * this.mostRows <= MOST_STEPS;
  }

  /** The question and its mechanism, to which permanent answers belong, over all versions that do not change these. */
  get scope() {
    const { ask, value = null } = this.given;
    const named = ["analyst", "id", "sql", "columns", "mechanism"].map((name) => this.tree[name]);
    if (this.ones > 1) named.push(this.ones);
    return encode(ask ? [...named, ask, value] : named);
  }
}

/** A controller's version, from its canonical tree. */
export const readVersion = shape(
  {
    format: one("deniable version 1"),
    query: key,
    serial,
    sampling,
    mechanism: shape({}, { p: loss, q: loss, epsilon: loss, inverted: flag }),
    strata: orNull(list(sampling)),
  },
  {},
);

/**
 * The canonical text of the effective query: the analyst's, with the version's numbers in their places.
 * @param {{[key: string]: any}} query @param {{[key: string]: any}} version canonical trees
 */
export const applied = (query, version) => {
  const recipe = { ...query.mechanism, ...version.mechanism };
  if (!recipe.inverted) delete recipe.inverted;
  let { strata } = query;
  if (version.strata) {
    if (strata.length !== version.strata.length) refuse("strata");
    strata = strata.map((/** @type {object} */ stratum, /** @type {number} */ i) => ({ ...stratum, sampling: version.strata[i] }));
  }
  return write({ ...query, serial: version.serial, sampling: version.sampling, mechanism: recipe, strata });
};
