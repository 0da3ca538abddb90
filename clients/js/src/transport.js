/** HTTP: a poll carries no token and no cookie, and nothing of a response is trusted. */

import { parsed } from "./bytes.js";

const TIMEOUT = 20_000;
const LARGEST_LIST = 1 << 23;
const MOST_LISTED = 1000;
const MOST_REVOKED = 1024;
const FINAL = [400, 409, 410, 413, 415]; // shares that a proxy will never accept
const EARLY = [404, 422]; // shares that it does not accept yet: unknown query, or its clock is behind
const NOT_MODIFIED = 304;

/** A proxy did not do what it was asked to. */
export class ProxyError extends Error {
  /** @param {string} detail @param {number} [status] @param {number} [retryAfter] seconds */
  constructor(detail, status = 0, retryAfter = 0) {
    super(detail);
    this.name = "ProxyError";
    this.retryAfter = retryAfter;
    this.final = FINAL.includes(status);
    this.early = EARLY.includes(status);
    this.unknownToken = status === 401;
  }
}

/** The body of a response, up to `most` bytes. @param {Response} response @param {number} most */
const bodyOf = async (response, most) => {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let [text, n] = ["", 0];
  for (;;) {
    const part = await reader?.read();
    if (!part || part.done) return text + decoder.decode();
    n += part.value.length;
    if (n > most) {
      await reader?.cancel();
      throw new ProxyError("answered too much");
    }
    text += decoder.decode(part.value, { stream: true });
  }
};

/** @typedef {{queries: string[], skew: number | null, revoked: string[]}} Polled */

/**
 * How bytes travel; tests and simulations supply their own.
 * @typedef {object} Transport
 * @property {(proxy: string) => Promise<Polled>} poll
 * @property {(proxy: string, token: string, body: Uint8Array) => Promise<void>} send
 * @property {(proxy: string, request: object) => Promise<string>} enrol a token
 */

/**
 * @param {typeof fetch} [fetcher]
 * @param {() => number} [clock] milliseconds
 * @returns {Transport}
 */
export const httpTransport = (fetcher = (...given) => fetch(...given), clock = Date.now) => {
  /** @type {Map<string, {tag: string, queries: string[]}>} what each proxy last listed */
  const known = new Map();

  /** @param {string} proxy @param {string} path @param {RequestInit} [request] */
  const ask = async (proxy, path, request) => {
    /** @type {RequestInit} */
    const options = { credentials: "omit", redirect: "error", cache: "no-store", referrerPolicy: "no-referrer", ...request };
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), TIMEOUT);
    try {
      const response = await fetcher(proxy.replace(/\/+$/, "") + path, { ...options, signal: stop.signal });
      const text = await bodyOf(response, LARGEST_LIST);
      if (response.ok || response.status === NOT_MODIFIED) return { response, text };
      const after = response.headers.get("Retry-After") ?? "";
      throw new ProxyError(`answered ${response.status}`, response.status, /^\d{1,7}$/.test(after) ? Number(after) : 0);
    } catch (error) {
      if (error instanceof ProxyError) throw error;
      throw new ProxyError(stop.signal.aborted ? "did not answer in time" : "cannot be reached");
    } finally {
      clearTimeout(timer);
    }
  };

  return {
    async poll(proxy) {
      const last = known.get(proxy);
      /** @type {HeadersInit} */
      const headers = last ? { "If-None-Match": last.tag } : {};
      const { response, text } = await ask(proxy, "/v1/queries", { headers });
      const date = Date.parse(response.headers.get("Date") ?? "");
      const revoked = (response.headers.get("Revoked-Keys") ?? "").match(/(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])/g) ?? [];
      const skew = Number.isNaN(date) ? null : (date - clock()) / 1000;
      const queries = response.status === NOT_MODIFIED && last ? last.queries : readList(text);
      const tag = response.headers.get("ETag");
      if (tag) known.set(proxy, { tag, queries });
      return { queries, skew, revoked: revoked.slice(0, MOST_REVOKED) };
    },
    async send(proxy, token, body) {
      const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/octet-stream" };
      await ask(proxy, "/v1/shares", { method: "POST", headers, body: /** @type {BufferSource} */ (body) });
    },
    async enrol(proxy, request) {
      const headers = { "Content-Type": "application/json" };
      const { text } = await ask(proxy, "/v1/enrol", { method: "POST", headers, body: JSON.stringify(request) });
      const token = parsed(text)?.token;
      if (typeof token !== "string" || !/^[\x20-\x7e]{16,200}$/.test(token)) throw new ProxyError("answered no token");
      return token;
    },
  };
};

/** The signed queries in a proxy's list, each as text; they are not parsed here. @param {string} text */
export const readList = (text) => {
  const tree = parsed(text);
  const listed = Array.isArray(tree) ? tree : tree?.queries;
  if (!Array.isArray(listed) || listed.length > MOST_LISTED) throw new ProxyError("answered no list");
  return listed.map((each) => (typeof each === "string" ? each : JSON.stringify(each)));
};
