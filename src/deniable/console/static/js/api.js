// The documented interface. A page sends its cookie, and with every change the word that only our own pages can read.

/** @typedef {import('./types.js').Session} Session */

/** A refusal, as the problem document tells it. */
export class Problem extends Error {
  /** @param {number} status @param {string} reason @param {string} detail */
  constructor(status, reason, detail) {
    super(detail);
    this.status = status;
    this.reason = reason;
  }
}

/** @type {Session|null} */
let session = null;
export const current = () => session;

/** @param {Response} answer */
async function problem(answer) {
  try {
    const told = await answer.json();
    return new Problem(answer.status, String(told.reason), String(told.detail));
  } catch {
    return new Problem(answer.status, 'unknown', `The server answered ${answer.status}.`);
  }
}

/**
 * @param {string} method @param {string} address @param {unknown} [body] @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function call(method, address, body, signal) {
  /** @type {Record<string, string>} */
  const headers = {};
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (session && method !== 'GET') headers['X-Deniable-CSRF'] = session.csrf;
  let answer;
  try {
    answer = await fetch(address, {
      method, headers, signal, credentials: 'same-origin', cache: 'no-store',
      body: body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, 'away', 'The aggregator cannot be reached.');
  }
  if (!answer.ok) {
    const found = await problem(answer);
    if (found.status === 401 && address !== '/v1/session') document.dispatchEvent(new Event('signed-out'));
    throw found;
  }
  return answer.status === 204 ? null : answer.json();
}

/** @param {string} address @param {AbortSignal} [signal] */
export const get = (address, signal) => call('GET', address, undefined, signal);

/** The address of a query's resource. @param {string} id @param {string} rest @param {Record<string, unknown>} [parameters] */
export function of(id, rest, parameters = {}) {
  const given = Object.entries(parameters).filter(([, v]) => v !== null && v !== undefined);
  const asked = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return `/v1/queries/${encodeURIComponent(id)}${rest}${given.length ? `?${asked}` : ''}`;
}

/** Whose page this is; null if nobody has signed in. @returns {Promise<Session|null>} */
export async function resume() {
  try {
    session = await get('/v1/session');
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 401) throw error;
    session = null;
  }
  return session;
}

/** @param {string} token @returns {Promise<Session>} */
export async function signIn(token) {
  session = /** @type {Session} */ (await call('PUT', '/v1/session', { token }));
  return session;
}

export async function signOut() {
  await call('DELETE', '/v1/session');
  session = null;
}

/** Only the answer to the latest question counts. */
export function latestOnly() {
  let controller = new AbortController();
  return () => {
    controller.abort();
    controller = new AbortController();
    return controller.signal;
  };
}
