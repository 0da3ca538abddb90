// What a design means: the verdict, what a person risks, the ± against epsilon, and what it takes.

import { h, hatches, icons, put, s } from './dom.js';
import { onSize } from './frames.js';
import { decimals, int, pct, words } from './numbers.js';

/** @typedef {import('./types.js').Design} Design */
/** @typedef {import('./types.js').RiskDocument} Risk */
/** @typedef {import('./types.js').PlanAlternative} Alternative */

/** @param {number} proportion */
const fine = (proportion) => pct(proportion, decimals(proportion / 2));

/**
 * The verdict has one height in both states: a headline, the reason, buttons that change one thing.
 * @param {HTMLElement} box @param {Design} design @param {(changes: Record<string, number>) => void} apply
 */
export function verdict(box, design, apply) {
  const fix = (/** @type {string} */ name, /** @type {string} */ rest, /** @type {Record<string, number>} */ changes) =>
    h('button', { class: 'btn', type: 'button', on: { click: () => apply(changes) } }, h('b', null, name), h('span', { class: 'quiet' }, rest));
  const head = (/** @type {'complete'|'refused'} */ kind, /** @type {string} */ title, /** @type {string} */ reason) =>
    h('div', { class: 'verdict-h' }, icons[kind](), h('div', null, h('h2', null, title), h('p', null, reason)));
  box.className = design.feasible ? 'verdict ok' : 'verdict refused';
  if (design.feasible) {
    const apart = design.detectable_difference === null ? 'Two halves of these people cannot be distinguished.'
      : `Two halves of these people can be distinguished if one has ${fine(design.proportion)} and the other at least ${fine(design.proportion + (design.detectable_difference ?? 0))} (power 80\u202f%, level 5\u202f%).`;
    put(box, head('complete', `A proportion of ${fine(design.proportion)} is estimated within \u00b1 ${pct(design.margin, decimals(design.margin))}`, apart),
      h('p', { class: 'small fix-n' }, 'Changing one thing:'), h('div', { class: 'fixes' }, (design.alternatives ?? []).map((other) => {
        const reach = `\u00b1 ${pct(other.margin, decimals(other.margin))}`;
        if (other.changed === 'margin') return fix(reach, `would take epsilon ${other.epsilon.toFixed(2)}`, { epsilon: other.epsilon });
        if (other.changed === 'epsilon') return fix(`epsilon ${other.epsilon.toFixed(2)}`, `would leave ${reach}`, { epsilon: other.epsilon });
        return fix(`${int(other.population)} people`, `would leave ${reach}`, { population: other.population });
      })));
    return;
  }
  const noise = design.margin !== undefined && design.margin > design.proportion;
  const reason = noise
    ? `At a proportion of ${fine(design.proportion)} the \u00b1 is ${pct(design.margin, 2)}, larger than the proportion itself (cv ${design.cv.toFixed(2)}). It cannot be distinguished from zero.`
    : `${(design.problem ?? '').charAt(0).toUpperCase()}${(design.problem ?? '').slice(1)}.`;
  const nearest = design.nearest ?? {};
  put(box, head('refused', noise ? 'Refused: this would be white noise' : 'Refused: this cannot be reached', reason),
    h('p', { class: 'small fix-n' }, 'Nearest that works, changing one thing:'), h('div', { class: 'fixes' },
      nearest.population && fix(`${int(nearest.population)} people`, design.population ? `now ${int(design.population)}` : '', { population: nearest.population }),
      nearest.proportion && fix(`proportion ${fine(nearest.proportion)}`, design.proportion ? `now ${fine(design.proportion)}` : '', { proportion: nearest.proportion }),
      nearest.epsilon && fix(`epsilon ${nearest.epsilon.toFixed(2)}`, design.epsilon ? `now ${design.epsilon.toFixed(2)}` : '', { epsilon: nearest.epsilon }),
      nearest.margin && fix(`\u00b1 ${pct(nearest.margin, 2)}`, '', { margin: nearest.margin })));
}

/** @param {number} belief */
const upTo = (belief) => (belief > 0.995 ? 'to near certainty' : `to at most ${Math.ceil(100 * belief - 1e-9)} in 100`);

/** @param {Risk} risk @param {number|null} budget */
function said(risk, budget) {
  if (risk.over === 'answer') return `Anyone who gave it 10 in 100 comes ${upTo(risk.belief)}.`;
  if (risk.note === 'replayed') return `The same randomized answer is replayed: ${upTo(risk.belief)}, as long as the true answer stays.`;
  if (risk.over === 'month') return risk.belief > 0.98 ? `Put together, ${risk.answers} answers hide little: ${upTo(risk.belief)}.` : `Put together: ${upTo(risk.belief)}.`;
  const end = risk.note === 'silent' ? `After ${risk.answers} answers the budget of ${budget} is spent, and the device falls silent: ` : `All ${risk.answers} answers together: `;
  return `${end}${upTo(risk.belief)}.`;
}

