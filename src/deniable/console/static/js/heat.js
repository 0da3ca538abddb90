// Two columns of buckets as a table of cells, whose colour fades with certainty (a value-suppressing palette).

import { Problem, get, latestOnly, of } from './api.js';
import { h, label, put, say, segmented } from './dom.js';
import { bare, decimals } from './numbers.js';

/** @typedef {import('./types.js').Query} Query */
/** @typedef {import('./types.js').WindowResult} WindowResult */
/** @typedef {{value: number, low: number, high: number, reach: number}} Cell */

/** @param {number} [value] @param {number} [low] @param {number} [high] @returns {Cell} */
export const cellOf = (value = 0, low = 0, high = 1) => ({ value, low, high, reach: (high - low) / 2 });

/** @param {Cell} cell @param {boolean} joint */
export function shade({ value, reach }, joint) {
  const rough = reach / Math.max(1e-12, value), level = joint ? 4 * value : value;
  if (value <= 0 || rough >= 1) return 'none';
  if (rough >= 0.3) return `soft-${level < 0.08 ? 0 : level < 0.3 ? 1 : 2}`;
  return `heat-${level < 0.05 ? 0 : level < 0.15 ? 1 : level < 0.35 ? 2 : level < 0.6 ? 3 : 4}`;
}

/**
 * @param {string[]} rows @param {string[]} columns @param {Cell[][]} cells @param {string} caption @param {string[]} names
 * @param {boolean} joint
 */
export function heatTable(rows, columns, cells, caption, names, joint) {
  const digits = Math.min(2, decimals(Math.min(...cells.flat().map((cell) => cell.reach).filter((reach) => reach > 0), 1)));
  const table = h('table', { class: 'heat', 'data-testid': 'heat' }, h('caption', { class: 'visually-hidden' }, caption),
    h('thead', null, h('tr', null, h('th', { class: 'corner', scope: 'col' }, names[0]), h('th', { colspan: columns.length, class: 'over-h', scope: 'colgroup' }, `${names[1]}, %`)),
      h('tr', null, h('td'), columns.map((name) => h('th', { scope: 'col' }, label(name))))),
    h('tbody', null, rows.map((name, i) => h('tr', null, h('th', { scope: 'row' }, label(name)),
      cells[i].map((cell) => h('td', { class: `cell ${shade(cell, joint)}` }, h('b', null, bare(cell.value, digits)), h('span', null, `${bare(cell.low, digits)} to ${bare(cell.high, digits)}`)))))));
  table.style.setProperty('min-width', `${120 + 76 * columns.length}px`);
  return table;
}

export function heatKey() {
  return h('div', { class: 'key-box' }, h('h3', null, 'Colour fades with certainty'),
    h('table', { class: 'key', 'aria-label': 'Colours' }, h('tbody', null,
      h('tr', null, h('th', { scope: 'row' }, 'interval under 60 % of it'), [0, 1, 2, 3, 4].map((k) => h('td', { class: `heat-${k}` }))),
      h('tr', null, h('th', { scope: 'row' }, 'interval under twice it'), [0, 1, 2].map((k, i) => h('td', { class: `soft-${k}`, colspan: [2, 2, 1][i] }))),
      h('tr', null, h('th', { scope: 'row' }, 'not distinct from 0'), h('td', { class: 'none', colspan: 5 })))),
    h('p', { class: 'caption' }, 'A cell whose interval is wider than twice its proportion has no colour at all. Below zero: noise outweighed the answers.'));
}

/** @typedef {{name: string, estimate?: number[], low?: number[], high?: number[], labels?: string[]}} Part */

/** The distribution of a window over two columns of buckets: joint, or given one of them. @param {Query} query */
export function heatPart(query) {
  const part = h('div', { class: 'part', hidden: true }), box = h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Table of both columns' }), words = h('p', { class: 'small muted', 'data-testid': 'heat-words' });
  if (query.columns.length !== 2) return { part, show: () => undefined };
  const [first, second] = query.columns;
  let given = '';
  /** @type {{result: WindowResult, confidence: number}|null} */ let shown = null;
  const latest = latestOnly();

  function drawJoint() {
    if (!shown) return;
    const width = second.labels.length, { estimate = [], low = [], high = [] } = shown.result;
    const cells = first.labels.map((_, i) => second.labels.map((__, j) => {
      const k = i * width + j;
      return cellOf(estimate[k] ?? undefined, low[k] ?? undefined, high[k] ?? undefined);
    }));
    say(words, `Proportions of all answers, with their ${shown.confidence} % intervals`);
    put(box, heatTable(first.labels, second.labels, cells, `Proportions of ${first.name} and ${second.name}, percent, with intervals`, [first.name, second.name], true));
  }

  /** The server conditions: the interval of a quotient needs the covariance. */
  async function drawGiven() {
    if (!shown) return;
    const { result, confidence } = shown, other = given === first.name ? second : first;
    try {
      const told = await get(of(query.id, '/history', { from: result.start, to: result.end, given, source: 'panes', confidence: confidence / 100 }), latest());
      const parts = /** @type {Part[]} */ (told.parts).filter((each) => each.estimate);
      const cells = parts.map((each) => other.labels.map((_, k) => cellOf(each.estimate?.[k], each.low?.[k], each.high?.[k])));
      say(words, `Proportions of ${other.name} among those of each ${given}, with their ${confidence} % intervals`);
      put(box, heatTable(parts.map((each) => String(each.name)), other.labels, cells, `Proportions of ${other.name} given ${given}, percent, with intervals`, [given, other.name], false));
    } catch (error) {
      if (error instanceof Problem) say(words, error.status === 404 ? 'This aggregator cannot condition on a column.' : error.message);
    }
  }

  const draw = () => (given ? void drawGiven() : drawJoint());
  const choose = segmented('heat', [['', 'joint'], [first.name, `given ${first.name}`], [second.name, `given ${second.name}`]], given, (value) => { given = value; draw(); }, 'Joint or conditional');
  put(part, h('div', { class: 'head' }, h('div', null, h('h2', null, label(first.name), ' by ', label(second.name)), words), choose), h('div', { class: 'heat-box' }, box, heatKey()));
  return {
    part,
    /** @param {WindowResult} result @param {number} confidence */
    show(result, confidence) {
      part.hidden = false;
      shown = { result, confidence };
      draw();
    },
  };
}
