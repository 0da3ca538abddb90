// Look back: any two periods of what was answered already, compared; cuts; conditionals of composite buckets. Nobody is asked again.

import './compare.js';
import './overview.js';
import { go, note } from './address.js';
import { Problem, get, of } from './api.js';
import { finding } from './compare.js';
import { badge, h, icons, key, label, put, s, save, say, segmented } from './dom.js';
import { cellOf, heatKey, heatTable } from './heat.js';
import { int, moment, pct, shortLabels } from './numbers.js';
import { binned } from './overview.js';
import { store } from './store.js';

/** @typedef {import('./types.js').HistoryAnswer} HistoryAnswer */
/** @typedef {{labels: string[], estimate: number[], low: number[], high: number[], n: number}} Described */
/** @typedef {Pick<HistoryAnswer, 'start'|'end'|'n_reports'|'scanned'|'fraction'|'reading'|'statement'|'source'>} Scope */
/** @typedef {Described & Scope & {parts: (Described & {name: string, condition: string})[], against: any}} Answer what there is once an estimate is */

const READS = /** @type {[string, string][]} */ ([['panes', 'counts'], ['0.02', '2 %'], ['0.1', '10 %'], ['5s', '5 s'], ['all', 'all']]);
const CUTS = /** @type {[string, string][]} */ ([['', 'no cut'], ['hour', 'hour'], ['weekday', 'weekday'], ['day', 'day'], ['stratum', 'stratum']]);

/** What part of the reports is read. @param {string} read */
function budgetOf(read) {
  if (read === 'panes') return { source: 'panes' };
  if (read.endsWith('s')) return { seconds: Number.parseFloat(read) };
  return read === 'all' ? {} : { fraction: read };
}

