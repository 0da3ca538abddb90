// Live: windows as bars with whiskers, one label over time, what became of the shares, and what it all rests on.

import './bars.js';
import './timeline.js';
import { go, note } from './address.js';
import { Problem, call, get, latestOnly, of } from './api.js';
import { badge, h, icons, key, label, put, s, say, segmented, slot } from './dom.js';
import { exportMenu } from './export.js';
import { facts } from './facts.js';
import { frame } from './frames.js';
import { heatPart } from './heat.js';
import { clock, duration, int, shortLabels } from './numbers.js';
import { sharesTable } from './shares.js';
import { store } from './store.js';

/** @typedef {import('./types.js').Query} Query */
/** @typedef {import('./types.js').WindowResult} WindowResult */
/** @typedef {import('./types.js').Series & {before?: (number|null)[]}} Series */
/** @typedef {Partial<import('./types.js').Version> & {serial: number}} Version */
/** @typedef {{unit: string, conf: number, form: string, inverted: boolean, bucket: number, window: number|null, truth: number[]}} Look */

/** @param {string} condition @param {boolean} [stopped] @returns {import('./dom.js').Icon} */
export const kindOf = (condition, stopped = false) => {
  if (stopped) return 'stopped';
  return /** @type {Record<string, import('./dom.js').Icon>} */ ({ complete: 'complete', overdue: 'overdue', 'proxy down': 'down', malformed: 'down', incomplete: 'down', withheld: 'withheld' })[condition] ?? 'waiting';
};

/** What a query's newest result is worth now: its condition, unless a newer one should be there. @param {Query} query */
export function standing(query) {
  if (query.stopped !== null) return 'stopped';
  const condition = query.latest?.condition ?? 'waiting';
  return query.overdue && condition !== 'proxy down' ? 'overdue' : condition;
}

/** The list of queries beside the charts, and the select that takes its place on a phone. @param {string} chosen */
function rail(chosen) {
  const list = h('ul'), many = h('span', { class: 'tiny quiet' });
  const select = h('select', { class: 'field', 'aria-label': 'Query', on: { change: () => go('live', { q: select.value }) } });
  const nav = h('nav', { class: 'rail', 'aria-label': 'Queries' }, h('div', { class: 'head' }, h('h2', null, 'Queries'), many), list);
  const draw = () => {
    const all = [...store.queries.values()];
    say(many, `${all.filter((query) => query.stopped === null).length} running`);
    put(list, all.map((query) => {
      const condition = standing(query);
      const kind = kindOf(condition, query.stopped !== null);
      return h('li', null, h('a', { href: `#live?q=${encodeURIComponent(query.id)}`, 'aria-current': query.id === chosen ? 'true' : null, 'data-testid': `query-${query.id}` },
        h('span', { class: 'rail-q label' }, query.question || query.id),
        h('span', { class: 'rail-m' }, h('span', { class: `state ${kind}` }, icons[kind](), condition), h('span', { class: 'num' }, query.latest ? int(query.latest.n) : ''))));
    }));
    put(select, all.map((query) => h('option', { value: query.id, selected: query.id === chosen }, query.question || query.id)));
  };
  draw();
  return { nav, pick: h('div', { class: 'rail-pick' }, select), draw };
}

/** @param {Query} query @param {WindowResult} result @param {Look} look @param {WindowResult|null} before @returns {import('./bars.js').Row[]} */
export function rowsOf(query, result, look, before) {
  const labels = query.columns.length > 1 ? shortLabels(query) : result.labels ?? query.labels, estimate = result.estimate ?? [];
  const flip = (/** @type {number} */ v) => (look.inverted ? 1 - v : v);
  return estimate.map((value, k) => {
    const low = result.low?.[k] ?? -Infinity, high = result.high?.[k] ?? Infinity;
    const old = before?.estimate?.[k], raw = result.unbiased?.[k] ?? value, truth = look.truth[k];
    return {
      label: labels[k], value: flip(value), raw: flip(raw), low: look.inverted ? 1 - high : low, high: look.inverted ? 1 - low : high,
      before: old === undefined ? null : flip(old), truth: truth === undefined ? null : flip(truth),
    };
  });
}

