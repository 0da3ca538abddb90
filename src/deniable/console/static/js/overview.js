// Answers over the whole time there is, with two periods that can be moved: by pointer, or by keys.

import { hatches, put, s } from './dom.js';
import { frame, onSize } from './frames.js';
import { clock, day, moment } from './numbers.js';

/** @typedef {{start: number, end: number, n: number, down: boolean}} Bin */
/** @typedef {[number, number]} Span bins, from the first to before the second */

const HEIGHT = 72;

export class DnOverview extends HTMLElement {
  #svg = s('svg', { role: 'group', 'aria-label': 'Answers over time, with the two periods that are compared', height: HEIGHT + 20 });
  #hatch = hatches();
  #body = s('g');
  /** @type {Bin[]} */ #bins = [];
  /** @type {Record<'A'|'B', Span>} */ #spans = { A: [0, 1], B: [0, 1] };
  #width = 0;
  /** @type {{name: 'A'|'B', end: 0|1}|null} */ #drag = null;
  /** @type {Record<string, SVGGElement>} */ #handles = {};

  connectedCallback() {
    if (this.#svg.isConnected) return;
    this.className = 'overview';
    this.#svg.append(this.#hatch.defs, this.#body);
    for (const name of /** @type {const} */ (['A', 'B'])) for (const end of /** @type {const} */ ([0, 1])) this.#svg.append(this.#handle(name, end));
    this.append(this.#svg);
    onSize(this, (width) => { this.#width = width; this.#draw(); });
  }

  /** @param {Bin[]} bins @param {Record<'A'|'B', Span>} spans */
  show(bins, spans) {
    this.#bins = bins;
    this.#spans = spans;
    frame(this, () => this.#draw());
  }

  /** @param {'A'|'B'} name @param {0|1} end */
  #handle(name, end) {
    const g = s('g', { class: `handle ${name.toLowerCase()}`, tabindex: 0, role: 'slider', 'data-testid': `brush-${name}-${end ? 'to' : 'from'}` },
      s('line', { y1: 0, y2: HEIGHT }), s('rect', { y: HEIGHT / 2 - 10, width: 8, height: 20, rx: 3 }), s('rect', { class: 'grip-hit', y: 0, width: 32, height: HEIGHT }));
    g.addEventListener('pointerdown', (event) => {
      event.preventDefault();
      g.setPointerCapture(event.pointerId);
      g.focus();
      this.#drag = { name, end };
    });
    g.addEventListener('pointermove', (event) => {
      if (this.#drag?.name !== name || this.#drag.end !== end) return;
      const box = this.#svg.getBoundingClientRect();
      this.#move(name, end, Math.round(((event.clientX - box.left) / Math.max(1, this.#width)) * this.#bins.length));
    });
    for (const kind of /** @type {const} */ (['pointerup', 'pointercancel'])) g.addEventListener(kind, () => { if (this.#drag) this.#settled(); this.#drag = null; });
    g.addEventListener('keydown', (event) => {
      const n = this.#bins.length, at = this.#spans[name][end];
      const to = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, PageDown: at - 7, PageUp: at + 7, Home: 0, End: n }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      this.#move(name, end, to);
      this.#settled();
    });
    this.#handles[`${name}${end}`] = g;
    return g;
  }

  /** @param {'A'|'B'} name @param {0|1} end @param {number} to */
  #move(name, end, to) {
    const span = /** @type {Span} */ ([...this.#spans[name]]), n = this.#bins.length;
    span[end] = Math.max(0, Math.min(n, to));
    if (span[0] >= span[1]) return;
    this.#spans = { ...this.#spans, [name]: span };
    frame(this, () => this.#draw());
  }

  #settled() {
    this.dispatchEvent(new CustomEvent('spans', { detail: this.#spans }));
  }

  #draw() {
    const bins = this.#bins, width = this.#width;
    if (!bins.length || !width) return;
    const step = width / bins.length, x = (/** @type {number} */ i) => i * step, most = Math.max(1, ...bins.map((bin) => bin.n)), long = bins[bins.length - 1].end - bins[0].start > 3 * 86400;
    this.#svg.setAttribute('width', String(width));
    const brush = (/** @type {'A'|'B'} */ name) => s('rect', { class: `brush ${name.toLowerCase()}`, x: x(this.#spans[name][0]), width: x(this.#spans[name][1]) - x(this.#spans[name][0]), y: 0, height: HEIGHT });
    const inside = (/** @type {'A'|'B'} */ name, /** @type {number} */ i) => i >= this.#spans[name][0] && i < this.#spans[name][1];
    const every = Math.max(1, Math.ceil(96 / step));
    put(this.#body, brush('A'), brush('B'), bins.map((bin, i) => {
      const height = (bin.n / most) * HEIGHT, kind = inside('A', i) ? 'a' : inside('B', i) ? 'b' : '';
      return s('rect', { class: bin.down ? 'day thin' : `day ${kind}`, fill: bin.down ? this.#hatch.fill('ink') : null, x: x(i) + Math.min(1, step / 6), width: Math.max(0.5, step - Math.min(2, step / 3)), y: HEIGHT - height, height });
    }), s('line', { class: 'zero', x1: 0, x2: width, y1: HEIGHT, y2: HEIGHT }),
    bins.map((bin, i) => (i % every === Math.floor(every / 2) ? s('text', { x: x(i) + step / 2, y: HEIGHT + 16, 'text-anchor': 'middle' }, long ? day(bin.start) : clock(bin.start)) : null)));
    for (const name of /** @type {const} */ (['A', 'B'])) {
      for (const end of /** @type {const} */ ([0, 1])) {
        const g = this.#handles[`${name}${end}`], at = this.#spans[name][end], px = x(at), [line, knob, hit] = g.children;
        const time = at < bins.length ? bins[at].start : bins[bins.length - 1].end;
        for (const [el, key, value] of /** @type {[Element, string, string|number][]} */ ([[line, 'x1', px], [line, 'x2', px], [knob, 'x', px - 4], [hit, 'x', px - 16],
          [g, 'aria-label', `${name} ${end ? 'ends' : 'begins'}`], [g, 'aria-valuenow', at], [g, 'aria-valuemin', 0], [g, 'aria-valuemax', bins.length], [g, 'aria-valuetext', moment(time)]])) el.setAttribute(key, String(value));
      }
    }
  }
}

customElements.define('dn-overview', DnOverview);

/**
 * Windows that do not overlap, put together to a number of bins that can be drawn.
 * @param {import('./types.js').Series} series @param {number} most @returns {Bin[]}
 */
export function binned(series, most = 84) {
  /** @type {Bin[]} */ const whole = [];
  let end = -Infinity;
  series.start.forEach((start, i) => {
    if (start < end) return;
    end = series.end[i];
    whole.push({ start, end, n: series.n[i], down: series.condition[i] === 'proxy down' });
  });
  const size = Math.max(1, Math.ceil(whole.length / most)), bins = [];
  for (let i = 0; i < whole.length; i += size) {
    const part = whole.slice(i, i + size);
    bins.push({ start: part[0].start, end: part[part.length - 1].end, n: part.reduce((sum, bin) => sum + bin.n, 0), down: part.some((bin) => bin.down) });
  }
  return bins;
}

