// What is expected of a design: guessed proportions, the whiskers to expect, simulated results as ticks. The ± of one bucket can be dragged.

import { h, hatches, put, s } from './dom.js';
import { frame, onSize } from './frames.js';
import { bare, decimals, elided, pct, stepDigits, ticks } from './numbers.js';

/** @typedef {{labels: string[], guesses: number[], reaches: number[], ticks: number[][], picked: number, refused: boolean, epsilon: number}} Expected */

const ROW = 40, TOP = 8, LEFT = 96;
const KEYS = /** @type {Record<string, number>} */ ({ ArrowRight: 1.05, ArrowUp: 1.05, ArrowLeft: 1 / 1.05, ArrowDown: 1 / 1.05, PageUp: 1.25, PageDown: 0.8 });
const LEAST = 0.0005, MOST = 0.3;

export class DnPreview extends HTMLElement {
  #svg = s('svg', { role: 'group', 'aria-label': 'Expected result. The handle changes the \u00b1.' });
  #table = h('table', { class: 'visually-hidden' });
  #hatch = hatches();
  #body = s('g');
  #box = s('rect', { class: 'grip-box', width: 22, height: 22, rx: 6 });
  #hit = s('rect', { class: 'grip-hit', width: 44, height: 44 });
  #arrow = s('path', { class: 'grip-mark' });
  #grip = s('g', { class: 'grip', tabindex: 0, role: 'slider', 'data-testid': 'grip' }, this.#hit, this.#box, this.#arrow);
  /** @type {Expected|null} */ #expected = null;
  /** @type {{x: number, reach: number, scale: number, domain: [number, number]}|null} */ #drag = null;
  #width = 0;
  #before = 0;
  /** @type {[number, number]} */ #domain = [0, 1];

