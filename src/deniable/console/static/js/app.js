// The frame around the views: the bar, signing in, the theme, and which view the address asks for.

import { read } from './address.js';
import { Problem, current, resume, signIn, signOut } from './api.js';
import { badge, h, put, say } from './dom.js';
import { live } from './live.js';
import { ago } from './numbers.js';
import { store } from './store.js';
import { logo, restoreTheme, themeButton } from './theme.js';

/** @typedef {{state: URLSearchParams}} Context */
/** @typedef {(main: HTMLElement, context: Context) => (() => void)|void|Promise<(() => void)|void>} View */

/** @type {Record<string, {title: string, open: boolean, load: () => Promise<View>}>} */
const VIEWS = {
  live: { title: 'Live', open: false, load: async () => live },
  ask: { title: 'Ask', open: false, load: async () => (await import('./ask.js')).ask },
  look: { title: 'Look back', open: false, load: async () => (await import('./look.js')).look },
  public: { title: 'Public', open: true, load: async () => (await import('./public.js')).openToAll },
};

const bar = /** @type {HTMLElement} */ (document.getElementById('bar'));
const main = /** @type {HTMLElement} */ (document.getElementById('main'));
const root = document.documentElement;

const state = h('span', { class: 'link', 'data-testid': 'connection' }, h('i'), h('span'));
function connection() {
  const [dot, text] = /** @type {HTMLElement[]} */ ([...state.children]);
  dot.classList.toggle('hollow', !store.connected);
  const newest = [...store.queries.values()].reduce((most, query) => Math.max(most, query.latest?.end ?? 0), 0);
  const since = newest ? Date.now() / 1000 - newest : null;
  const late = [...store.queries.values()].filter((query) => query.stopped === null && query.overdue).length;
  dot.classList.toggle('late', store.connected && late > 0);
  if (store.connected && late) return say(text, late === 1 ? '1 query overdue' : `${late} queries overdue`);  // no longer than the others: the bar must not shift
  const what = store.connected ? 'live' : 'reconnecting';
  say(text, since === null ? what : `${what}, last window ${ago(since)} ago`);
}

/** @param {string} name */
function head(name) {
  const session = current();
  const tabs = Object.entries(VIEWS).map(([id, view]) =>
    h('a', { href: `#${id}`, 'aria-current': id === name ? 'page' : null, 'data-testid': `tab-${id}` }, view.title));
  const who = session
    ? h('button', { class: 'btn ghost who', type: 'button', title: 'Sign out', 'data-testid': 'sign-out', on: { click: () => void leave() } }, h('span', null, h('span', { class: 'label' }, session.name), `, ${session.role}`))
    : h('a', { class: 'who', href: '#live' }, 'Sign in');
  put(bar, h('a', { class: 'brand', href: '#live' }, logo(), 'deniable'), h('nav', { class: 'tabs', 'aria-label': 'Views' }, tabs),
    h('div', { class: 'push' }, session ? state : h('span', { class: 'link' }, 'open to everyone'), themeButton(), who));
  connection();
}

async function leave() {
  await signOut().catch(() => undefined);
  store.stop();
  await show();
}

/** @param {string} [problem] */
function askForToken(problem = '') {
  const field = h('input', { class: 'field', type: 'password', name: 'token', autocomplete: 'current-password', required: true, 'data-testid': 'token', 'aria-describedby': 'sign-in-problem' });
  const wrong = h('p', { class: 'small bad-text', id: 'sign-in-problem', role: 'alert', 'data-testid': 'sign-in-problem' }, problem);
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      await signIn(field.value);
      await show();
    } catch (error) {
      say(wrong, error instanceof Problem ? error.message : 'This did not work.');
      field.select();
    }
  };
  main.className = 'view sign-in';
  put(main, h('form', { class: 'panel', 'data-testid': 'sign-in', on: { submit: (/** @type {Event} */ event) => void send(event) } },
    h('div', { class: 'part stack' }, h('h1', null, 'Sign in'),
      h('p', { class: 'small muted' }, 'With a token of this aggregator, for an analyst or a reader: ', h('code', null, 'deniable aggregator token')),
      h('label', { class: 'lbl' }, h('span', null, 'Token'), field), wrong,
      h('button', { class: 'btn primary', type: 'submit' }, 'Sign in'))));
  field.focus();
}

/** @type {(() => void)|void} */
let close;
let shown = 0;

/** Show the view of the address. */
async function show() {
  const turn = ++shown;
  const { name, state: given } = read();
  const view = VIEWS[name] ?? VIEWS.live;
  close?.();
  close = undefined;
  delete root.dataset.ready;
  try {
    if (name === 'sign-in') return await signInOnce(given);
    const session = current() ?? (await resume());
    if (turn !== shown) return;
    head(name);
    document.title = `${view.title} \u2013 deniable`;
    if (!session && !view.open) return askForToken();
    const [draw] = await Promise.all([view.load(), session ? store.start() : null]);
    if (turn !== shown) return;
    main.className = `view ${name}`;
    put(main);
    const closing = await draw(main, { state: given });
    if (turn === shown) close = closing;
    else closing?.();
  } catch (error) {
    if (turn === shown) failed(error);
  }
}

/** The address that a demonstration opens has its token: it is taken out of the address before anything else is shown. @param {URLSearchParams} given */
async function signInOnce(given) {
  const token = given.get('token') ?? '', rest = new URLSearchParams([...given].filter(([key]) => key !== 'token'));
  history.replaceState(null, '', `#live${rest.size ? `?${rest}` : ''}`);
  await signIn(token).catch(() => undefined);
  await show();
}

/** What went wrong, where the data would be. @param {unknown} error */
function failed(error) {
  const text = error instanceof Problem ? error.message : String(error);
  main.className = 'view sign-in';
  put(main, h('section', { class: 'panel' }, h('div', { class: 'part stack', role: 'alert', 'data-testid': 'failed' },
    h('h1', null, 'This cannot be shown'), h('p', null, badge('refused', text)),
    h('button', { class: 'btn', type: 'button', on: { click: () => void show() } }, 'Retry'))));
  if (error instanceof Problem && (error.status === 0 || error.status >= 500)) showOnceBack(shown);
}

/** Ask quietly until the aggregator answers, then draw: the message keeps its place and is announced once. @param {number} turn */
function showOnceBack(turn) {
  setTimeout(() => {
    if (turn === shown) resume().then(show, () => showOnceBack(turn));
  }, 1000);
}

/** A stream that breaks off: the aggregator is away, or the token was revoked and one has to sign in again. */
async function checkSession() {
  if (store.connected || !store.stream || (await resume())) return;
  store.stop();
  await show();
}

const announced = /** @type {HTMLElement} */ (document.getElementById('announce'));
let spoken = 0;
store.addEventListener('window', (event) => {
  const { result } = /** @type {CustomEvent} */ (event).detail;
  if (read().state.get('q') !== result.query || Date.now() - spoken < 10_000) return;
  spoken = Date.now();
  say(announced, `Window ${result.index}: ${result.n.toLocaleString('en-US')} answers, ${result.condition}`);
});
for (const kind of ['connection', 'window', 'queries']) store.addEventListener(kind, connection);
store.addEventListener('connection', () => void checkSession().catch(() => undefined));
setInterval(connection, 1000);
document.addEventListener('signed-out', () => {
  if (!current()) return;
  store.stop();
  void resume().then(show);
});
addEventListener('hashchange', () => void show());
restoreTheme();
void show();
