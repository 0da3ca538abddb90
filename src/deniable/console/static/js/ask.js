// Ask by accuracy: write a question, drag the ± one wants, see what it costs people, simulate, sign here, publish.

import './preview.js';
import { go, note } from './address.js';
import { Problem, call, current, latestOnly, of } from './api.js';
import { costList, curve, riskRows, verdict } from './design.js';
import { h, icons, key, label, put, s, save, say, segmented } from './dom.js';
import { frame } from './frames.js';
import { canSign, differences, readKey, signedQuery } from './keys.js';
import { bucketEditor, checkList, field } from './editor.js';
import { decimals, duration, int, pct } from './numbers.js';
import { sourceEditor } from './source.js';
import { store } from './store.js';

/** @typedef {import('./design.js').Design} Design */
/** @typedef {import('./types.js').DraftCheck} Check */
/** @typedef {'margin'|'epsilon'|'population'} Open */

/** @param {number} low @param {number} high */
const log = (low, high) => ({
  to: (/** @type {number} */ v) => Math.round((1000 * Math.log(Math.min(high, Math.max(low, v)) / low)) / Math.log(high / low)),
  from: (/** @type {number} */ t) => low * (high / low) ** (t / 1000),
});
const SCALE = { margin: log(0.0005, 0.3), epsilon: log(0.2, 6), population: log(200, 5e6), proportion: log(0.001, 0.5) };
const DEBOUNCE = 80, TYPING = 250;
const YEAR = 365 * 86_400_000;
/** Buckets to begin with: ranges of what devices know, and choices of a form. @type {Record<'known'|'chosen', [string, string[], number[]]>} */
const FIRST = {
  known: ['distance', ['[0,1)', '[1,2)', '[2,5)', '[5,10)', '[10,inf)'], [24, 31, 34, 9, 2]],
  chosen: ['travel', ['foot', 'bike', 'bus', 'car'], [30, 20, 40, 10]],
};

/** @type {import('./keys.js').SigningKey|null} */
let signer = null;

/** People in round numbers. @param {number} value */
const wholeCrowd = (value) => (value < 1e4 ? Math.max(30, Math.round(value / 100) * 100) : Number(value.toPrecision(3)));

