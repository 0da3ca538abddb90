// Two periods, or two parts of one, beside each other, and their difference: one table, two columns of marks.

import { h, put, s } from './dom.js';
import { frame, onSize } from './frames.js';
import { bare, decimals, pct, signed, stepDigits, ticks } from './numbers.js';

/** @typedef {{label: string, a: number, aLow: number, aHigh: number, b: number, bLow: number, bHigh: number, difference: number, low: number,
 *   high: number, alone: number}} Pair a label in both, their difference, its interval, and the ± of this label alone */

/** @param {Pair} pair */
export const apart = (pair) => pair.low > 0 || pair.high < 0;
/** @param {Pair} pair */
const verdict = (pair) => (!apart(pair) ? 'no clear difference' : pair.difference > 0 ? 'more in B' : 'less in B');

/** What the comparison finds, in a sentence. @param {Pair[]} pairs */
export function finding(pairs) {
  const more = pairs.filter((pair) => apart(pair) && pair.difference > 0).map((pair) => pair.label);
  const less = pairs.filter((pair) => apart(pair) && pair.difference < 0).map((pair) => pair.label);
  const words = [more.length ? `More in B: ${more.join(', ')}.` : '', less.length ? `Less: ${less.join(', ')}.` : ''].filter(Boolean).join(' ');
  return { title: `${more.length + less.length} of ${pairs.length} buckets differ`, words };
}

export class DnCompare extends HTMLElement {
  #svg = s('svg', { 'aria-hidden': 'true' });
  #table = h('table', { class: 'bars compare' });
  #one = h('th', { class: 'c-chart', scope: 'col' }, 'proportions');
  #two = h('th', { class: 'c-diff', scope: 'col' }, 'difference, points');
  /** @type {Pair[]} */ #pairs = [];

  connectedCallback() {
    if (this.#svg.isConnected) return;
    this.className = 'chart';
    this.append(this.#svg, this.#table);
    onSize(this, () => this.#draw());
  }

  get marks() { return this.#svg; }
  get pairs() { return this.#pairs; }

  /** @param {Pair[]} pairs @param {string} head */
  show(pairs, head) {
    this.#pairs = pairs;
    const digits = decimals(Math.max(1e-9, ...pairs.map((pair) => (pair.high - pair.low) / 2)));
    this.#table.classList.toggle('wide-labels', pairs.some((pair) => pair.label.length > 10));
    put(this.#table, h('caption', { class: 'visually-hidden' }, 'Proportions in A and B, and their difference'),
      h('thead', null, h('tr', null, h('th', { class: 'c-label', scope: 'col' }, h('span', { class: 'pad' }, head)), this.#one,
        h('th', { class: 'num c-n', scope: 'col' }, h('span', { class: 'tag a' }, 'A')), h('th', { class: 'num c-n', scope: 'col' }, h('span', { class: 'tag b' }, 'B')), this.#two,
        h('th', { class: 'num c-d', scope: 'col' }, 'B \u2212 A'), h('th', { class: 'c-v', scope: 'col' }, h('span', { class: 'visually-hidden' }, 'verdict')))),
      h('tbody', null, pairs.map((pair, k) => h('tr', { 'data-testid': `compare-${k}` }, h('th', { scope: 'row' }, h('span', { class: 'pad label', title: pair.label }, pair.label)), h('td', { 'aria-hidden': 'true' }),
        h('td', { class: 'num' }, pct(pair.a, digits)), h('td', { class: 'num' }, pct(pair.b, digits)), h('td', { 'aria-hidden': 'true', class: 'c-diff' }),
        h('td', { class: `num${apart(pair) ? ' est' : ' muted'}` }, h('span', null, signed(pair.difference, digits)), h('span', { class: 'ends' }, `${signed(pair.low, digits)} to ${signed(pair.high, digits)}`)), h('td', { class: apart(pair) ? 'apart' : 'quiet' }, verdict(pair))))),
      h('tfoot', { class: 'axis', 'aria-hidden': 'true' }, h('tr', null, Array.from({ length: 7 }, () => h('td')))));
    frame(this, () => this.#draw());
  }

  #draw() {
    const pairs = this.#pairs;
    if (!pairs.length || !this.isConnected) return;
    const box = this.getBoundingClientRect(), one = this.#one.getBoundingClientRect(), two = this.#two.getBoundingClientRect();
    const body = /** @type {HTMLElement} */ (this.#table.tBodies[0]).getBoundingClientRect(), row = body.height / pairs.length, height = body.height;
    this.#svg.setAttribute('width', String(box.width));
    this.#svg.setAttribute('height', String(height + 28));
    this.#svg.style.setProperty('left', '0px');
    this.#svg.style.setProperty('top', `${body.top - box.top}px`);
    put(this.#svg);
    const axis = (/** @type {DOMRect} */ cell, /** @type {number} */ a, /** @type {number} */ b, /** @type {boolean} */ points) => {
      const x = (/** @type {number} */ v) => cell.left - box.left + 16 + ((v - a) / (b - a)) * (cell.width - 32), found = ticks(a, b, Math.max(2, Math.min(8, cell.width / 64))), digits = stepDigits(found.step);
      for (const [i, v] of found.values.entries()) {
        this.#svg.append(s('line', { class: v === 0 ? 'zero' : 'grid', x1: x(v), x2: x(v), y1: -4, y2: height + 4 }),
          s('text', { x: x(v), y: height + 20, 'text-anchor': 'middle' }, points ? signed(v, digits) : i === found.values.length - 1 ? pct(v, digits) : bare(v, digits)));
      }
      return x;
    };
    const least = Math.min(0, ...pairs.flatMap((pair) => [pair.a, pair.b])), most = Math.max(...pairs.flatMap((pair) => [pair.aHigh, pair.bHigh]));
    const reach = Math.max(1e-6, ...pairs.map((pair) => Math.max(Math.abs(pair.low), Math.abs(pair.high)))) * 1.06;
    const x = one.width < 60 ? null : axis(one, least, most * 1.04, false), z = two.width > 60 ? axis(two, -reach, reach, true) : null;
    pairs.forEach((pair, k) => {
      const y = (k + 0.5) * row;
      if (x) {
        this.#svg.append(whisker(x(pair.aLow), x(pair.aHigh), y - 6, 3, 'a'), whisker(x(pair.bLow), x(pair.bHigh), y + 6, 3, 'b'),
          s('circle', { class: 'dot a', cx: x(pair.a), cy: y - 6, r: 4 }), s('rect', { class: 'dot b', x: x(pair.b) - 3.75, y: y + 2.25, width: 7.5, height: 7.5 }));
      }
      if (z) {
        this.#svg.append(s('rect', { class: 'alone', x: z(pair.difference - pair.alone), width: z(pair.alone) - z(-pair.alone), y: y - 4, height: 8 }), whisker(z(pair.low), z(pair.high), y, 4, ''),
          s('circle', { class: apart(pair) ? 'dot ink' : 'dot ink hollow', cx: z(pair.difference), cy: y, r: 4 }));
      }
    });
  }
}

/** @param {number} low @param {number} high @param {number} y @param {number} cap @param {string} kind */
const whisker = (low, high, y, cap, kind) => s('path', { class: `whisker ${kind}`, d: `M${low} ${y}H${high}M${low} ${y - cap}v${2 * cap}M${high} ${y - cap}v${2 * cap}` });

customElements.define('dn-compare', DnCompare);