/** @param {HTMLTableSectionElement} body @param {Risk[]} risks @param {number|null} budget */
export function riskRows(body, risks, budget) {
  const names = /** @type {Record<string, string>} */ ({ answer: 'an answer', month: 'a month', life: 'the query\u2019s life' });
  put(body, risks.map((risk) => {
    const track = h('div', { class: 'track', role: 'img', 'aria-label': `from 10 in 100 ${upTo(risk.belief)}` }, h('i'), h('u'));
    track.style.setProperty('--to', `${100 * risk.belief}%`);
    return h('tr', { 'data-testid': `risk-${risk.over}` }, h('th', { scope: 'row' }, names[risk.over]), h('td', { class: 'num' }, int(risk.answers)), h('td', { class: 'num' }, h('b', null, risk.epsilon.toFixed(2))),
      h('td', { class: 'num' }, `\u00d7 ${words(risk.factor)}`), h('td', { class: 'c-track' }, track), h('td', { class: 'said' }, said(risk, budget)));
  }));
}

/** @param {number} bytes */
const size = (bytes) => (bytes < 1e3 ? `${Math.round(bytes)} B` : bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`);

/** @param {HTMLElement} list @param {Design} design @param {number} price */
export function costList(list, design, price) {
  const rows = [
    ['a device, a month', size(design.cost.device_bytes)], ['each proxy, a month', `${words(design.cost.proxy_shares)} shares, ${size(design.cost.proxy_bytes)}`],
    ['at your price, a month', price ? design.cost.price.toFixed(2) : '\u2013'], ['one report', `${design.report_bytes} B in shares of ${design.cost.share_bytes} B`], ['sampled epsilon', `${design.epsilon_sampled.toFixed(2)} among ${design.sampled_crowd === null ? 'any number of' : words(design.sampled_crowd)} people, delta ${design.delta_sampled}`],
  ];
  put(list, rows.map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value))));
}

const LEFT = 48, RIGHT = 12, TOP = 12, HEIGHT = 184, BOTTOM = 44;

/** The ± against epsilon, and where it would be white noise. */
export function curve() {
  const svg = s('svg', { role: 'img', 'aria-label': '\u00b1 against epsilon', height: HEIGHT }), host = h('div', null, svg), hatch = hatches();
  let width = 0;
  /** @type {Design|null} */ let shown = null;
  const draw = () => {
    if (!width || !shown?.curve?.length) return;
    const design = shown, low = 0.001, high = 0.3;
    const x = (/** @type {number} */ e) => LEFT + (Math.log(Math.min(6, Math.max(0.2, e)) / 0.2) / Math.log(30)) * (width - LEFT - RIGHT);
    const y = (/** @type {number} */ v) => TOP + (1 - Math.log(Math.min(high, Math.max(low, v)) / low) / Math.log(high / low)) * (HEIGHT - TOP - BOTTOM);
    svg.setAttribute('width', String(width));
    put(svg, hatch.defs, s('rect', { fill: hatch.fill('ink'), x: LEFT, width: width - LEFT - RIGHT, y: TOP, height: Math.max(0, y(design.proportion) - TOP) }),
      [0.001, 0.01, 0.1].map((v) => [s('line', { class: 'grid', x1: LEFT, x2: width - RIGHT, y1: y(v), y2: y(v) }), s('text', { x: LEFT - 8, y: y(v) + 4, 'text-anchor': 'end' }, pct(v, v < 0.01 ? 1 : 0))]),
      [0.25, 0.5, 1, 2, 4].map((e) => s('text', { x: x(e), y: HEIGHT - 26, 'text-anchor': 'middle' }, e)),
      s('text', { x: width - RIGHT, y: HEIGHT - 4, 'text-anchor': 'end' }, 'epsilon an answer, local'),
      s('path', { class: 'line', d: `M${design.curve.map(([e, v]) => `${x(e).toFixed(1)} ${y(v).toFixed(1)}`).join('L')}` }),
      s('line', { class: 'wish', x1: LEFT, x2: width - RIGHT, y1: y(design.proportion), y2: y(design.proportion) }),
      s('text', { class: 'svg-bad', x: width - RIGHT - 8, y: TOP + 18, 'text-anchor': 'end' }, `white noise: \u00b1 above ${fine(design.proportion)}`),
      s('line', { class: 'cursor', x1: x(design.epsilon), x2: x(design.epsilon), y1: y(design.margin), y2: HEIGHT - BOTTOM }),
      s('circle', { class: design.feasible ? 'dot' : 'dot hollow', cx: x(design.epsilon), cy: y(design.margin), r: 5 }));
  };
  onSize(host, (w) => { width = w; draw(); });
  return { host, show: (/** @type {Design} */ design) => { shown = design; draw(); } };
}
