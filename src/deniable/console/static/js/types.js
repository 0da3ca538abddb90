/**
 * The documents of the aggregator's interface, as docs/aggregator.md describes them.
 *
 * @typedef {{received: number, counted: number, orphaned: number, duplicate: number, late: number, malformed: number,
 *   waiting: number}} Account
 *
 * @typedef {object} WindowResult
 * @property {number} number
 * @property {string} query
 * @property {number} serial
 * @property {number} index
 * @property {number} start
 * @property {number} end
 * @property {string} condition
 * @property {number} n
 * @property {number} nothing
 * @property {number} [held_back]
 * @property {string[]} missing
 * @property {{proxies: Record<string, Account>, balanced: boolean}} conservation
 * @property {number} [revision]
 * @property {boolean} [final]
 * @property {string[]} [labels]
 * @property {number[]} [estimate]
 * @property {number[]} [unbiased]
 * @property {number[]} [stderr]
 * @property {(number|null)[]} [low]
 * @property {(number|null)[]} [high]
 * @property {number} [confidence]
 * @property {number|null} [population]
 * @property {string[]} [notes]
 *
 * @typedef {object} Query
 * @property {string} id
 * @property {number} serial
 * @property {string} analyst
 * @property {string} question
 * @property {string[]} labels
 * @property {{name: string, labels: string[]}[]} columns
 * @property {string[]} strata
 * @property {Record<string, unknown>} mechanism
 * @property {number} sampling
 * @property {number|null} population
 * @property {{epsilon: number|null, wish: number|null}} budget
 * @property {{origin: number, expires: number, every: number, window: number, slide: number}} schedule
 * @property {number} epsilon_local
 * @property {number} epsilon_sampled
 * @property {number} delta_sampled
 * @property {number} sampled_crowd
 * @property {number} epsilon_life
 * @property {number} minimum_cohort
 * @property {number} published
 * @property {number|null} stopped
 * @property {Record<string, string>} relayed
 * @property {string[]} may what the token that asks allows with it: read, publish, stop, delete
 * @property {{number: number, index: number, start: number, end: number, condition: string, n: number}|null} latest
 * @property {{index: number, start: number, end: number, since: number, proxies: string[]}|null} overdue the window that should have come by now
 *
 * @typedef {object} Series
 * @property {number[]} index
 * @property {number[]} start
 * @property {number[]} end
 * @property {number[]} serial
 * @property {string[]} condition
 * @property {number[]} n
 * @property {(number|null)[]} revision
 * @property {(number|null)[]} estimate
 * @property {(number|null)[]} low
 * @property {(number|null)[]} high
 * @property {(number|null)[]} widest
 * @property {(number|null)[]} [before]
 *
 * @typedef {{epsilon_sampled: number, delta_sampled: number, sampled_crowd: number}} Sampled
 * @typedef {{name: string, condition: string, lag: number, problem: string}} ProxyHealth
 * @typedef {{status: string, engine: string, relay: string, proxies: ProxyHealth[]}} Health
 * @typedef {{name: string, role: string, csrf: string, proxies: string[]}} Session
 *
 * @typedef {{serial: number, from_epoch?: number, from?: string, parameters?: Record<string, unknown>, epsilon?: {local: number, sampled: number, sampled_delta: number, sampled_crowd: number},
 *   reason?: string, wish?: number|null, achieved?: number|null}} Version
 */
export {};
