/** Deliver shares to their proxies: each is sent its own until it acknowledges them, or until they are too old. */

import { concat, unhex } from "./bytes.js";
import { dropExpired, setClock } from "./state.js";
import { ProxyError } from "./transport.js";

/** @typedef {import("./state.js").State} State */
/** @typedef {import("./words.js").Words} Words */

const MOST_RECORDS = 256;
const FIRST_WAIT = 30;
const LONGEST_WAIT = 6 * 3600;
const IF_EARLY = 5; // as after so many failures: up to 16 minutes

/** Seconds until a proxy is tried again: uniform, up to 30 s doubled with each failure in a row, at most 6 h. @param {number} failures @param {Words} words */
const backoff = (failures, words) => 1 + words.below(Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** Math.min(failures, 20)));

/**
 * @typedef {object} Uploaded
 * @property {number} sent
 * @property {number} refused by their proxy for good, and given up
 * @property {number} expired
 * @property {number} waiting
 * @property {string[]} problems
 */

/**
 * Deliver what is due to the proxies that are not in a backoff, all of them at once.
 * @param {import("./client.js").Client} client
 * @returns {Promise<Uploaded>}
 */
export const upload = async (client) => {
  const { now, words } = client;
  /** @type {Uploaded} */
  const out = { sent: 0, refused: 0, expired: 0, waiting: 0, problems: [] };
  if (!(await client.enabled())) return out;

  /** @param {string} proxy */
  const deliver = async (proxy) => {
    const allowed = client.policy.proxies.includes(proxy);
    for (let most = MOST_RECORDS; ; ) {
      const shares = await client.change((state) => {
        const due = state.queue.filter((share) => share.proxy === proxy && share.due <= now);
        due.sort((a, b) => a.due - b.due || a.place - b.place);
        const batch = due.filter((share) => share.record.length === due[0].record.length).slice(0, most);
        if (allowed) for (const share of batch) share.tried = true; // stored before the first byte leaves
        return batch;
      });
      if (!shares.length) return;
      const places = new Set(shares.map((share) => share.place));
      const remove = (/** @type {State} */ state) => {
        state.queue = state.queue.filter((share) => !places.has(share.place));
      };
      try {
        if (!allowed) throw new ProxyError("is not allowed");
        const token = await client.tokenOf(proxy);
        await client.transport.send(proxy, token, concat(...shares.map((share) => unhex(share.record))));
        await client.change((state) => {
          remove(state);
          delete state.proxies[proxy];
        });
        out.sent += shares.length;
      } catch (error) {
        if (!(error instanceof ProxyError)) throw error;
        const aboutAShare = error.final || error.early;
        if (aboutAShare && shares.length > 1) {
          most = 1; // find out which of them it is
          continue;
        }
        out.problems.push(`${proxy} ${error.message}`);
        await client.change((state) => {
          if (error.final) remove(state);
          else if (error.early) {
            for (const share of state.queue) if (places.has(share.place)) share.due = now + backoff(IF_EARLY, words);
          } else leaveAlone(state, proxy, error);
        });
        if (!aboutAShare) return;
        out.refused += Number(error.final);
      }
    }
  };

  /** @param {State} state @param {string} proxy @param {ProxyError} error */
  const leaveAlone = (state, proxy, error) => {
    if (error.unknownToken) delete state.tokens[proxy]; // a device may enrol again
    const failures = state.proxies[proxy]?.failures ?? 0;
    const first = Math.min(...state.queue.filter((share) => share.proxy === proxy).map((share) => share.expires));
    const inTime = Math.max(FIRST_WAIT, Math.floor((first - now) / 2)); // otherwise what waits would be given up first
    const wait = Math.max(Math.min(backoff(failures, words), inTime), Math.min(error.retryAfter, LONGEST_WAIT));
    state.proxies[proxy] = { failures: failures + 1, retryAt: now + wait };
  };

  const proxies = await client.change((state) => {
    setClock(state, now);
    out.expired = dropExpired(state, now);
    const due = state.queue.filter((share) => share.due <= now && !((state.proxies[share.proxy]?.retryAt ?? 0) > now));
    return [...new Set(due.map((share) => share.proxy))].sort();
  });
  await Promise.all(proxies.map(deliver));
  out.waiting = await client.change((state) => state.queue.length);
  return out;
};
