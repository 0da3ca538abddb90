// The fields of a question: text, SQL with line numbers, buckets with guessed proportions, and the checks below them.

import { h, icons, put, say } from './dom.js';

/** @typedef {import('./types.js').DraftCheck} Check */

/** @param {string} title @param {string} value @param {string} testid @param {() => void} changed */
export function field(title, value, testid, changed) {
  const input = h('input', { class: 'field', value, 'data-testid': testid, on: { input: () => changed() } });
  return { input, label: h('label', { class: 'lbl' }, h('span', null, title), input) };
}

/** @param {string} value @param {() => void} changed */
export function sqlEditor(value, changed) {
  const gutter = h('ol', { class: 'gutter', 'aria-hidden': 'true' });
  const area = h('textarea', { class: 'code', rows: 3, spellcheck: 'false', 'aria-label': 'SQL', 'aria-describedby': 'sql-checks', 'data-testid': 'sql' });
  area.value = value;
  const count = () => {
    const lines = area.value.split('\n').length;
    area.rows = Math.max(3, lines);
    put(gutter, Array.from({ length: Math.max(3, lines) }, (_, i) => h('li', null, i + 1)));
  };
  area.addEventListener('input', () => { count(); changed(); });
  count();
  return { area, box: h('div', { class: 'code-box' }, gutter, area) };
}

/** @param {string} id */
export function checkList(id) {
  const list = h('ul', { class: 'checks', id, 'data-testid': id, 'aria-live': 'polite' });
  const kinds = /** @type {Record<string, import('./dom.js').Icon>} */ ({ ok: 'complete', bad: 'refused', hint: 'info' });
  let shown = '';
  return {
    list,
    /** @param {Check[]} checks */
    show(checks) {
      const key = JSON.stringify(checks);
      if (key === shown) return;
      shown = key;
      put(list, checks.map((check) => h('li', { class: check.level }, icons[kinds[check.level] ?? 'info'](), h('span', { class: 'label' }, check.text))));
    },
  };
}

/**
 * @param {string} column @param {string[]} names @param {number[]} guesses in percent
 * @param {() => void} changed @param {(k: number) => void} picked
 */
export function bucketEditor(column, names, guesses, changed, picked) {
  const list = h('ul', { class: 'bucket-list', 'data-testid': 'buckets' });
  const name = h('input', { class: 'column-name', value: column, 'aria-label': 'Column', on: { input: changed } });
  const other = h('input', { type: 'checkbox', 'data-testid': 'other', on: { change: changed } });
  /** @type {{li: HTMLElement, number: HTMLElement, input: HTMLInputElement, guess: HTMLInputElement, wrong: HTMLElement}[]} */ const rows = [];
  const renumber = () => rows.forEach((row, i) => {
    say(row.number, String(i + 1));
    row.input.setAttribute('aria-label', `Bucket ${i + 1}`);
    row.guess.setAttribute('aria-label', `Guessed proportion of bucket ${i + 1}, percent`);
  });
  const add = (/** @type {string} */ value, /** @type {number} */ guess) => {
    const row = {
      li: h('li'), number: h('span', { class: 'quiet tiny' }), wrong: h('p', { class: 'inline-bad', hidden: true }),
      input: h('input', { class: 'bucket', value, 'data-testid': 'bucket-name', on: { input: changed, focus: () => picked(rows.indexOf(row)) } }),
      guess: h('input', { class: 'guess', value: String(guess), inputmode: 'decimal', on: { input: changed } }),
    };
    const remove = h('button', { class: 'btn ghost icon', type: 'button', 'aria-label': `Remove ${value}`, on: { click: () => {
      rows.splice(rows.indexOf(row), 1);
      row.li.remove();
      renumber();
      changed();
    } } }, '\u00d7');
    put(row.li, row.number, row.input, row.guess, h('span', { class: 'tiny quiet', 'aria-hidden': 'true' }, '%'), remove, row.wrong);
    rows.push(row);
    list.insertBefore(row.li, last);
    renumber();
  };
  const last = h('li', { class: 'bucket-last' }, h('button', { class: 'btn ghost small', type: 'button', 'data-testid': 'add-bucket', on: { click: () => { add('', 0); rows.at(-1)?.input.focus(); changed(); } } }, '+ bucket'),
    h('label', { class: 'check' }, other, 'other'));
  list.append(last);
  names.forEach((value, i) => add(value, guesses[i]));
  return {
    list,
    /** @param {string} column @param {string[]} names @param {number[]} guesses */
    replace(column, names, guesses) {
      for (const row of rows.splice(0)) row.li.remove();
      name.value = column;
      names.forEach((value, i) => add(value, guesses[i]));
    },
    title: h('span', null, 'Buckets of ', name, ', and your guess of their proportions'),
    read() {
      const raw = rows.map((row) => Math.max(0, Number(row.guess.value) || 0) / 100), sum = raw.reduce((a, b) => a + b, 0);
      return { column: name.value, names: rows.map((row) => row.input.value), other: other.checked, guesses: sum > 1 ? raw.map((guess) => guess / sum) : raw };
    },
    /** @param {Check[]} wrong */
    mark(wrong) {
      rows.forEach((row, i) => {
        const found = wrong.find((check) => check.place === i);
        row.li.classList.toggle('wrong', Boolean(found));
        row.input.setAttribute('aria-invalid', String(Boolean(found)));
        row.wrong.hidden = !found;
        say(row.wrong, found?.text ?? '');
      });
    },
  };
}