  connectedCallback() {
    if (this.#svg.isConnected) return;
    this.className = 'preview';
    this.#svg.append(this.#hatch.defs, this.#body, this.#grip);
    this.append(this.#svg, this.#table);
    onSize(this, (width) => { this.#width = width; this.#draw(); });
    this.#grip.addEventListener('pointerdown', (event) => this.#grab(event));
    this.#grip.addEventListener('pointermove', (event) => this.#pull(event));
    for (const kind of /** @type {const} */ (['pointerup', 'pointercancel'])) this.#grip.addEventListener(kind, () => this.#let());
    this.#grip.addEventListener('keydown', (event) => this.#key(event));
    this.#grip.addEventListener('focus', () => { this.#before = this.#reach(); });
  }

  /** @param {Expected} expected */
  show(expected) {
    this.#expected = expected;
    frame(this, () => this.#draw());
  }

  get dragging() { return this.#drag !== null; }

  #reach() { return this.#expected?.reaches[this.#expected.picked] ?? 0; }

  /** @param {PointerEvent} event */
  #grab(event) {
    if (!this.#expected) return;
    event.preventDefault();
    this.#grip.setPointerCapture(event.pointerId);
    this.#grip.focus();
    // The axis stays as it is while one drags, or the handle would run away from the pointer.
    const [a, b] = this.#domain;
    this.#drag = { x: event.clientX, reach: this.#reach(), scale: (b - a) / Math.max(1, this.#plot()), domain: [a, b] };
  }

  /** @param {PointerEvent} event */
  #pull(event) {
    const drag = this.#drag;
    if (drag) this.#ask(drag.reach + (event.clientX - drag.x) * drag.scale);
  }

  #let() {
    if (!this.#drag) return;
    this.#drag = null;
    this.dispatchEvent(new Event('settled'));
    frame(this, () => this.#draw());
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const factor = KEYS[event.key];
    const to = factor ? this.#reach() * factor : event.key === 'Home' ? LEAST : event.key === 'End' ? MOST : event.key === 'Escape' ? this.#before : null;
    if (to === null) return;
    event.preventDefault();
    this.#ask(to);
  }

  /** @param {number} reach */
  #ask(reach) {
    this.dispatchEvent(new CustomEvent('reach', { detail: Math.min(MOST, Math.max(LEAST, reach)) }));
  }

  #plot() { return this.#width - LEFT - (this.#width < 480 ? 72 : 96); }

  #draw() {
    const expected = this.#expected, width = this.#width;
    if (!expected || !width) return;
    const { guesses, reaches, labels } = expected, height = labels.length * ROW, plot = this.#plot();
    const least = Math.min(0, ...guesses.map((guess, k) => guess - reaches[k])), most = Math.max(...guesses.map((guess, k) => guess + reaches[k]));
    if (!this.#drag) this.#domain = [least < -0.004 ? Math.max(-0.4, least * 1.05) : -0.01, Math.min(1.2, Math.max(0.1, most * 1.15))];
    const [a, b] = this.#drag?.domain ?? this.#domain;
    const x = (/** @type {number} */ v) => LEFT + ((Math.max(a, Math.min(b, v)) - a) / (b - a)) * plot;
    this.#svg.setAttribute('width', String(width));
    this.#svg.setAttribute('height', String(TOP + height + 28));
    const found = ticks(a, b, Math.max(3, plot / 80)), digits = stepDigits(found.step);
    const grid = found.values.map((v, i) => [s('line', { class: v === 0 ? 'zero' : 'grid', x1: x(v), x2: x(v), y1: TOP, y2: TOP + height }),
      s('text', { x: x(v), y: TOP + height + 18, 'text-anchor': 'middle' }, i === found.values.length - 1 ? pct(v, digits) : bare(v, digits))]);
    put(this.#body, labels.map((_, k) => (k === expected.picked ? s('rect', { class: 'row-on', x: 0, y: TOP + k * ROW, width, height: ROW, rx: 4 }) : null)), grid,
      elided(labels, 12).map((name, k) => this.#row(name, k, x)));
    this.#handle(x);
    put(this.#table, h('caption', null, 'Expected result'), h('tbody', null, labels.map((name, k) =>
      h('tr', null, h('th', { scope: 'row' }, name), h('td', null, pct(guesses[k])), h('td', null, `\u00b1 ${pct(reaches[k], 2)}`)))));
  }

  /** @param {string} name @param {number} k @param {(v: number) => number} x */
  #row(name, k, x) {
    const { guesses, reaches, ticks: drawn, refused } = /** @type {Expected} */ (this.#expected);
    const y = TOP + (k + 0.5) * ROW, guess = guesses[k], reach = reaches[k], low = x(guess - reach), high = x(guess + reach);
    return [
      s('text', { class: 'row-label', x: 8, y: y + 4 }, name),
      s('rect', { class: refused ? null : 'bar-fill', fill: refused ? this.#hatch.fill('ink') : null, x: x(0), y: y - 6, width: Math.max(0, x(guess) - x(0)), height: 12 }),
      (drawn[k] ?? []).map((v) => s('line', { class: 'simulated', x1: x(v), x2: x(v), y1: y + 9, y2: y + 14 })),
      s('path', { class: refused ? 'whisker noise' : 'whisker', d: `M${low} ${y}H${high}M${low} ${y - 4}v8M${high} ${y - 4}v8` }),
      s('circle', { class: refused ? 'dot hollow' : 'dot', cx: x(guess), cy: y, r: 4.5 }),
      s('text', { class: 'row-pm', x: this.#width - 8, y: y + 4, 'text-anchor': 'end' }, `\u00b1 ${pct(reach, decimals(reach))}`),
    ].flat();
  }

  /** @param {(v: number) => number} x */
  #handle(x) {
    const { guesses, picked, labels, epsilon } = /** @type {Expected} */ (this.#expected);
    const reach = this.#reach(), y = TOP + (picked + 0.5) * ROW, at = Math.min(x(guesses[picked] + reach), this.#width - 96);
    for (const [el, values] of /** @type {[Element, Record<string, number|string>][]} */ ([
      [this.#hit, { x: at - 6, y: y - 22 }], [this.#box, { x: at + 4, y: y - 11 }],
      [this.#arrow, { d: `M${at + 12} ${y - 3.5}l-3 3.5l3 3.5M${at + 18} ${y - 3.5}l3 3.5l-3 3.5` }],
      [this.#grip, {
        'aria-label': `\u00b1 of ${labels[picked]}`, 'aria-valuemin': 100 * LEAST, 'aria-valuemax': 100 * MOST, 'aria-valuenow': (100 * reach).toFixed(2),
        'aria-valuetext': `plus or minus ${(100 * reach).toFixed(2)} percentage points, epsilon ${epsilon.toFixed(2)}`,
      }],
    ])) for (const [name, value] of Object.entries(values)) el.setAttribute(name, String(value));
  }
}

customElements.define('dn-preview', DnPreview);
