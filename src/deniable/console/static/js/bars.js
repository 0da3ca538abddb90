// Bars with whiskers. The chart is a table; its marks lie over the second column, in pixels. Nodes are made once, and then only
// their attributes change: numbers at once, marks in a glide.

import { h, hatches, put, s, say, set } from './dom.js';
import { frame, glided, onSize } from './frames.js';
import { bare, decimals, int, pct, settle, stepDigits, ticks } from './numbers.js';

/**
 * @typedef {{label: string, value: number, low: number, high: number, raw?: number|null, before?: number|null,
 *   truth?: number|null}} Row
 * @typedef {{counts: boolean, size: number, picked: number, confidence: number, projected: boolean, missing: boolean,
 *   head: string, caption: string}} Options
 * @typedef {{value: number, low: number, high: number, raw: number}} Marks
 * @typedef {{tr: HTMLTableRowElement, pick: HTMLButtonElement, est: HTMLElement, sub: HTMLElement, int: HTMLElement, g: SVGGElement,
 *   bar: SVGRectElement, before: SVGLineElement, whisker: SVGPathElement, clip: SVGPathElement, tie: SVGLineElement,
 *   ghost: SVGCircleElement, truth: SVGLineElement, dot: SVGPathElement}} RowNodes
 */

/** The mark of a window that was closed without a proxy: the shape of its badge. @param {number} x @param {number} y @param {number} r */
export const triangle = (x, y, r = 5.5) => `M${x} ${y - r}l${r} ${1.7 * r}h${-2 * r}z`;
/** @param {number} x @param {number} y @param {number} r */
export const diamond = (x, y, r = 5.5) => `M${x} ${y - r}l${r} ${r}l${-r} ${r}l${-r} ${-r}z`;
/** @param {number} x @param {number} y @param {number} r */
export const round = (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;

const CAP = 4;

export class DnBars extends HTMLElement {
  #svg = s('svg', { 'aria-hidden': 'true' });
  #grid = s('g');
  #hatch = hatches();
  #table = h('table', { class: 'bars' });
  #cell = h('th', { 'aria-hidden': 'true', class: 'c-chart' });
  #caption = h('caption', { class: 'visually-hidden' });
  #interval = h('th', { scope: 'col', class: 'num int' });
  #head = h('span', { class: 'pad' });
  /** @type {RowNodes[]} */ #rows = [];
  /** @type {Row[]} */ #data = [];
  /** @type {Marks[]} */ #from = [];
  /** @type {Marks[]} */ #now = [];
  #began = 0;
  /** @type {[number, number]|null} */ #domain = null;
  #key = '';
  /** @type {Options} */ #options = {
    counts: false, size: 1, picked: -1, confidence: 95, projected: false, missing: false, head: 'bucket', caption: '',
  };
  #box = { x: 0, width: 0, top: 0, row: 28 };
  /** @type {Set<Element>} */ #seen = new Set();
  #watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) this.#seen.add(target);
      else this.#seen.delete(target);
    }
  });

  connectedCallback() {
    if (this.#svg.isConnected) return;
    this.className = 'chart';
    this.#svg.append(this.#hatch.defs, this.#grid);
    this.append(this.#svg, this.#table);
    onSize(this, () => { this.#measure(); this.#draw(1); });
  }

  /** The SVG of the marks, for an export. */
  get marks() { return this.#svg; }
  get rows() { return this.#data; }
  get options() { return this.#options; }

  /** @param {Row[]} data @param {Options} options */
  show(data, options) {
    const before = this.#options;
    this.#options = options;
    const key = JSON.stringify([data.map((row) => row.label), options.counts]);
    const fresh = key !== this.#key;
    this.#data = data;
    if (fresh) this.#build(key);
    this.#write();
    const jump = fresh || before.projected !== options.projected || !this.#now.length;
    this.#from = jump ? data.map(marksOf) : this.#now;
    this.#began = performance.now();
    this.#settle();
    frame(this, (now) => {
      if (!this.isConnected) return false;
      if (fresh || !this.#box.width) this.#measure();
      const part = glided(this.#began, now);
      this.#draw(part);
      return part < 1;
    });
  }

  /** @param {string} key */
  #build(key) {
    this.#key = key;
    this.#domain = null;
    this.#now = [];
    for (const row of this.#rows) row.g.remove();
    this.#watch.disconnect();
    this.#seen.clear();
    this.#rows = this.#data.map((row, i) => this.#row(row.label, i));
    this.#table.classList.toggle('wide-labels', this.#data.some((row) => row.label.length > 12));
    put(this.#table, this.#caption,
      h('colgroup', null, h('col', { class: 'c-label' }), h('col'), h('col', { class: 'c-est' }), h('col', { class: 'c-int' })),
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, this.#head), this.#cell,
        h('th', { scope: 'col', class: 'num est-h' }, 'estimate'), this.#interval)),
      h('tbody', null, this.#rows.map((row) => row.tr)),
      h('tfoot', { class: 'axis', 'aria-hidden': 'true' }, h('tr', null, h('td'), h('td'), h('td'), h('td'))));
    this.#svg.append(...this.#rows.map((row) => row.g));
    for (const row of this.#rows) this.#watch.observe(row.tr);
  }

  /** @param {string} name @param {number} i @returns {RowNodes} */
  #row(name, i) {
    const est = h('span'), sub = h('span', { class: 'sub' }), interval = h('td', { class: 'num int' });
    const pick = h('button', {
      class: 'pick label', type: 'button', title: name, 'aria-pressed': 'false',
      on: { click: () => this.dispatchEvent(new CustomEvent('pick', { detail: i })) },
    }, name);
    const tr = h('tr', { 'data-testid': `bucket-${i}` }, h('th', { scope: 'row' }, pick), h('td', { 'aria-hidden': 'true' }),
      h('td', { class: 'num est' }, est, sub), interval);
    const bar = s('rect', { height: 12 }), before = s('line', { class: 'before' }), whisker = s('path', { class: 'whisker' });
    const clip = s('path', { class: 'clip' }), tie = s('line', { class: 'tie' }), ghost = s('circle', { class: 'dot ghost', r: 3 });
    const truth = s('line', { class: 'truth' }), dot = s('path', { class: 'dot' });
    const g = s('g', null, bar, truth, before, whisker, clip, tie, ghost, dot);
    return { tr, pick, est, sub, int: interval, g, bar, before, whisker, clip, tie, ghost, truth, dot };
  }

  #write() {
    const { counts, size, picked, confidence, head, caption } = this.#options;
    const widest = Math.max(0, ...this.#data.map((row) => (row.high - row.low) / 2));
    const digits = decimals(widest);
    say(this.#interval, `${confidence} % interval`);
    say(this.#head, head);
    say(this.#caption, caption);
    this.#data.forEach((row, i) => {
      const nodes = this.#rows[i];
      const one = counts ? int(row.value * size) : pct(row.value, digits);
      const range = counts ? `${int(row.low * size)} to ${int(row.high * size)}` : `${bare(row.low, digits)} to ${bare(row.high, digits)}`;
      say(nodes.est, one);
      say(nodes.int, range);
      say(nodes.sub, range.replace(' to ', '\u2013'));
      nodes.tr.toggleAttribute('data-on', i === picked);
      set(nodes.pick, { 'aria-pressed': String(i === picked) });
    });
  }

  /** Layout is read here alone. */
  #measure() {
    if (!this.#rows.length || !this.isConnected) return;
    const box = this.getBoundingClientRect(), head = this.#cell.getBoundingClientRect();
    const body = /** @type {HTMLElement} */ (this.#table.tBodies[0]).getBoundingClientRect();
    this.#box = { x: head.left - box.left + 16, width: head.width - 32, top: body.top - box.top, row: body.height / this.#rows.length };
    const { x, width, top, row } = this.#box;
    set(this.#svg, { width: Math.max(0, width), height: row * this.#rows.length + 28 });
    this.#svg.style.setProperty('left', `${x}px`);
    this.#svg.style.setProperty('top', `${top}px`);
    this.#axis();
  }

  #settle() {
    if (!this.#data.length) return;
    const low = Math.min(...this.#data.map((row) => Math.min(row.value, row.low, row.truth ?? row.value)));
    const high = Math.max(...this.#data.map((row) => Math.max(row.value, row.high, row.truth ?? row.value)));
    const domain = settle(this.#domain, low, Math.min(high, 1.05));
    if (domain !== this.#domain) {
      this.#domain = domain;
      if (this.#box.width) this.#axis();
    }
  }

  #axis() {
    const { counts, size } = this.#options, [a, b] = this.#domain ?? [0, 1], { width, row } = this.#box;
    if (width < 40) return;
    const height = row * this.#rows.length, found = ticks(a, b, Math.max(2, Math.min(9, width / 72))), digits = stepDigits(found.step);
    const x = (/** @type {number} */ v) => ((v - a) / (b - a)) * width;
    put(this.#grid, found.values.map((v, i) => [
      s('line', { class: v === 0 ? 'zero' : 'grid', x1: x(v), x2: x(v), y1: -4, y2: height + 4 }),
      s('text', { x: x(v), y: height + 20, 'text-anchor': 'middle' },
        counts ? int(v * size) : i === found.values.length - 1 || (width < 240 && v === 0) ? pct(v, digits) : bare(v, digits)),
    ]));
  }

  /** @param {number} part how far the glide has come */
  #draw(part) {
    const [a, b] = this.#domain ?? [0, 1], { width, row } = this.#box, options = this.#options;
    if (width < 40) return;
    const x = (/** @type {number} */ v) => Math.round(((v - a) / (b - a)) * width * 10) / 10;
    const inside = (/** @type {number} */ v) => Math.max(a, Math.min(b, v));
    this.#now = this.#data.map((target, i) => {
      const from = this.#from[i] ?? marksOf(target), to = marksOf(target);
      const at = (/** @type {keyof Marks} */ name) => from[name] + (to[name] - from[name]) * part;
      const now = { value: at('value'), low: at('low'), high: at('high'), raw: at('raw') };
      // Rows out of sight do not glide: they are drawn once, where they end up.
      if (part === 1 || this.#seen.has(this.#rows[i].tr)) this.#mark(this.#rows[i], target, now, (i + 0.5) * row, x, inside, [a, b], options);
      return now;
    });
  }

  /**
   * @param {RowNodes} nodes @param {Row} target @param {Marks} now @param {number} y
   * @param {(v: number) => number} x @param {(v: number) => number} inside @param {[number, number]} domain @param {Options} options
   */
  #mark(nodes, target, now, y, x, inside, [a, b], options) {
    const below = now.value < 0, from = x(inside(Math.min(0, now.value))), to = x(inside(Math.max(0, now.value)));
    set(nodes.bar, { class: below ? '' : 'bar-fill', fill: below ? this.#hatch.fill('data') : null, x: from, y: y - 6, width: Math.max(0, to - from) });
    const low = x(inside(now.low)), high = x(inside(now.high));
    // An end that 0 or 100 % cuts has no cap; one that the axis cuts has an arrow.
    let path = `M${low} ${y}H${high}`;
    if (target.low > 0 && now.low >= a) path += `M${low} ${y - CAP}v${2 * CAP}`;
    if (target.high < 1 && now.high <= b) path += `M${high} ${y - CAP}v${2 * CAP}`;
    set(nodes.whisker, { d: path, class: options.missing ? 'whisker dashed' : 'whisker' });
    set(nodes.clip, { d: now.high > b ? `M${x(b) + 1} ${y - 4}l6 4l-6 4z` : '' });
    line(nodes.tie, now.value < now.low ? [x(inside(now.value)), low, y, y] : null);
    line(nodes.before, target.before === null || target.before === undefined ? null : [x(target.before), x(target.before), y - 9, y + 9]);
    line(nodes.truth, target.truth === null || target.truth === undefined ? null : [x(target.truth), x(target.truth), y - 10, y + 10]);
    set(nodes.ghost, { cx: x(inside(now.raw)), cy: y, visibility: options.projected ? 'visible' : 'hidden' });
    const centre = x(inside(now.value));
    const shape = options.projected ? diamond(centre, y) : options.missing ? triangle(centre, y) : round(centre, y, below ? 4 : 4.75);
    set(nodes.dot, { d: shape, class: below && !options.projected ? 'dot hollow' : 'dot' });
  }
}

/** @param {Row} row @returns {Marks} */
const marksOf = (row) => ({ value: row.value, low: row.low, high: row.high, raw: row.raw ?? row.value });

/** @param {SVGLineElement} el @param {[number, number, number, number]|null} ends */
function line(el, ends) {
  if (!ends) return set(el, { visibility: 'hidden' });
  return set(el, { x1: ends[0], x2: ends[1], y1: ends[2], y2: ends[3], visibility: 'visible' });
}

customElements.define('dn-bars', DnBars);