/** @param {HTMLElement} main @param {{state: URLSearchParams}} context */
export async function look(main, { state }) {
  const query = store.queries.get(state.get('q') ?? '') ?? [...store.queries.values()][0];
  if (!query) {
    put(main, h('section', { class: 'panel' }, h('div', { class: 'part stack', 'data-testid': 'empty' }, h('h1', null, 'Nothing to look back at yet.'), h('a', { class: 'btn primary', href: '#ask' }, 'Ask a question'))));
    document.documentElement.dataset.ready = 'empty';
    return;
  }
  note({ q: query.id });
  const series = await get(of(query.id, '/series', { label: 0 }));
  const bins = binned(series), n = bins.length;
  const v = { read: state.get('read') ?? 'panes', together: state.get('together') !== '0', by: state.get('by') ?? '', given: state.get('given') ?? '' };
  const spanOf = (/** @type {'A'|'B'} */ name, /** @type {[number, number]} */ other) => {
    const given = (state.get(name.toLowerCase()) ?? '').split('-').map(Number);
    if (given.length !== 2 || given.some(Number.isNaN)) return other;
    const from = bins.findIndex((bin) => bin.end > given[0]), to = bins.findLastIndex((bin) => bin.start < given[1]) + 1;
    return /** @type {[number, number]} */ (from >= 0 && to > from ? [from, to] : other);
  };
  const third = Math.max(1, Math.floor(n / 3));
  const digits = n && bins[0].end - bins[0].start < 60 ? 19 : 16;
  let spans = { A: spanOf('A', [0, third]), B: spanOf('B', [Math.max(third, n - third), Math.max(n, third + 1)]) };
  const overview = /** @type {import('./overview.js').DnOverview} */ (document.createElement('dn-overview'));
  const compare = /** @type {import('./compare.js').DnCompare} */ (document.createElement('dn-compare'));
  const title = h('h2', { class: 'h-l', 'data-testid': 'finding' }), words = h('p', { class: 'small muted' }), caption = h('p', { class: 'caption', 'data-testid': 'read' });
  const texts = { A: h('b', { 'data-testid': 'period-A' }), B: h('b', { 'data-testid': 'period-B' }) }, counts = { A: h('span', { class: 'quiet' }), B: h('span', { class: 'quiet' }) };
  const problem = h('div', { class: 'notice refused', role: 'alert', hidden: true, 'data-testid': 'look-problem' });
  const cutBox = h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Parts of period B' }), cutWords = h('p', { class: 'small muted', 'data-testid': 'cut-words' });
  /** @type {EventSource|null} */ let reading = null;
  /** @type {Answer|null} */ let answer = null;

  /** @param {'A'|'B'} name */
  const bounds = (name) => ({ from: bins[spans[name][0]].start, to: bins[spans[name][1] - 1].end });

  /** Ask the history; how far it has read is told while it reads, and leaving cancels it. @param {Record<string, unknown>} parameters @param {(answer: Answer) => void} use */
  function read(parameters, use) {
    reading?.close();
    const source = new EventSource(of(query.id, '/history', parameters));
    reading = source;
    source.addEventListener('progress', (event) => {
      const told = JSON.parse(event.data);
      if (told.of) say(caption, `Reading: ${pct(told.read / told.of, 0)} of the files \u2026`);
    });
    source.addEventListener('answer', (event) => { source.close(); problem.hidden = true; use(JSON.parse(event.data)); });
    source.addEventListener('problem', (event) => { source.close(); failed(JSON.parse(event.data).detail); });
    source.onerror = () => {
      source.close();
      // The stream cannot say why it was refused; the same question as a plain request can.
      get(of(query.id, '/history', parameters)).then(use, (error) => failed(error instanceof Problem ? error.message : String(error)));
    };
  }

  /** @param {string} text */
  function failed(text) {
    problem.hidden = false;
    put(problem, icons.refused(), h('p', null, text));
    document.documentElement.dataset.ready = 'look-problem';
  }

  function ask() {
    const a = bounds('A'), b = bounds('B');
    note({ read: v.read, together: v.together ? 1 : 0, by: v.by || null, given: v.given || null, a: `${a.from}-${a.to}`, b: `${b.from}-${b.to}` });
    for (const name of /** @type {const} */ (['A', 'B'])) say(texts[name], `${moment(bounds(name).from).slice(0, digits)} to ${moment(bounds(name).to).slice(0, digits)}`);
    read({ from: b.from, to: b.to, against_from: a.from, against_to: a.to, simultaneous: v.together, ...budgetOf(v.read), by: v.by || null }, (told) => { answer = told; draw(told); });
  }

  /** @param {Answer} told */
  function draw(told) {
    const other = told.against.estimate, difference = told.against.difference;
    say(counts.A, `${int(told.against.n_reports)} reports`);
    say(counts.B, `${int(told.n_reports)} reports`);
    const names = told.labels.length === query.labels.length ? shortLabels(query) : told.labels;
    const pairs = told.labels.map((_, k) => ({
      label: String(names[k]), a: other.estimate[k], aLow: other.low[k], aHigh: other.high[k], b: told.estimate[k], bLow: told.low[k], bHigh: told.high[k],
      difference: difference.difference[k], low: difference.low[k], high: difference.high[k], alone: 1.959964 * difference.stderr[k],
    }));
    const found = finding(pairs);
    say(title, found.title);
    say(words, `${found.words} ${v.together ? 'All intervals cover together' : 'Each interval covers on its own'} at 95\u202f%.`.trim());
    compare.show(pairs, query.columns.map((column) => column.name).join(', '));
    const part = told.fraction < 1 ? `${pct(told.fraction, 0)} of the reports were read; the intervals cover that too.` : told.source === 'panes' ? 'Read from the stored counts of each epoch.' : 'All reports were read.';
    say(caption, `${part} Hatched: a proxy was down. ${told.reading.join(' ')} ${told.statement}`);
    drawParts(told);
    document.documentElement.dataset.ready = 'look';
  }

  /** @param {Answer} told */
  function drawParts(told) {
    const parts = (told.parts ?? []).filter((each) => each.estimate);
    cut.hidden = !parts.length;
    if (!parts.length) return;
    const cells = parts.map((each) => each.estimate.map((value, k) => cellOf(value, each.low[k], each.high[k])));
    const withheld = told.parts.length - parts.length;
    say(cutWords, `Period B by ${v.by || v.given}. ${withheld ? `${withheld} parts are withheld: too few answers.` : ''} ${v.together ? 'All intervals cover together.' : 'Each interval covers on its own.'}`);
    const names = parts[0].labels.length === query.labels.length ? shortLabels(query) : parts[0].labels.map(String);
    put(cutBox, heatTable(parts.map((each) => String(each.name)), names, cells, 'Proportions in each part, percent, with intervals', [v.by || v.given, 'proportion'], false));
  }

  /** A period is cut in one way at a time. @param {string} name */
  function unset(name) {
    const none = /** @type {HTMLInputElement|null} */ (main.querySelector(`[data-testid="switch-${name}"] input`));
    if (none) none.checked = true;
  }

  function askGiven() {
    const b = bounds('B');
    read({ from: b.from, to: b.to, given: v.given, simultaneous: v.together, ...budgetOf(v.read) }, drawParts);
  }

  overview.addEventListener('spans', (event) => { spans = /** @type {CustomEvent} */ (event).detail; ask(); });
  const select = h('select', { class: 'field look-pick', 'aria-label': 'Query', on: { change: () => go('look', { q: select.value }) } }, [...store.queries.values()].map((each) => h('option', { value: each.id, selected: each.id === query.id }, each.question || each.id)));
  const cutChoices = CUTS.filter(([name]) => name !== 'stratum' || query.strata.length);
  const given = query.columns.length > 1 ? segmented('given', [['', 'no condition'], ...query.columns.map((column) => /** @type {[string, string]} */ ([column.name, `given ${column.name}`]))], v.given, (value) => { v.given = value; v.by = ''; unset('by'); if (value) askGiven(); else ask(); }, 'Condition on a column') : null;
  const cut = h('section', { class: 'panel', hidden: true }, h('div', { class: 'part' }, h('div', { class: 'head' }, h('div', null, h('h2', { class: 'h-l' }, 'Cuts of period B'), cutWords)), h('div', { class: 'heat-box' }, cutBox, heatKey())));
  const exportCsv = () => {
    if (!answer) return;
    const rows = compare.pairs.map((pair) => [`"${pair.label.replaceAll('"', '""')}"`, pair.a, pair.b, pair.difference, pair.low, pair.high].join(','));
    save(`${query.id}-compared.csv`, `label,a,b,difference,low,high\r\n${rows.join('\r\n')}\r\n`, 'text/csv');
  };
  put(main,
    h('section', { class: 'panel' },
      h('div', { class: 'part' }, h('div', { class: 'top' }, h('div', null, h('h1', { class: 'label' }, query.question || query.id), h('p', { class: 'small muted meta' }, h('code', null, query.id), ' \u00b7 ', label(query.analyst))),
        h('div', { class: 'tools' }, select, h('button', { class: 'btn ghost', type: 'button', 'data-testid': 'export-compare', on: { click: exportCsv } }, 'Export'))),
      h('div', { class: 'free' }, icons.lock(), h('p', null, h('b', null, 'Nobody\u2019s epsilon grows. '), 'These answers were given already; looking at them again costs people nothing.'))),
      h('div', { class: 'part' }, h('div', { class: 'periods' }, h('div', null, h('span', { class: 'tag a' }, 'A'), texts.A, counts.A), h('div', null, h('span', { class: 'tag b' }, 'B'), texts.B, counts.B),
        h('div', { class: 'end' }, h('span', { class: 'small muted' }, 'read'), segmented('fraction', READS, v.read, (value) => { v.read = value; ask(); }, 'How much is read'))), overview, caption, problem)),
    h('section', { class: 'panel' },
      h('div', { class: 'part' }, h('div', { class: 'head' }, h('div', null, title, words), h('label', { class: 'check' }, h('input', { type: 'checkbox', checked: v.together, 'data-testid': 'together', on: { change: (/** @type {Event} */ event) => { v.together = /** @type {HTMLInputElement} */ (event.target).checked; ask(); } } }), 'hold together (simultaneous)')),
        h('div', { class: 'gap' }, compare),
        h('div', { class: 'legend' }, key('A', s('circle', { class: 'dot a', cx: 12, cy: 6, r: 4 })), key('B', s('rect', { class: 'dot b', x: 8, y: 2, width: 8, height: 8 })), key('interval', s('path', { class: 'whisker', d: 'M2 6H22M2 2v8M22 2v8' })),
          key('each bucket alone', s('rect', { class: 'alone', x: 4, y: 2, width: 16, height: 8 })), key('no clear difference', s('circle', { class: 'dot ink hollow', cx: 12, cy: 6, r: 4 }))),
        h('div', { class: 'cuts' }, h('span', { class: 'small muted' }, 'cut period B by'), segmented('by', cutChoices, v.by, (value) => { v.by = value; v.given = ''; unset('given'); ask(); }, 'Cut by'), given))),
    cut);
  if (n < 2) {
    put(title, badge('waiting', 'There are not two windows yet.'));
    document.documentElement.dataset.ready = 'look-waiting';
    return;
  }
  overview.show(bins, spans);
  ask();
  return () => reading?.close();
}
