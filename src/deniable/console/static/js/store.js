// What the page knows: the list of queries, the newest windows, the proxies' health. The stream stores; views draw in their frame.

import { get, of } from './api.js';
import { Stream } from './stream.js';

/** @typedef {import('./types.js').Query} Query */
/** @typedef {import('./types.js').WindowResult} WindowResult */
/** @typedef {import('./types.js').Health} Health */

const MOST_KEPT = 1000;

class Store extends EventTarget {
  /** @type {Map<string, Query>} */ queries = new Map();
  /** @type {Map<string, Map<number, WindowResult>>} */ windows = new Map();
  /** @type {Health|null} */ health = null;
  /** @type {Stream|null} */ stream = null;
  connected = false;
  lastEvent = 0;
  heard = 0;
  #version = '';

  /** Load the list, and follow what comes. */
  async start() {
    await this.refresh();
    if (this.stream) return;
    const newest = [...this.queries.values()].reduce((most, query) => Math.max(most, query.latest?.number ?? 0), 0);
    this.stream = new Stream(newest, (message) => this.#receive(message));
    this.heard = Date.now();
  }

  stop() {
    this.stream?.close();
    this.stream = null;
    this.connected = false;
    this.queries.clear();
    this.windows.clear();
  }

  async refresh() {
    /** @type {Query[]} */
    const list = await get('/v1/queries');
    const order = list.sort((a, b) => Number(a.stopped !== null) - Number(b.stopped !== null) || b.published - a.published);
    this.queries = new Map(order.map((query) => [query.id, query]));
    this.dispatchEvent(new Event('queries'));
  }

  /** @param {string} id @returns {Map<number, WindowResult>} */
  of(id) {
    let found = this.windows.get(id);
    if (!found) this.windows.set(id, (found = new Map()));
    return found;
  }

  /** The newest window that is known. @param {string} id @returns {WindowResult|null} */
  newest(id) {
    let found = null;
    for (const each of this.of(id).values()) if (!found || each.start > found.start) found = each;
    return found;
  }

  /** @param {WindowResult} result @returns {WindowResult|null} what it replaces */
  keep(result) {
    const known = this.of(result.query);
    const before = known.get(result.index) ?? null;
    if (before && before.number > result.number) return before;
    known.set(result.index, result);
    if (known.size > MOST_KEPT) known.delete(/** @type {number} */ (known.keys().next().value));
    return before === result ? null : before;
  }

  /** The newest window, from the server if it is not here yet. @param {string} id @returns {Promise<WindowResult|null>} */
  async latest(id) {
    const known = this.newest(id);
    const told = this.queries.get(id)?.latest;
    if (known && (!told || known.index >= told.index)) return known;
    if (!told) return null;
    const result = await get(of(id, '/results/latest', { brief: true }));
    this.keep(result);
    return this.newest(id);
  }

  /** @param {import('./stream.js').Message} message */
  #receive(message) {
    this.heard = Date.now();
    if (message.kind === 'state') {
      const was = this.connected;
      this.connected = message.data;
      if (this.connected && !was) void this.refresh().catch(() => undefined);
      this.dispatchEvent(new Event('connection'));
      return;
    }
    if (!this.connected) {
      this.connected = true;
      this.dispatchEvent(new Event('connection'));
    }
    if (message.kind === 'health') {
      this.health = message.data;
      this.dispatchEvent(new Event('health'));
    } else if (message.kind === 'queries') {
      if (this.#version && this.#version !== message.data.version) void this.refresh().catch(() => undefined);
      this.#version = message.data.version;
    } else {
      /** @type {WindowResult} */
      const result = message.data;
      const before = this.keep(result);
      const query = this.queries.get(result.query);
      if (query && (!query.latest || query.latest.start <= result.start)) {
        const { number, index, start, start_time, end, end_time, condition, n } = result;
        query.latest = { number, index, start, start_time, end, end_time, condition, n };
        if (query.overdue && query.overdue.index <= index) query.overdue = null;
      }
      this.lastEvent = Math.max(this.lastEvent, message.id);
      document.documentElement.dataset.lastEvent = String(this.lastEvent);
      this.dispatchEvent(new CustomEvent('window', { detail: { result, before } }));
    }
  }
}

export const store = new Store();
