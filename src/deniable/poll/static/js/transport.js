// How shares leave: with a code, both in one request, which may be sent again; in an open poll under a token that anyone gets.

import { parsed } from "../client/bytes.js";
import { ProxyError, httpTransport } from "../client/transport.js";

const TIMEOUT = 20_000;
const USED = ["invitation", "token_used"];

const base64 = (bytes) => btoa(String.fromCharCode(...bytes));

/** `refused` gets the reason of each refusal. */
export const pollTransport = (withCode, refused) => {
  const http = httpTransport();
  const post = async (proxy, body) => {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), TIMEOUT);
    const request = { method: "POST", body, credentials: "omit", redirect: "error", cache: "no-store", referrerPolicy: "no-referrer", keepalive: true };
    try {
      const response = await fetch(`${proxy}/v1/answers`, { ...request, headers: { "Content-Type": "text/plain" }, signal: stop.signal });
      if (response.ok) return;
      const { reason } = parsed(await response.text()) ?? {};
      const used = response.status !== 429 && USED.includes(reason);
      refused(proxy, used ? "used" : String(response.status));
      throw new ProxyError(`answered ${response.status}`, response.status);
    } catch (error) {
      if (error instanceof ProxyError) throw error;
      throw new ProxyError("cannot be reached");
    } finally {
      clearTimeout(timer);
    }
  };
  if (!withCode) {
    const watched = async (proxy, work) => {
      try {
        return await work;
      } catch (error) {
        if (error instanceof ProxyError && error.final) refused(proxy, "410");
        throw error;
      }
    };
    return { ...http, send: (proxy, ...given) => watched(proxy, http.send(proxy, ...given)) };
  }
  return {
    ...http,
    enrol: async (_, { invitation }) => invitation,
    send: (proxy, invitation, body) => post(proxy, JSON.stringify({ invitation, shares: base64(body) })),
  };
};
