// One label over time: a line in its band, and a lane that says what happened. Values appear in a fixed readout, never in a tooltip.

import { h, hatches, label, put, s, set } from './dom.js';
import { frame, onSize } from './frames.js';
import { triangle } from './bars.js';
import { clock, day, decimals, int, pct, stepDigits, thinned, ticks } from './numbers.js';

/** @typedef {import('./types.js').Series & {before?: (number|null)[]}} Series */
/** @typedef {Partial<import('./types.js').Version> & {serial: number}} Version */
/** @typedef {{title: string, name: string, inverted: boolean, versions: Version[]}} Options */
/** @typedef {{x: number, text: string, kind: string, why: string}} Flag */

/** Conditions of windows that lack answers. @type {Record<string, {short: string, why: string}>} */
const MISSING = {
  'proxy down': { short: 'down', why: 'closed without a proxy. Answers are missing, and it is not known whose.' },
  incomplete: { short: 'part', why: 'many shares have no counterpart at another proxy. The answers behind them are missing, and could move a proportion further than ± says.' },
  malformed: { short: 'bad', why: 'many shares were malformed. The answers behind them are missing, and could move a proportion further than ± says.' },
};
const HEIGHT = 200, TOP = 20, BOTTOM = 24, LEFT = 48;

export class DnTimeline extends HTMLElement {
  #read = h('div', { class: 'readout', 'data-testid': 'readout' });
  #svg = s('svg', { role: 'img', tabindex: 0, height: HEIGHT });
  #lane = h('div', { class: 'lane' });
  #box = h('div', { class: 'tl' });
  #title = h('h2');
  #hatch = hatches();
  #grid = s('g');
  #voids = s('g');
  #bands = s('g');
  #lines = s('g');
  #rules = s('g');
  #marks = s('g');
  #cursor = s('g', { visibility: 'hidden' }, s('line', { class: 'cursor', y1: TOP, y2: HEIGHT - BOTTOM }), s('circle', { class: 'dot', r: 4.5 }));
  /** @type {Series|null} */ #series = null;
  /** @type {Options} */ #options = { title: '', name: '', inverted: false, versions: [] };
  /** @type {number|null} */ #at = null;
  /** @type {Flag|null} */ #flag = null;
  #width = 0;
  #x = (/** @type {number} */ _i) => 0;
  #y = (/** @type {number} */ _v) => 0;
  #digits = 1;

