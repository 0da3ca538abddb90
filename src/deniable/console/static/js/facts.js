// What a result rests on: what one answer costs a person, the ± against the target, and the versions of the parameters.

import { h, put, say } from './dom.js';
import { clock, decimals, duration, int, pct } from './numbers.js';
import { spark } from './spark.js';

/** @typedef {import('./types.js').Query} Query */
/** @typedef {import('./types.js').Series & {before?: (number|null)[]}} Series */
/** @typedef {Partial<import('./types.js').Version> & {serial: number}} Version */
/** @typedef {import('./types.js').WindowResult} WindowResult */

const Z95 = 1.959964;

/** Parameters in short. @param {Record<string, unknown>} parameters */
export function spokenParameters(parameters) {
  return Object.entries(parameters).filter(([name, value]) => name !== 'P' && value !== null).map(([name, value]) => {
    const text = typeof value === 'number' ? Number(value.toPrecision(4)) : typeof value === 'object' ? JSON.stringify(value) : String(value);
    return name === 'name' ? `${text}` : `${name} ${text}`;
  }).join(', ');
}

/** e^epsilon, rounded up: "no more than" must stay true. @param {number} epsilon */
export const factor = (epsilon) => (Math.ceil(10 * Math.exp(Math.min(epsilon, 700)) - 1e-9) / 10).toLocaleString('en-US', { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** The ± that the analyst wants. @param {Query} query @returns {number|null} */
const wishOf = (query) => query.budget.wish ?? null;

/** Against whom, and among how many: a sampled loss means nothing without. @param {import('./types.js').Sampled} loss */
export const crowdWords = (loss) => `against the aggregator and the analyst only, who cannot see which of ${loss.sampled_crowd === null ? 'the' : int(loss.sampled_crowd)} people took part (delta ${loss.delta_sampled})`;

/** @param {Query} query */
export function facts(query) {
  const local = h('span', { 'data-testid': 'epsilon-local' }), odds = h('p', { class: 'small muted' }), sampled = h('b'), crowd = h('p', { class: 'tiny quiet' });
  const reach = h('b'), picture = h('div', { class: 'spark-box' }), wish = h('p', { class: 'tiny quiet' });
  const list = h('ol', { class: 'versions', 'data-testid': 'versions' }), range = h('p', { class: 'tiny quiet' });
  const aim = wishOf(query);
  const write = (/** @type {number} */ epsilon, /** @type {import('./types.js').Sampled} */ other) => {
    say(local, epsilon.toFixed(2));
    say(odds, `Nobody\u2019s odds about a person change by more than a factor ${factor(epsilon)}, not even for those who see who answered.`);
    say(sampled, other.epsilon_sampled.toFixed(2));
    say(crowd, crowdWords(other));
  };
  write(query.epsilon_local, query);
  say(range, query.budget.epsilon === null ? 'The query sets no budget for a person\u2019s life.' : `At most ${query.budget.epsilon} over the life of the query for one person.`);
  put(wish, aim === null ? 'The query states no target. Widest bucket at 95\u202f%.' : [h('span', { class: 'wish-key' }), `wish ${pct(aim)}. Widest bucket at 95\u202f%. Triangles: off the scale`]);
  const aside = h('aside', { class: 'facts', 'aria-label': 'What this is based on' },
    h('section', null, h('h2', null, 'One answer costs a person'), h('p', { class: 'big' }, local, h('span', { class: 'big-unit' }, 'epsilon, local')), odds,
      h('p', { class: 'second' }, sampled, ' sampled'), crowd,
      h('p', { class: 'tiny quiet' }, `Over the life of the query: ${query.epsilon_life.toFixed(2)}, local`)),
    h('section', null, h('div', { class: 'head' }, h('h2', null, '\u00b1 against the target'), h('span', { class: 'small' }, reach)), picture, wish),
    h('section', null, h('h2', null, 'Versions'), list, range));
  return {
    aside,
    /** @param {WindowResult} result */
    now(result) {
      const told = /** @type {any} */ (result);
      if (typeof told.epsilon_local === 'number') write(told.epsilon_local, typeof told.sampled_crowd === 'number' ? told : query);
    },
    /** @param {Series} series */
    reach(series) {
      const reaches = series.widest.map((v) => (v === null ? null : Z95 * v)), last = reaches.at(-1) ?? null;
      say(reach, last === null ? '\u2013' : `\u00b1 ${pct(last, decimals(last))}`);
      put(picture, spark(reaches, series.serial, aim));
    },
    /** @param {Version[]} versions */
    versions(versions) {
      const ordered = [...versions].sort((a, b) => b.serial - a.serial);
      put(list, ordered.map((version) => {
        const when = version.from ? `${clock(Date.parse(version.from) / 1000)}, ` : '';
        const achieved = version.achieved ? ` \u00b1 was ${pct(version.achieved, 2)}.` : '';
        return h('li', null, h('span', { class: 'v' }, `v${version.serial}`), h('div', null,
          h('p', { class: 'small' }, spokenParameters(version.parameters ?? {})),
          h('p', { class: 'tiny quiet' }, `${when}${version.reason ?? 'as signed'}${achieved}`)));
      }));
    },
    every: duration(query.schedule.every),
  };
}
