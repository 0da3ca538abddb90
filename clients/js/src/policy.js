/** The owner's settings: who may ask, through whom, and what answers may cost. What is not named is refused. */

import { any, list, must, orNull, shape } from "./checks.js";
import { Fraction } from "./fraction.js";
import { stop } from "./signing.js";

/** @typedef {import("./query.js").Query} Query */

const DAY = 86_400;

/**
 * @typedef {object} Limit
 * @property {string | number} epsilon
 * @property {number | null} [period] seconds; without it, for life
 * @property {string | null} [analyst] whose questions it limits; all if left out
 * @property {boolean} [each_analyst] whether each analyst is counted alone
 */

/**
 * @typedef {object} Settings
 * @property {string[] | null} [analysts] who may ask, among those with a key on the ring; null for all of them
 * @property {string[]} [refused] who may not
 * @property {string | number} [epsilon_per_answer] the most that one answer may cost
 * @property {Limit[]} [limits]
 * @property {string[]} [strata] those to which this person belongs
 * @property {number} [queue_messages]
 * @property {number} [queue_age] seconds that a share is kept after the end of its epoch
 * @property {number} [upload_within] seconds over which uploads are spread; with 0 they happen at once
 * @property {number} [clock_tolerance] seconds by which this clock may differ from the proxies'
 * @property {number} [deadline] seconds that reading an answer may take
 */

const DEFAULTS = {
  analysts: null,
  refused: [],
  epsilon_per_answer: 3,
  limits: [
    { epsilon: 10, period: 30 * DAY, each_analyst: true },
    { epsilon: 30, period: 30 * DAY },
  ],
  strata: [],
  queue_messages: 1000,
  queue_age: 14 * DAY,
  upload_within: 600,
  clock_tolerance: 300,
  deadline: 1,
};

/** @type {import("./checks.js").Check<string[]>} */
const names = list(any);
/** @param {number} least @returns {import("./checks.js").Check<number>} */
const natural = (least) => must((value) => Number.isSafeInteger(value) && value >= least);
const SETTINGS = shape(
  {
    analysts: orNull(names),
    refused: names,
    epsilon_per_answer: /** @type {import("./checks.js").Check<string | number>} */ (any),
    limits: /** @type {import("./checks.js").Check<Limit[]>} */ (list(any)),
    strata: names,
    queue_messages: natural(1),
    queue_age: natural(1),
    upload_within: natural(0),
    clock_tolerance: natural(1),
    deadline: /** @type {import("./checks.js").Check<number>} */ (must((value) => value > 0 && value <= 60)),
  },
  { slot: natural(0) },
);

export class Policy {
  /** @param {Settings} settings @param {string[]} proxies the addresses that may receive shares */
  constructor(settings, proxies) {
    const given = SETTINGS({ ...DEFAULTS, ...settings }, "policy");
    this.settings = given;
    this.proxies = proxies;
    this.ceiling = Fraction.parse(given.epsilon_per_answer);
    this.limits = given.limits.map((limit) => ({ period: null, analyst: null, each_analyst: false, ...limit, epsilon: Fraction.parse(limit.epsilon) }));
    /** Seconds reserved for one answer: nothing that follows from it happens earlier. */
    this.slot = given.slot ?? (given.upload_within ? Math.ceil(3 * given.deadline) + 6 : 0);
  }

  /** Seconds after the end of its epoch for which a share is kept: at most as long as the query accepts late answers. @param {Query} query */
  keeps(query) {
    return Math.min(this.settings.queue_age, query.given.grace ?? Infinity);
  }

  /** The person's stratum of the query, if it may be answered at all. @param {Query} query */
  stratum(query) {
    const { refused, analysts, strata } = this.settings;
    const { analyst, strata: parts } = query.given;
    if (refused.includes(analyst)) stop("analyst refused");
    if (analysts && !analysts.includes(analyst)) stop("analyst not allowed");
    const foreign = query.proxies.find((proxy) => !this.proxies.includes(proxy));
    if (foreign !== undefined) stop("proxy not allowed", foreign);
    const found = parts.findIndex((stratum) => strata.includes(stratum.name));
    if (parts.length && found < 0) stop("not in a stratum");
    if (query.cost.exceeds(this.ceiling)) stop("over the ceiling", this.settings.epsilon_per_answer);
    return Math.max(found, 0);
  }
}