  connectedCallback() {
    if (this.#box.isConnected) return;
    this.#svg.append(this.#hatch.defs, this.#voids, this.#grid, this.#bands, this.#rules, this.#lines, this.#marks, this.#cursor);
    this.#box.append(this.#svg, this.#lane);
    this.append(h('div', { class: 'head' }, this.#title, this.#read), this.#box);
    onSize(this.#box, (width) => { this.#width = width; this.#draw(); });
    this.#svg.addEventListener('pointermove', (event) => this.#point(event.offsetX));
    this.#svg.addEventListener('pointerleave', () => this.#move(null));
    this.#svg.addEventListener('keydown', (event) => this.#key(event));
    this.#svg.addEventListener('blur', () => this.#move(null));
  }

  get marks() { return this.#svg; }

  /** @param {Series} series @param {Options} options */
  show(series, options) {
    this.#series = series;
    this.#options = options;
    frame(this, () => this.#draw());
  }

  /** @param {number} px */
  #point(px) {
    const n = this.#series?.start.length ?? 0;
    if (!n) return;
    let best = 0;
    for (let i = 1; i < n; i++) if (Math.abs(this.#x(i) - px) < Math.abs(this.#x(best) - px)) best = i;
    this.#move(best);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const last = (this.#series?.start.length ?? 0) - 1;
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -12, PageDown: 12, Home: -last, End: last }[event.key];
    if (!step || last < 0) return;
    event.preventDefault();
    this.#move(Math.max(0, Math.min(last, (this.#at ?? last) + step)));
  }

  /** @param {number|null} to */
  #move(to) {
    this.#at = to;
    this.#flag = null;
    frame(this.#read, () => this.#mark());
  }

  /** @param {number} i @returns {[number, number, number]|null} value, low and high as they are shown */
  #values(i) {
    const series = /** @type {Series} */ (this.#series), value = series.estimate[i];
    if (value === null || value === undefined) return null;
    const low = series.low[i] ?? value, high = series.high[i] ?? value;
    return this.#options.inverted ? [1 - value, 1 - high, 1 - low] : [value, low, high];
  }

  #draw() {
    const series = this.#series, width = this.#width;
    if (!series || !width) return;
    const n = series.start.length, right = width < 500 ? 8 : 72;
    const points = series.start.map((_, i) => this.#values(i)), known = points.filter((p) => p !== null);
    put(this.#title, this.#options.title, label(this.#options.name));
    set(this.#svg, { width, viewBox: `0 0 ${width} ${HEIGHT}`, 'aria-label': `${this.#options.title}${this.#options.name}, ${n} windows. Arrow keys read window by window.` });
    for (const group of [this.#grid, this.#voids, this.#bands, this.#lines, this.#rules, this.#marks]) group.replaceChildren();
    if (!n || !known.length) {
      put(this.#read, h('span', null, 'No estimate yet'));
      put(this.#lane);
      return;
    }
    const first = series.start[0], last = series.end[n - 1], span = Math.max(1, (series.start[n - 1] - first));
    this.#x = (i) => LEFT + ((series.start[i] - first) / span) * (width - LEFT - right);
    if (n === 1) this.#x = () => LEFT + (width - LEFT - right) / 2;
    const low = Math.min(...known.map((p) => Math.min(p[0], p[1]))), high = Math.max(...known.map((p) => p[2]));
    const fromZero = low < 0.35 * high, step = ticks(fromZero ? Math.min(0, low) : low, high, 4).step;
    const a = fromZero ? Math.min(0, Math.floor(low / step) * step) : Math.floor(low / step) * step, b = Math.ceil(high / step) * step;
    this.#y = (v) => HEIGHT - BOTTOM - ((v - a) / (b - a)) * (HEIGHT - BOTTOM - TOP);
    this.#digits = decimals(Math.max(...known.map((p) => (p[2] - p[1]) / 2)));
    this.#axes(a, b, right, first, last);
    this.#runs(points);
    const flags = [...this.#versions(), ...this.#gaps(), ...this.#revisions(points)];
    const end = points.length - 1, newest = points[end];
    if (newest) {
      if (series.condition[end] === 'complete') {
        this.#marks.append(s('circle', { class: newest[0] < 0 ? 'dot hollow' : 'dot', cx: this.#x(end), cy: this.#y(newest[0]), r: 4.5 }));
      }
      if (right > 20) this.#marks.append(s('text', { class: 'svg-data', x: this.#x(end) + 12, y: this.#y(newest[0]) + 4 }, pct(newest[0], this.#digits)));
    }
    this.#flags(flags);
    this.#mark();
  }

  /** @param {number} a @param {number} b @param {number} right @param {number} first @param {number} last */
  #axes(a, b, right, first, last) {
    const width = this.#width, found = ticks(a, b, 4), digits = stepDigits(found.step);
    for (const v of found.values) {
      this.#grid.append(s('line', { class: v === 0 ? 'zero' : 'grid', x1: LEFT, x2: width - right, y1: this.#y(v), y2: this.#y(v) }),
        s('text', { x: LEFT - 8, y: this.#y(v) + 4, 'text-anchor': 'end' }, pct(v, digits)));
    }
    if (a > 0) this.#marks.append(s('text', { x: LEFT + 4, y: HEIGHT - BOTTOM - 6 }, `axis from ${pct(a, digits)}`));
    const span = last - first, about = Math.max(2, Math.floor((width - LEFT - right) / 110));
    const step = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800]
      .find((each) => span / each <= about) ?? 2592000;
    const series = /** @type {Series} */ (this.#series), n = series.start.length;
    for (let time = Math.ceil(first / step) * step; time <= series.start[n - 1]; time += step) {
      const x = LEFT + ((time - first) / Math.max(1, series.start[n - 1] - first)) * (width - LEFT - right);
      this.#grid.append(s('text', { x, y: HEIGHT - 6, 'text-anchor': 'middle' }, step >= 86400 ? day(time) : clock(time, step < 60)));
    }
  }

  /** Runs that are whole, runs with a proxy missing, and gaps. @param {([number, number, number]|null)[]} points */
  #runs(points) {
    const series = /** @type {Series} */ (this.#series);
    /** @type {number[]} */ let run = [];
    let whole = true;
    const end = () => {
      if (run.length) this.#run(run, points, whole);
      run = [];
    };
    points.forEach((point, i) => {
      const now = !MISSING[series.condition[i]];
      // Windows that retention or a stop has left out are a gap as well.
      const apart = i > 0 && series.start[i] - series.start[i - 1] > 1.5 * (series.start[1] - series.start[0]) && series.start.length > 2;
      if (!point || now !== whole || apart) end();
      whole = now;
      if (point) run.push(i);
    });
    end();
  }

  /** @param {number[]} run @param {([number, number, number]|null)[]} points @param {boolean} whole */
  #run(run, points, whole) {
    const at = (/** @type {number} */ i) => /** @type {[number, number, number]} */ (points[i]);
    const xs = run.map(this.#x), fixed = (/** @type {number} */ v) => v.toFixed(1);
    const keep = thinned(xs, run.map((i) => at(i)[0])), lows = thinned(xs, run.map((i) => -at(i)[1])), highs = thinned(xs, run.map((i) => at(i)[2]));
    const upper = highs.map((k) => `${fixed(xs[k])} ${fixed(this.#y(at(run[k])[2]))}`);
    const lower = lows.reverse().map((k) => `${fixed(xs[k])} ${fixed(this.#y(at(run[k])[1]))}`);
    const band = run.length > 1 ? `M${upper.join('L')}L${lower.join('L')}z`
      : `M${xs[0] - 2} ${upper[0].split(' ')[1]}h4V${lower[0].split(' ')[1]}h-4z`;
    this.#bands.append(s('path', { class: whole ? 'band' : null, fill: whole ? null : this.#hatch.fill('data'), d: band }));
    if (whole) {
      this.#lines.append(s('path', { class: 'line', d: `M${keep.map((k) => `${fixed(xs[k])} ${fixed(this.#y(at(run[k])[0]))}`).join('L')}` }));
    } else {
      this.#lines.append(s('path', { class: 'dot', d: run.map((i, k) => triangle(xs[k], this.#y(at(i)[0]), 4.5)).join('') }));
    }
  }

  /** @returns {Flag[]} */
  #versions() {
    const series = /** @type {Series} */ (this.#series), flags = [];
    for (let i = 1; i < series.serial.length; i++) {
      if (series.serial[i] === series.serial[i - 1]) continue;
      const x = this.#x(i), name = `v${series.serial[i]}`;
      const told = this.#options.versions.find((version) => version.serial === series.serial[i]);
      this.#rules.append(s('line', { class: 'version', x1: x, x2: x, y1: TOP - 4, y2: HEIGHT - BOTTOM }), s('text', { x: x + 4, y: TOP - 8 }, name));
      flags.push({ x, text: name, kind: '', why: `${clock(series.start[i])}: version ${series.serial[i]}. ${told?.reason ?? 'Signed by the analyst.'}` });
    }
    return flags;
  }

  /** @returns {Flag[]} */
  #gaps() {
    const series = /** @type {Series} */ (this.#series), n = series.start.length, flags = [], narrow = this.#width < 500;
    for (let i = 0; i < n; i++) {
      if (series.estimate[i] !== null && !MISSING[series.condition[i]]) continue;
      let j = i;
      while (j < n && (series.estimate[j] === null) === (series.estimate[i] === null) && series.condition[j] === series.condition[i]) j++;
      const half = n > 1 ? (this.#x(n - 1) - this.#x(0)) / (n - 1) / 2 : 8, down = MISSING[series.condition[i]];
      if (series.estimate[i] === null) {
        this.#voids.append(s('rect', { fill: this.#hatch.fill('warn'), x: this.#x(i) - half, width: this.#x(j - 1) - this.#x(i) + 2 * half, y: TOP, height: HEIGHT - TOP - BOTTOM }));
      }
      const why = down?.why ?? 'withheld: fewer answers than the minimum cohort.';
      flags.push({
        x: this.#x(i), kind: down ? 'warn' : '', text: down ? (narrow ? down.short : series.condition[i]) : 'withheld',
        why: `${clock(series.start[i])} to ${clock(series.end[j - 1])}: ${why}`,
      });
      i = j - 1;
    }
    return flags;
  }

  /** @param {([number, number, number]|null)[]} points @returns {Flag[]} */
  #revisions(points) {
    const series = /** @type {Series} */ (this.#series), flags = [], inverted = this.#options.inverted;
    for (let i = 0; i < points.length; i++) {
      const point = points[i], old = series.before?.[i];
      if (!point || !(series.revision[i] ?? 0)) continue;
      let change = '';
      if (old !== null && old !== undefined) {
        const was = inverted ? 1 - old : old, x = this.#x(i);
        this.#marks.append(s('line', { class: 'before', x1: x, x2: x, y1: this.#y(was), y2: this.#y(point[0]) }),
          s('circle', { class: 'dot ghost', cx: x, cy: this.#y(was), r: 3.5 }), s('circle', { class: 'dot', cx: x, cy: this.#y(point[0]), r: 4 }));
        change = `, ${pct(was, this.#digits)} became ${pct(point[0], this.#digits)}`;
      }
      flags.push({ x: this.#x(i), kind: '', text: this.#width < 500 ? 'rev.' : 'revised', why: `${clock(series.start[i])}: late answers came in${change}.` });
    }
    return flags;
  }

  /** A lane of buttons that never overlap: of those for which there is no room, the newest stay. @param {Flag[]} flags */
  #flags(flags) {
    const width = this.#width, size = (/** @type {string} */ text) => 7 * text.length + 16;
    const chosen = flags.sort((a, b) => a.x - b.x).slice(-12);
    /** @type {[Flag, number][]} */ const placed = [];
    let free = width;
    for (const flag of chosen.reverse()) {
      const left = Math.min(flag.x, free - size(flag.text));
      if (left < (width < 500 ? 0 : LEFT)) continue;
      placed.push([flag, left]);
      free = left - 4;
    }
    put(this.#lane, h('span', { class: 'lane-name tiny quiet' }, width < 500 ? '' : 'events'), placed.reverse().map(([flag, left]) => {
      const button = h('button', {
        type: 'button', class: `flag ${flag.kind}`, 'aria-pressed': String(this.#flag?.why === flag.why),
        on: { click: () => { this.#flag = flag; this.#mark(); } },
      }, flag.text);
      button.style.setProperty('left', `${left}px`);
      return button;
    }));
  }

  #mark() {
    const series = this.#series;
    if (!series?.start.length) return;
    for (const button of this.#lane.querySelectorAll('.flag')) set(button, { 'aria-pressed': String(this.#flag !== null && button.textContent === this.#flag.text) });
    if (this.#flag) {
      put(this.#read, h('span', null, this.#flag.why));
      set(this.#cursor, { visibility: 'hidden' });
      return;
    }
    const i = Math.min(this.#at ?? series.start.length - 1, series.start.length - 1), point = this.#values(i);
    const fine = series.end[i] - series.start[i] < 60, when = `${clock(series.start[i], fine)}\u2013${clock(series.end[i], fine)}`;
    if (!point) {
      set(this.#cursor, { visibility: 'hidden' });
      put(this.#read, h('span', null, when), h('span', null, `no estimate: ${series.condition[i]}`));
      return;
    }
    set(this.#cursor, { visibility: this.#at === null ? 'hidden' : 'visible' });
    const [line, dot] = this.#cursor.children;
    set(line, { x1: this.#x(i), x2: this.#x(i) });
    set(dot, { cx: this.#x(i), cy: this.#y(point[0]) });
    put(this.#read, h('span', null, when), h('b', null, pct(point[0], this.#digits)),
      h('span', null, `${pct(point[1], this.#digits)} to ${pct(point[2], this.#digits)}`), h('span', null, `${int(series.n[i])} answers`));
  }
}

customElements.define('dn-timeline', DnTimeline);
