/**
 * The port as `deniable client conformance` runs it: one JSON object per line in, one per line out.
 * `bin/conformance.js` reads and writes them.
 */

import { hex, unhex } from "./bytes.js";
import { answer } from "./device.js";
import { Policy } from "./policy.js";
import { Ring } from "./signing.js";
import { freshState } from "./state.js";
import { scriptedWords } from "./words.js";

/**
 * JSON in which integers that no double holds are big integers: rows may have some.
 * @param {string} text
 */
export const parseRows = (text) => {
  const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g, (token) =>
    /^-?\d{16,}$/.test(token) ? `{"integer":"${token}"}` : token,
  );
  return JSON.parse(marked, (_, value) => (value && typeof value === "object" && "integer" in value ? BigInt(value.integer) : value));
};

/** A device that answers the questions of vectors. */
export class ConformingDevice {
  /** @param {any} question @returns {Promise<{[name: string]: any}>} */
  async answer(question) {
    if (question.fresh) {
      const { proxies, ...settings } = question.policy;
      this.policy = new Policy(settings, proxies);
      this.ring = await Ring.of(question.ring);
      this.state = { ...freshState(null), secret: question.secret };
    }
    if (!this.state || !this.policy || !this.ring) throw new TypeError("the first question must be fresh");
    const { out } = await answer({
      state: this.state,
      ring: this.ring,
      policy: this.policy,
      text: question.query,
      now: question.now,
      words: scriptedWords(unhex(question.random)),
      sourceOf: () => question.rows && { rows: question.rows },
    });
    const lists = { reports: out.reports?.map(hex), messages: out.messages?.map(hex) };
    const shares = out.shares && Object.fromEntries(Object.entries(out.shares).map(([proxy, records]) => [proxy, records.map(hex)]));
    return { ...out, ...lists, shares };
  }
}