/** @param {HTMLElement} main @param {{state: URLSearchParams}} context */
export async function live(main, { state }) {
  const query = store.queries.get(state.get('q') ?? '') ?? [...store.queries.values()][0];
  if (!query) return empty(main);
  if (state.get('side')) return (await import('./side.js')).sideBySide(main);
  if (state.get('q') !== query.id) note({ q: query.id });
  /** @type {Look} */
  const look = {
    unit: state.get('unit') ?? 'proportions', conf: Number(state.get('conf') ?? 95), form: state.get('form') ?? 'raw',
    inverted: state.get('inverted') === '1', bucket: Math.min(query.labels.length - 1, Number(state.get('bucket') ?? 0)),
    window: state.has('window') ? Number(state.get('window')) : null,
    truth: (state.get('truth') ?? '').split(',').filter(Boolean).map(Number),
  };
  const panel = livePanel(query, look);
  const list = rail(query.id);
  put(main, list.nav, h('div', { class: 'center' }, list.pick, panel.article), panel.aside);
  const onWindow = (/** @type {Event} */ event) => {
    const { result, before } = /** @type {CustomEvent} */ (event).detail;
    frame(list, list.draw);
    if (result.query === query.id) panel.arrived(result, before);
  };
  const onQueries = () => { list.draw(); panel.changed(); };
  const onHealth = () => panel.healthChanged();
  const onVisible = () => { if (!document.hidden) panel.reload(); };
  store.addEventListener('window', onWindow);
  store.addEventListener('queries', onQueries);
  store.addEventListener('health', onHealth);
  document.addEventListener('visibilitychange', onVisible);
  void panel.start();
  return () => {
    store.removeEventListener('window', onWindow);
    store.removeEventListener('queries', onQueries);
    store.removeEventListener('health', onHealth);
    document.removeEventListener('visibilitychange', onVisible);
  };
}

/** @param {HTMLElement} main */
function empty(main) {
  main.className = 'view sign-in';
  put(main, h('section', { class: 'panel' }, h('div', { class: 'part stack', 'data-testid': 'empty' }, h('h1', null, 'No query yet.'),
    h('p', { class: 'small muted' }, 'Whatever is published here shows its windows on this page.'), h('a', { class: 'btn primary', href: '#ask' }, 'Ask a question'))));
  document.documentElement.dataset.ready = 'empty';
  const again = () => { if (store.queries.size) location.reload(); };
  store.addEventListener('queries', again);
  return () => store.removeEventListener('queries', again);
}

function firstChart() {
  if (document.documentElement.dataset.ready === 'live') return;
  document.documentElement.dataset.ready = 'live';
  performance.mark('first-chart');
}