/** @param {HTMLElement} main @param {{state: URLSearchParams}} context */
export function ask(main, { state }) {
  const session = current();
  const v = {
    population: Number(state.get('population') ?? 20_000), epsilon: Number(state.get('epsilon') ?? Math.log(9)), proportion: Number(state.get('proportion') ?? 0.02),
    margin: 0.01, gives: /** @type {'epsilon'|'population'} */ (state.get('gives') ?? 'epsilon'), open: /** @type {Open} */ ('margin'), picked: 4, price: 0,
  };
  /** @type {Design|null} */ let design = null;
  /** @type {number[][]} */ let simulated = [];
  /** @type {{checks: Check[], labels: string[], query: any}|null} */ let checked = null;
  const planning = latestOnly(), checking = latestOnly();
  let planTimer = 0, checkTimer = 0;
  // Edits in all, and those that the plan depends on.
  let edits = 0, designs = 0, plannedAt = -1, checkedAt = -1;
  /** Whether plan and checks belong to what is written now. */
  const upToDate = () => plannedAt === designs && checkedAt === edits;

  const preview = /** @type {import('./preview.js').DnPreview} */ (document.createElement('dn-preview'));
  const box = h('div', { class: 'verdict', 'aria-live': 'polite', 'data-testid': 'verdict' }), how = h('p', { class: 'small muted', 'data-testid': 'how' });
  const risks = h('tbody'), costs = h('dl', { class: 'cost' }), line = curve(), asRead = h('p', { class: 'small muted' }), asked = h('p');
  const publish = h('button', { class: 'btn primary', type: 'button', 'data-testid': 'publish', on: { click: () => void send() } }, 'Sign and publish');
  const outcome = h('p', { class: 'small', role: 'status', 'data-testid': 'outcome' }), keyLine = h('span', { class: 'small muted', 'data-testid': 'key' });

  const id = field('Name', 'trip-distance', 'query-name', plan), question = field('Question, in the words people will read', 'How long was your last trip, in miles?', 'question', worded);
  const analyst = field('Analyst', signer?.owner ?? session?.name ?? '', 'analyst', worded);
  const every = field('Every', '7 d', 'every', plan), end = field('End', new Date(Date.now() + YEAR).toISOString().slice(0, 10), 'end', plan), budget = field('Life budget', '20', 'budget', plan);
  const buckets = bucketEditor(...FIRST.known, plan, (k) => { v.picked = k; drawPreview(); });
  const memoize = h('input', { type: 'checkbox', on: { change: plan } }), shown = h('input', { type: 'checkbox', 'data-testid': 'public-results', on: { change: worded } });
  const once = h('input', { type: 'checkbox', 'data-testid': 'once', on: { change: () => { memoize.disabled = once.checked; memoize.checked &&= !once.checked; plan(); } } });
  const source = sourceEditor(() => { const { names, other } = buckets.read(); return other ? [...names, 'other'] : names; }, worded, (chosen) => {
    const first = chosen === 'form' ? [FIRST.known, FIRST.chosen] : [FIRST.chosen, FIRST.known];
    if (JSON.stringify(buckets.read().names) === JSON.stringify(first[0][1])) buckets.replace(...first[1]);  // unless somebody wrote their own
    plan();
  });
  const bucketChecks = checkList('bucket-checks'), otherChecks = checkList('other-checks');

  const lifeBudget = () => (budget.input.value.trim() === '' ? null : Number(budget.input.value));

  function request() {
    const given = { population: Math.round(v.population), margin: v.margin, epsilon: v.epsilon };
    const { names, other, guesses } = buckets.read();
    return {
      ...given, [v.open]: null, proportion: v.proportion, buckets: Math.max(2, names.length + Number(other)), complete: other,
      guesses: other ? [...guesses, Math.max(0, 1 - guesses.reduce((a, b) => a + b, 0))] : guesses.length > 1 ? guesses : [...guesses, 0],
      every: every.input.value, end: end.input.value, budget: lifeBudget(), memoize: memoize.checked, once: once.checked, proxies: Math.max(2, session?.proxies.length ?? 2), price_per_gb: v.price,
    };
  }

  /** The server plans; what is shown meanwhile is grey until it has. */
  function plan() {
    designs += 1;
    worded();
    main.classList.add('pending');
    clearTimeout(planTimer);
    planTimer = setTimeout(() => void replan(), DEBOUNCE);
  }

  async function replan() {
    const at = designs;
    try {
      design = await call('POST', '/v1/plan', request(), planning());
    } catch (error) {
      if (error instanceof Problem) {
        box.className = 'verdict refused';
        put(box, h('div', { class: 'verdict-h' }, icons.refused(), h('div', null, h('h2', null, 'This cannot be planned'), h('p', null, error.message))));
      }
      return;
    }
    if (!design) return;
    if (design.population) v.population = design.population;
    if (design.epsilon) v.epsilon = design.epsilon;
    if (design.margin) v.margin = design.margin;
    simulated = [];
    plannedAt = at;
    if (at === designs) main.classList.remove('pending');
    frame(main, draw);
    changed();
  }

  /** Something was written: nothing is signed until plan and checks belong to it. */
  function worded() {
    edits += 1;
    drawActions();
    changed();
  }

  /** Check what is written once the writer pauses. */
  function changed() {
    clearTimeout(checkTimer);
    checkTimer = setTimeout(() => void check(), TYPING);
  }

  function draft() {
    const { column, names, other } = buckets.read(), { texts, ...from } = source.read();
    return {
      id: id.input.value.trim(), analyst: analyst.input.value.trim(), question: question.input.value, ...from, columns: [{ name: column, buckets: names, other, ...texts }],
      every: every.input.value, end: end.input.value, budget: lifeBudget(), margin: design?.feasible ? Math.max(...design.reaches) : null, memoize: memoize.checked, once: once.checked, public_results: shown.checked,
      mechanism: design?.feasible ? design.mechanism : null, sampling: design?.sampling ?? 1, population: design?.feasible ? design.population : null,
      serial: (store.queries.get(id.input.value.trim())?.serial ?? 0) + 1,
    };
  }

  async function check() {
    if (session?.role !== 'analyst') return drawActions();  // only who may publish may have a query checked
    const at = edits, planned = plannedAt === designs;
    try {
      checked = await call('POST', '/v1/queries/check', draft(), checking());
    } catch (error) {
      if (error instanceof Problem) otherChecks.show([{ level: 'bad', text: error.message, field: '', place: null }]);
      return;
    }
    if (planned) checkedAt = at;
    const all = checked?.checks ?? [];
    source.show(all);
    bucketChecks.show(all.filter((each) => each.field === 'buckets' || each.field === 'columns'));
    otherChecks.show(all.filter((each) => ![...source.fields, 'buckets', 'columns'].includes(each.field)));
    buckets.mark(all.filter((each) => each.field === 'buckets' && each.level === 'bad'));
    drawActions();
  }

  const DIALS = /** @type {const} */ (['margin', 'epsilon', 'population', 'proportion']);
  /** @type {Record<string, {input: HTMLInputElement, out: HTMLElement, mark: HTMLElement, text: (v: number) => string}>} */
  const dials = {};
  function dial(/** @type {typeof DIALS[number]} */ name, /** @type {string} */ title, /** @type {string} */ hint, /** @type {(v: number) => string} */ text) {
    const out = h('output', { class: 'dial-v' }), mark = h('span', { class: 'gives' }, 'gives way');
    const input = h('input', { type: 'range', min: 0, max: 1000, 'aria-label': title, 'data-testid': `dial-${name}`, on: { input: () => move(name, SCALE[name].from(Number(input.value))) } });
    dials[name] = { input, out, mark, text };
    return h('div', { class: 'dial' }, h('span', { class: 'dial-n' }, title), h('div', { class: 'row' }, out, mark), input, h('p', { class: 'tiny quiet' }, hint));
  }

  /** @param {typeof DIALS[number]} name @param {number} value */
  function move(name, value) {
    v[name] = name === 'population' ? wholeCrowd(value) : value;
    v.open = name === 'margin' ? v.gives : 'margin';
    drawDials();
    note({ population: Math.round(v.population), epsilon: v.epsilon.toFixed(4), proportion: v.proportion.toFixed(4), gives: v.gives });
    plan();
  }

  preview.addEventListener('reach', (event) => {
    const wanted = /** @type {CustomEvent} */ (event).detail, now = design?.reaches[v.picked];
    if (!now || !design) return;
    // Shown at once by the square-root law, and confirmed by the server.
    const part = wanted / now;
    design = { ...design, reaches: design.reaches.map((reach) => reach * part) };
    drawPreview();
    move('margin', Math.min(0.3, v.margin * part));
  });

  function drawDials() {
    for (const name of DIALS) {
      const { input, out, mark, text } = dials[name];
      input.value = String(SCALE[name].to(v[name]));
      say(out, text(v[name]));
      input.setAttribute('aria-valuetext', text(v[name]));
      mark.hidden = name !== v.gives;
    }
  }

  function drawPreview() {
    if (!design?.reaches) return;
    const { names, other, guesses } = buckets.read();
    const labels = other ? [...names, 'other'] : names, shown = other ? [...guesses, Math.max(0, 1 - guesses.reduce((a, b) => a + b, 0))] : guesses;
    v.picked = Math.min(v.picked, labels.length - 1);
    preview.show({ labels, guesses: shown, reaches: design.reaches.slice(0, labels.length), ticks: simulated, picked: v.picked, refused: !design.feasible, epsilon: v.epsilon });
  }

  function draw() {
    if (!design) return;
    verdict(box, design, (changes) => {
      Object.assign(v, changes);
      v.open = 'margin' in changes ? v.gives : 'margin';
      plan();
    });
    drawDials();
    if (design.mechanism) {
      const part = design.sampling < 1 ? `${pct(design.sampling, 0)} of ${int(design.population)} people` : `all of ${int(design.population)} people`;
      put(how, `${String(design.mechanism.name)}, `, h('b', null, int(design.reports)), ` answers expected: ${part}, ${design.report_bytes} byte${design.report_bytes === 1 ? '' : 's'} each`);
      drawPreview();
      costList(costs, design, v.price);
      line.show(design);
    }
    riskRows(risks, design.risk, lifeBudget());
    const times = design.risk.at(-1)?.answers ?? 1;
    put(asked, h('b', null, label(analyst.input.value)), ' asks: ', label(question.input.value));
    say(asRead, `Your answer is randomized on your device before anything is sent. It would cost ${v.epsilon.toFixed(2)} of your budget, ${once.checked ? 'once in all' : `at most once every ${duration(design.every)}, and stop after ${int(times)} answers`}.${shown.checked ? ' Anyone may read the results.' : ''}`);
    drawActions();
    document.documentElement.dataset.ready = 'ask';
  }

  function drawActions() {
    const reader = session?.role !== 'analyst', wrong = (checked?.checks ?? []).some((each) => each.level === 'bad');
    publish.disabled = reader || !design?.feasible || wrong || !checked?.query || !signer || !upToDate();
    saveFile.disabled = !checked?.query || !upToDate();
    say(publish, reader ? 'A reader cannot publish' : design && !design.feasible ? 'Refused: nothing can be signed' : 'Sign and publish');
    put(keyLine, signer ? [h('span', null, 'Key ', h('code', null, `${signer.id.slice(0, 4)}\u2026${signer.id.slice(-4)}`), ' of ', label(signer.owner), ', in this page only')] : canSign() ? 'No key yet: open the file of one, or save the query and sign it on the command line.' : 'Signing here needs https or this machine itself: save the query and sign it on the command line.');
  }

  async function simulateNow() {
    if (!design) return;
    say(outcome, 'Rehearsing on simulated people \u2026');
    try {
      const told = await call('POST', '/v1/simulate', { ...request(), population: Math.round(v.population), epsilon: v.epsilon, margin: null });
      simulated = told.estimates[0].map((/** @type {unknown} */ _, /** @type {number} */ k) => told.estimates.map((/** @type {number[]} */ run) => run[k]));
      drawPreview();
      say(outcome, `${told.trials} simulations of ${int(told.n_reports)} people: ${told.covered} of ${told.intervals} intervals hold the proportion you guessed. Nobody was asked.`);
    } catch (error) {
      if (error instanceof Problem) say(outcome, error.message);
    }
  }

  const file = h('input', { type: 'file', class: 'visually-hidden', id: 'key-file', 'data-testid': 'key-file', on: { change: () => void openKey() } });
  async function openKey() {
    const chosen = file.files?.[0];
    if (!chosen) return;
    try {
      signer = await readKey(await chosen.text(), analyst.input.value.trim());
      analyst.input.value = signer.owner;
      say(outcome, '');
      worded();
    } catch (error) {
      say(outcome, error instanceof SyntaxError ? 'This file is not a key.' : String(error instanceof Error ? error.message : error));
    }
    file.value = '';
    drawActions();
  }

  async function send() {
    await check();
    const ready = checked?.query, written = draft();
    if (!ready || !signer) return;
    const differs = differences(ready.content, written);
    if (differs.length) return say(outcome, `Not signed: the server changed ${differs.join(', ')}.`);
    if (!upToDate() || JSON.stringify(ready.risk) !== JSON.stringify(design?.risk)) {
      plan();
      return say(outcome, 'Not signed: what a person risks is being worked out again. Look at it, and sign then.');
    }
    try {
      await call('PUT', of(ready.id, ''), await signedQuery(ready.content, signer));
      await store.refresh();
      go('live', { q: ready.id });
    } catch (error) {
      if (error instanceof Problem) say(outcome, error.message);
    }
  }

  const saveFile = h('button', { class: 'btn', type: 'button', 'data-testid': 'save-file', on: { click: () => saveQuery() } }, 'Save file');
  function saveQuery() {
    if (!checked?.query) return;
    save(`${checked.query.id}.query.json`, checked.query.content, 'application/json');
    say(outcome, `Sign it on the command line: deniable query sign ${checked.query.id}.query.json --key KEY, then deniable query publish.`);
  }

  const price = h('input', { class: 'field small-field', inputmode: 'decimal', value: '0', 'aria-label': 'Your price for a GB', on: { input: () => { v.price = Math.max(0, Number(price.value) || 0); plan(); } } });
  const gives = segmented('gives', [['epsilon', 'epsilon'], ['population', 'population']], v.gives, (value) => { v.gives = /** @type {'epsilon'|'population'} */ (value); note({ gives: value }); drawDials(); }, 'What changes when \u00b1 is dragged');
  put(main,
    h('div', { class: 'left' },
      h('section', { class: 'panel editor', 'aria-label': 'The question' },
        h('div', { class: 'part' }, h('h1', null, 'Ask'), h('p', { class: 'small muted meta' }, 'Nothing is sent until you sign.')),
        h('div', { class: 'part stack' }, question.label,
          source.box, h('div', { class: 'lbl' }, buckets.title, buckets.list, bucketChecks.list)),
        h('div', { class: 'part stack' }, h('div', { class: 'three' }, every.label, end.label, budget.label), h('div', { class: 'two' }, id.label, analyst.label),
          h('label', { class: 'check' }, memoize, 'Permanent answers: draw once, replay (memoize)'), h('label', { class: 'check' }, once, 'One answer per device, over the whole life (once)'),
          h('label', { class: 'check' }, shown, 'Anyone may read the results (public_results)'), otherChecks.list)),
      h('section', { class: 'panel read-as', 'aria-label': 'As a person will read it' }, h('h2', null, 'As a person will read it'), h('blockquote', null, asked, asRead))),
    h('section', { class: 'panel design', 'aria-label': 'The design' },
      h('div', { class: 'part' }, box, h('div', { class: 'head see' }, how, h('div', { class: 'give-row small muted' }, 'dragging \u00b1 moves', gives)), preview,
        h('div', { class: 'legend' }, key('your guess of the proportions', s('circle', { class: 'dot', cx: 12, cy: 6, r: 4.5 })), key('95 % interval to expect', s('path', { class: 'whisker', d: 'M2 6H22M2 2v8M22 2v8' })),
          key('simulations', s('path', { class: 'simulated', d: 'M3 3v6M8 3v6M11 3v6M13 3v6M20 3v6' })))),
      h('div', { class: 'part dials' }, dial('margin', '\u00b1 at that proportion', 'half the 95 % interval', (x) => `\u00b1 ${pct(x, decimals(x))}`), dial('epsilon', 'Epsilon, local', 'the most one answer may tell anybody', (x) => x.toFixed(2)),
        dial('population', 'People', 'who may be asked', (x) => int(x)), dial('proportion', 'Smallest proportion to detect', 'below it you need not see', (x) => pct(x))),
      h('div', { class: 'part' }, h('h2', null, 'What a person risks'), h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'What a person risks' },
        h('table', { class: 'risks' }, h('thead', null, h('tr', null, ['over', 'answers', 'epsilon', 'odds', 'belief, from 10 in 100', 'in words'].map((name, i) => h('th', { scope: 'col', class: i && i < 4 ? 'num' : i === 4 ? 'c-track' : null }, name)))), risks)),
      h('p', { class: 'caption' }, 'Against everybody at once, proxies included. Sampling helps only against anyone who cannot see who answered.')),
      h('div', { class: 'part split' }, h('div', null, h('h2', null, '\u00b1 against epsilon'), line.host), h('div', null, h('h2', null, 'Resources'), costs, h('label', { class: 'price-row small muted' }, 'your price for a GB', price))),
      h('div', { class: 'part actions' }, h('div', { class: 'said-here' }, keyLine, outcome), h('span', { class: 'right' },
        h('button', { class: 'btn', type: 'button', 'data-testid': 'simulate', on: { click: () => void simulateNow() } }, 'Simulate'), saveFile, file,
        h('label', { class: 'btn', for: 'key-file', tabindex: 0, on: { keydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === 'Enter' || event.key === ' ') file.click(); } } }, 'Open key'), publish))));
  drawDials();
  plan();
  return () => { clearTimeout(planTimer); clearTimeout(checkTimer); };
}
