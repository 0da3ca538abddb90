// Where an answer comes from: SQL that devices run, a form that people fill in, or a value that apps record.

import { h, put, segmented } from './dom.js';
import { checkList, field, sqlEditor } from './editor.js';

/** @typedef {import('./editor.js').Check} Check */
/** @typedef {'sql'|'form'|'value'} Ask */
/** @typedef {{code: HTMLInputElement, question: HTMLInputElement, labels: HTMLElement, box: HTMLElement, kept: string[]}} Language */

/** The texts of a form, a part for each language. @param {() => string[]} buckets the names, `other` included @param {() => void} changed */
function formEditor(buckets, changed) {
  const list = h('div', { class: 'languages', 'data-testid': 'languages' });
  /** @type {Language[]} */ const languages = [];
  const inputs = (/** @type {Language} */ each) => /** @type {HTMLInputElement[]} */ ([...each.labels.querySelectorAll('input')]);

  /** One label for each bucket. What was written stays at its place. @param {Language} each */
  function drawLabels(each) {
    const names = buckets(), shown = inputs(each);
    shown.forEach((input, i) => { each.kept[i] = input.value; });
    if (shown.length === names.length) {
      shown.forEach((input, i) => input.setAttribute('aria-label', `Label of ${names[i]} in ${each.code.value}`));
      return;
    }
    put(each.labels, names.map((name, i) => h('li', null, h('span', { class: 'quiet tiny' }, i + 1),
      h('input', { class: 'bucket', value: each.kept[i] ?? '', placeholder: name, 'aria-label': `Label of ${name} in ${each.code.value}`, 'data-testid': `label-${each.code.value}`, on: { input: changed } }))));
  }

  /** @param {string} code */
  function add(code) {
    const named = field('Language', code, 'language', () => { drawLabels(each); changed(); }), asked = field('Question', '', `question-${code || 'new'}`, changed);
    const remove = h('button', { class: 'btn ghost small', type: 'button', 'aria-label': `Remove the language ${code}`, on: { click: () => {
      languages.splice(languages.indexOf(each), 1);
      each.box.remove();
      changed();
    } } }, 'Remove');
    const labels = h('ul', { class: 'bucket-list label-list' });
    const box = h('fieldset', { class: 'language' }, h('legend', { class: 'visually-hidden' }, 'A language of the form'),
      h('div', { class: 'language-head' }, named.label, remove), asked.label, h('div', { class: 'lbl' }, h('span', null, 'What each bucket is called'), labels));
    /** @type {Language} */ const each = { code: named.input, question: asked.input, labels, box, kept: [] };
    languages.push(each);
    list.insertBefore(box, more);
    drawLabels(each);
    return each;
  }
  const more = h('button', { class: 'btn ghost small', type: 'button', 'data-testid': 'add-language', on: { click: () => { add(languages.some((each) => each.code.value === 'en') ? '' : 'en').code.focus(); changed(); } } }, '+ language');
  list.append(more);
  add('en');
  return {
    list,
    read() {
      languages.forEach(drawLabels);
      const by = (/** @type {(each: Language) => unknown} */ part) => Object.fromEntries(languages.map((each) => [each.code.value.trim(), part(each)]));
      return { question: by((each) => each.question.value), labels: by((each) => inputs(each).map((input) => input.value)) };
    },
  };
}

/**
 * @param {() => string[]} buckets @param {() => void} worded when words changed @param {(ask: Ask) => void} switched
 */
export function sourceEditor(buckets, worded, switched) {
  /** @type {Ask} */ let ask = 'sql';
  const sql = sqlEditor('SELECT distance\nFROM trips\nWHERE ended IS NOT NULL', worded), value = field('The name under which apps record it', 'trips', 'value', worded), form = formEditor(buckets, worded);
  const checks = { sql: checkList('sql-checks'), form: checkList('form-checks'), value: checkList('value-checks') };
  const parts = {
    sql: h('div', { class: 'lbl' }, h('span', null, 'SQL, run on each device'), sql.box, checks.sql.list),
    form: h('div', { class: 'lbl' }, h('span', null, 'The form, as people read it'), form.list, checks.form.list),
    value: h('div', { class: 'stack' }, value.label, checks.value.list),
  };
  const show = () => { for (const [name, part] of Object.entries(parts)) part.hidden = name !== ask; };
  const choice = segmented('source', [['sql', 'SQL'], ['form', 'a form'], ['value', 'a recorded value']], ask, (chosen) => {
    ask = /** @type {Ask} */ (chosen);
    show();
    switched(ask);
  }, 'Where the answer comes from');
  show();
  return {
    box: h('div', { class: 'stack' }, h('div', { class: 'lbl' }, h('span', null, 'Where the answer comes from'), choice), Object.values(parts)),
    fields: Object.keys(checks),
    read: () => ({ ask, sql: ask === 'sql' ? sql.area.value : '', value: ask === 'value' ? value.input.value.trim() : '', texts: ask === 'form' ? form.read() : {} }),
    /** @param {Check[]} all */
    show(all) { for (const [name, list] of Object.entries(checks)) list.show(all.filter((each) => each.field === name)); },
  };
}