/** @param {Query} query @param {Look} look */
function livePanel(query, look) {
  const bars = /** @type {import('./bars.js').DnBars} */ (document.createElement('dn-bars'));
  const line = /** @type {import('./timeline.js').DnTimeline} */ (document.createElement('dn-timeline'));
  const condition = slot('span', 'condition'), when = h('b', { 'data-testid': 'window-time' }), many = h('b', { 'data-testid': 'n' });
  const which = h('span', { class: 'small quiet nowrap', 'data-testid': 'window-index' }), meta = h('p', { class: 'small muted meta' });
  const notice = h('div', { class: 'notice', role: 'note', 'data-testid': 'notice' }), legend = h('div', { class: 'legend' });
  const waiting = h('div', { class: 'part empty', hidden: true, 'data-testid': 'no-estimate' }), charts = h('div', { class: 'part' });
  const over = h('div', { class: 'part' }, line), heat = heatPart(query), shares = sharesTable();
  const side = facts(query);
  const stop = h('button', { class: 'btn ghost', type: 'button', 'data-testid': 'stop', on: { click: () => void stopQuery() } }, 'Stop');
  /** @type {Series|null} */ let series = null;
  // The version that is known already is listed at once: what stands below it must not move when the others come.
  /** @type {Version[]} */ let versions = [{ serial: query.serial, parameters: { ...query.mechanism, sampling: query.sampling }, from: new Date(1000 * query.published).toISOString() }];
  side.versions(versions);
  /** @type {WindowResult|null} */ let shown = null;
  /** @type {WindowResult|null} */ let before = null;
  const latest = latestOnly(), latestSeries = latestOnly();
  const plain = () => look.conf === 95 && look.form === 'raw';

  const change = (/** @type {'unit'|'conf'|'form'} */ name) => (/** @type {string} */ value) => {
    if (name === 'conf') look.conf = Number(value);
    else look[name] = value;
    note({ [name]: value });
    if (name === 'unit') draw();
    else void refetch();
    if (name === 'conf') void loadSeries();
  };
  bars.addEventListener('pick', (event) => {
    look.bucket = /** @type {CustomEvent} */ (event).detail;
    note({ bucket: look.bucket });
    draw();
    void loadSeries();
  });

  /** The window that is looked at, as the switches want it. */
  async function refetch() {
    const target = shown;
    if (!target) return;
    if (plain()) {
      shown = store.of(query.id).get(target.index) ?? target;
      return draw();
    }
    try {
      const parameters = { start: target.start, end: target.start + 1, confidence: look.conf / 100, form: look.form, brief: true };
      const page = await get(of(query.id, '/results', parameters), latest());
      const found = page.windows.at(-1);
      if (found) {
        shown = found;
        draw();
      }
    } catch (error) {
      if (error instanceof Problem) problem(error);
    }
  }

  async function loadSeries() {
    try {
      series = await get(of(query.id, '/series', { label: look.bucket, confidence: look.conf / 100 }), latestSeries());
    } catch (error) {
      if (error instanceof Problem) problem(error);
      return;
    }
    drawSeries();
  }

  async function loadVersions() {
    try {
      versions = (await get(of(query.id, '/versions'))).versions ?? versions;
    } catch {
      return;  // the version that is listed stays
    }
    side.versions(versions);
    drawSeries();
  }

  function drawSeries() {
    if (!series) return;
    line.show(series, { title: `${look.inverted ? 'Not in the bucket' : 'Share'} over time: `, name: shortLabels(query)[look.bucket], inverted: look.inverted, versions });
    side.reach(series);
  }

  /** @param {Problem} error */
  function problem(error) {
    put(notice, icons.refused(), h('p', null, error.message));
    notice.className = 'notice refused';
  }

  function draw() {
    if (!shown) return drawWaiting();
    const estimated = shown.estimate !== undefined, down = shown.missing.length > 0, stopped = query.stopped !== null;
    const fine = shown.end - shown.start < 60;
    const word = shown.index === query.latest?.index || stopped ? standing(query) : shown.condition;
    put(condition, badge(kindOf(word, stopped), word));
    say(when, `${clock(shown.start, fine)} to ${clock(shown.end, fine)}`);
    say(many, int(shown.n));
    say(which, `window ${shown.index}`);
    drawNotice(shown);
    waiting.hidden = estimated;
    charts.hidden = !estimated;
    if (estimated) {
      const size = query.population ?? shown.n;
      bars.show(rowsOf(query, shown, look, before), {
        counts: look.unit === 'counts', size, picked: look.bucket, confidence: look.conf, projected: look.form === 'projected', missing: down,
        head: query.columns.map((column) => column.name).join(', '), caption: `${query.question} Window ${shown.index}, ${int(shown.n)} answers`,
      });
      drawLegend(down);
      heat.show(shown, look.conf);
      frame(legend, firstChart);
    } else {
      put(waiting, badge('withheld', 'withheld'), h('p', null, h('b', null, `${int(shown.n + (shown.held_back ?? 0))} of ${int(query.minimum_cohort)} answers. `),
        `The query\u2019s minimum cohort is ${int(query.minimum_cohort)}; fewer are not released.`));
      document.documentElement.dataset.ready = 'withheld';
    }
    shares.show(shown, store.health, query.overdue);
    side.now(shown);
  }

  function drawWaiting() {
    const closes = Math.max(query.schedule.origin + query.schedule.window, Math.ceil(Date.now() / 1000 / query.schedule.slide) * query.schedule.slide);
    put(condition, badge(kindOf(standing(query), query.stopped !== null), standing(query)));
    waiting.hidden = false;
    charts.hidden = true;
    const due = query.stopped === null ? query.overdue : null;
    notice.className = due ? 'notice warn' : 'notice';
    put(notice, due ? icons.overdue() : icons.info(), h('p', null, due ? `The first window is overdue since ${clock(due.since, true)} UTC.` : 'No window is over yet.'));
    put(waiting, h('p', null, h('b', null, query.stopped === null ? `The first window closes at ${clock(closes, true)} UTC.` : 'Stopped before its first window.')));
    document.documentElement.dataset.ready = 'waiting';
  }

  /** Always there and always as high, so that a change of condition moves nothing. @param {WindowResult} result */
  function drawNotice(result) {
    notice.className = result.missing.length ? 'notice warn' : 'notice';
    if (result.missing.length) {
      put(notice, icons.down(), h('p', null, h('b', null, 'Closed without ', result.missing.map((name, i) => [i ? ', ' : '', label(name)]), '. '), 'Answers are missing, and it is not known whose.'));
      return;
    }
    const due = result.index === query.latest?.index && query.stopped === null ? query.overdue : null;
    if (due) {
      notice.className = 'notice warn';
      put(notice, icons.overdue(), h('p', null, h('b', null, `Window ${due.index} is overdue since ${clock(due.since, true)} UTC. `),
        due.proxies.length ? ['No end of epoch from ', ...due.proxies.flatMap((name, i) => [i ? ', ' : '', label(name)]), '. '] : '', `What is shown is window ${result.index}, which was ${result.condition}.`));
      return;
    }
    const late = result.final === false ? ' Late answers may still come; the window would then be revised.' : '';
    const revised = result.revision ? ` Revised by late answers (revision ${result.revision}).` : '';
    const notes = (result.notes ?? []).map((text) => ` ${text.charAt(0).toUpperCase()}${text.slice(1)}.`).join('');
    put(notice, icons.info(), h('p', null, `Every proxy marked every epoch.${late}${revised}${notes}`));
  }

  /** @param {boolean} down */
  function drawLegend(down) {
    const projected = look.form === 'projected';
    put(legend,
      key(projected ? 'projected' : 'estimate', projected ? s('path', { class: 'dot', d: 'M12 .5l5.5 5.5l-5.5 5.5l-5.5 -5.5z' }) : s('circle', { class: 'dot', cx: 12, cy: 6, r: 4.75 })),
      key(`${look.conf} % interval`, s('path', { class: 'whisker', d: 'M2 6H22M2 2v8M22 2v8' })),
      down && key('a proxy was down', s('path', { class: 'whisker dashed', d: 'M1 6H23' }), s('path', { class: 'dot', d: 'M12 .5l5.5 9.5h-11z' })),
      projected ? key('unbiased estimate', s('circle', { class: 'dot ghost', cx: 12, cy: 6, r: 3 })) : key('estimate below zero', s('circle', { class: 'dot hollow', cx: 12, cy: 6, r: 4 })),
      key('interval cut at 0: no cap', s('line', { class: 'zero', x1: 4, x2: 4, y1: 0, y2: 12 }), s('path', { class: 'whisker', d: 'M4 6H20M20 2v8' })),
      look.truth.length > 0 && key('truth, which only a demo knows', s('line', { class: 'truth', x1: 12, x2: 12, y1: 0, y2: 12 })));
  }

  /** @param {WindowResult} target */
  function goTo(target, live = false) {
    before = null;
    shown = target;
    look.window = live ? null : target.index;
    note({ window: look.window });
    if (plain()) draw();
    else void refetch();
  }

  /** @param {-1|1} by */
  async function step(by) {
    if (!shown) return;
    const slide = query.schedule.slide, start = shown.start + by * slide;
    const known = [...store.of(query.id).values()].find((each) => each.start === start);
    const newest = store.newest(query.id);
    if (known) return goTo(known, known === newest);
    const page = await get(of(query.id, '/results', { start, end: start + 1, brief: true }));
    const found = page.windows.at(-1);
    if (found) goTo(found, found.index === newest?.index);
  }

  async function stopQuery() {
    if (!confirm(`Stop ${query.id}? Devices will no longer be asked. Answers to the epoch that is running are still counted.`)) return;
    try {
      await call('DELETE', of(query.id, ''));
      await store.refresh();
    } catch (error) {
      if (error instanceof Problem) problem(error);
    }
  }

  const inverted = h('label', { class: 'check' }, h('input', {
    type: 'checkbox', checked: look.inverted, 'data-testid': 'switch-inverted',
    on: { change: (/** @type {Event} */ event) => {
      look.inverted = /** @type {HTMLInputElement} */ (event.target).checked;
      note({ inverted: look.inverted ? 1 : null });
      draw();
      drawSeries();
    } },
  }), 'Inverted');
  const people = query.population === null ? 'The query states no population' : null;
  charts.append(h('div', { class: 'switches' },
    segmented('unit', [['proportions', 'Proportions'], ['counts', 'Counts', people]], people ? 'proportions' : look.unit, change('unit'), 'Proportions or counts'),
    segmented('conf', [['90', '90 %'], ['95', '95 %'], ['99', '99 %']], String(look.conf), change('conf'), 'Confidence'),
    segmented('form', [['raw', 'Raw'], ['projected', 'Projected']], look.form, change('form'), 'Raw or projected'), inverted), bars, legend);
  if (people) look.unit = 'proportions';
  const title = h('h1', { class: 'label' }, query.question || query.id);
  const tools = h('div', { class: 'tools' },
    exportMenu(() => ({ query, result: shown, bars, line, series, look })), h('a', { class: 'btn ghost', href: '#live?side=1', 'data-testid': 'side-by-side' }, 'Side by side'), stop);
  const writeMeta = () => {
    put(meta, h('code', null, query.id), ` version ${query.serial} \u00b7 `, label(query.analyst), ` \u00b7 every ${duration(query.schedule.every)}`);
    stop.hidden = query.stopped !== null || !query.may.includes('stop');
  };
  writeMeta();
  const article = h('article', { class: 'panel' },
    h('div', { class: 'part' }, h('div', { class: 'top' }, h('div', null, title, meta), tools),
      h('div', { class: 'now' }, condition, h('span', null, when, ' UTC'), h('span', null, many, ' answers'),
        h('span', { class: 'step' },
          h('button', { class: 'btn icon ghost', type: 'button', 'aria-label': 'Previous window', 'data-testid': 'window-before', on: { click: () => void step(-1) } }, icons.prev()), which,
          h('button', { class: 'btn icon ghost', type: 'button', 'aria-label': 'Window after', 'data-testid': 'window-after', on: { click: () => void step(1) } }, icons.next()))),
      notice),
    waiting, charts, over, heat.part, shares.part);

  return {
    article,
    aside: side.aside,
    async start() {
      /** @type {WindowResult|null} */ let newest = null;
      try {
        newest = await store.latest(query.id);
      } catch (error) {
        if (error instanceof Problem) problem(error);
        setTimeout(() => { if (article.isConnected) void this.start(); }, RETRY);
        return;
      }
      shown = newest;
      if (look.window !== null && newest && look.window !== newest.index) {
        const start = query.schedule.origin + look.window * query.schedule.slide;
        const page = await get(of(query.id, '/results', { start, end: start + 1, brief: true })).catch(() => ({ windows: [] }));
        shown = page.windows.at(-1) ?? newest;
      }
      draw();
      if (!plain()) void refetch();
      void loadSeries();
      void loadVersions();
    },
    /** @param {WindowResult} result @param {WindowResult|null} old */
    arrived(result, old) {
      if (series && plain()) extend(series, result, old, look.bucket);
      else void loadSeries();
      const follows = look.window === null ? !shown || result.start >= shown.start : result.index === look.window;
      if (follows) {
        before = old?.estimate ? old : null;
        shown = result;
        if (plain()) frame(bars, () => draw());
        else void refetch();
      }
      if (plain()) frame(line, drawSeries);
      if (versions.length && result.serial > Math.max(...versions.map((version) => version.serial))) void loadVersions();
    },
    changed() {
      const fresh = store.queries.get(query.id);
      if (!fresh) return;
      Object.assign(query, fresh);
      writeMeta();
      draw();
    },
    healthChanged() {
      if (shown) shares.show(shown, store.health, query.overdue);
    },
    reload() {
      void loadSeries();
      draw();
    },
  };
}

const MOST_POINTS = 1000, RETRY = 2000;

/**
 * Add a window to a label's series, or replace the one that it revises.
 * @param {Series} series @param {WindowResult} result @param {WindowResult|null} old @param {number} k
 */
export function extend(series, result, old, k) {
  series.before ??= series.start.map(() => null);
  const row = {
    index: result.index, start: result.start, end: result.end, serial: result.serial, condition: result.condition, n: result.n,
    revision: result.revision ?? 0, estimate: result.estimate?.[k] ?? null, low: result.low?.[k] ?? null, high: result.high?.[k] ?? null,
    widest: result.stderr ? Math.max(...result.stderr) : null, before: old?.estimate?.[k] ?? null,
  };
  let at = series.start.length;
  while (at > 0 && series.start[at - 1] >= result.start) at--;
  const replaces = series.start[at] === result.start;
  for (const [name, value] of Object.entries(row)) {
    const column = /** @type {any[]} */ (series[/** @type {keyof Series} */ (name)]);
    if (replaces) column[at] = value;
    else column.splice(at, 0, value);
    if (column.length > MOST_POINTS) column.shift();
  }
}
