// Two coins to toss oneself: what a device does with a yes or a no, and what a crowd of 400 then tells.

import { h, put, s } from './dom.js';
import { pct } from './numbers.js';

/** @typedef {'heads'|'tails'} Face */

/** A fair coin, from the browser's cryptographic source. @returns {Face} */
const toss = () => (crypto.getRandomValues(new Uint8Array(1))[0] & 1 ? 'heads' : 'tails');

const PEOPLE = 400, YES = 0.3, A = 0.75, B = 0.25;

/** What 400 people say of whom 30 % would truly say yes, and what that tells of the 30 %. */
export function askCrowd() {
  const said = Array.from({ length: PEOPLE }, (_, i) => (toss() === 'heads' ? i < PEOPLE * YES : toss() === 'heads'));
  const yes = said.filter(Boolean).length, proportion = (yes / PEOPLE - B) / (A - B), spoken = yes / PEOPLE;
  return { said, yes, proportion, reach: (1.96 * Math.sqrt((spoken * (1 - spoken)) / PEOPLE)) / (A - B) };
}

/** @param {Face} face @param {boolean} on */
const coin = (face, on) => h('div', { class: `coin ${on ? face : 'idle'}` }, h('span', null, on ? face : '\u2013'));

export function toy() {
  const box = h('div', { class: 'toy' }), state = { truth: 'no', first: /** @type {Face|null} */ (null), second: /** @type {Face} */ ('heads') };
  /** @type {ReturnType<typeof askCrowd>|null} */ let crowd = null;
  const draw = () => {
    const { truth, first, second } = state, says = first === 'heads' ? truth : second === 'heads' ? 'yes' : 'no';
    const radios = ['yes', 'no'].map((value) => h('label', null, h('input', { type: 'radio', name: 'truth', value, checked: truth === value, on: { change: () => { state.truth = value; state.first = null; draw(); } } }), h('span', null, value)));
    const why = says === 'yes' ? 'Anyone who hears \u201cyes\u201d cannot be sure. Of four who did, three say yes; of four who did not, one does too.' : 'Anyone who hears \u201cno\u201d cannot be sure. Of four who did not, three say no; of four who did, one does too.';
    put(box, h('fieldset', { class: 'truth' }, h('legend', null, 'Have you ever run a red light?'), h('div', { class: 'seg' }, radios), h('p', { class: 'tiny quiet' }, 'Your true answer. It stays on this page.')),
      h('div', { class: 'coins' }, h('div', null, coin(first ?? 'heads', first !== null), h('p', { class: 'tiny muted' }, !first ? 'first coin' : first === 'heads' ? 'tell the truth' : 'let the second coin speak')),
        h('div', null, coin(second, first === 'tails'), h('p', { class: 'tiny muted' }, first === 'tails' ? (second === 'heads' ? 'say yes' : 'say no') : 'second coin')),
        h('div', { class: 'says', 'aria-live': 'polite' }, h('span', { class: 'tiny quiet' }, 'you say'), h('b', { 'data-testid': 'says' }, first ? says : '\u2026'))),
      h('button', { class: 'btn wide', type: 'button', 'data-testid': 'flip', on: { click: () => { state.first = toss(); state.second = toss(); draw(); /** @type {HTMLElement|null} */ (box.querySelector('[data-testid=flip]'))?.focus(); } } }, first ? 'Flip again' : 'Flip'),
      h('p', { class: 'small muted' }, first ? why : 'Flip, and see what you would say.'),
      crowd && h('div', { class: 'crowd' }, s('svg', { viewBox: '0 0 400 160', role: 'img', 'aria-label': `${crowd.yes} of ${PEOPLE} say yes` }, crowd.said.map((yes, i) => s('circle', { class: yes ? 'p-yes' : 'p-no', cx: (i % 40) * 10 + 5, cy: Math.floor(i / 40) * 16 + 8, r: 3.5 }))),
        h('p', { class: 'small muted', 'data-testid': 'crowd' }, h('b', null, `${crowd.yes} of ${PEOPLE} say yes`), `. Take the coins away: ${pct(crowd.proportion, 0)} \u00b1 ${(100 * crowd.reach).toFixed(0)} did. It was ${pct(YES, 0)}.`)),
      h('button', { class: 'btn ghost', type: 'button', 'data-testid': 'ask-crowd', on: { click: () => { crowd = askCrowd(); draw(); } } }, crowd ? `Ask ${PEOPLE} people again` : `Now ask ${PEOPLE} people`));
  };
  draw();
  return box;
}
