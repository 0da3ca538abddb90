/** Many devices in one page or process, each with a store of its own, that answer epochs ahead of time. */

import { open } from "../src/index.js";

const LATER = 600; // seconds: by then every share is due

/** @typedef {{me: import("../src/client.js").Client, now: number | null}} Member `now` is its clock, in seconds; null for the real one */

/**
 * A device for each distance, on which it is recorded.
 * @param {any} settings @param {number[]} distances @param {(i: number) => import("../src/stores/memory.js").Store} storeOf
 */
export const gather = (settings, distances, storeOf) =>
  Promise.all(
    distances.map(async (distance, i) => {
      const member = /** @type {Member} */ ({ now: null });
      const clock = () => (member.now === null ? Date.now() : 1000 * member.now);
      member.me = await open({ ...settings, store: storeOf(i), clock });
      await member.me.record("trips", { distance });
      return member;
    }),
  );

/**
 * Let every member poll for the query, answer these epochs of it, and upload everything.
 * @param {Member[]} members @param {{id: string, origin: number, every: number, epochs: number}} asked
 * @returns {Promise<string[]>} what came of each epoch and member
 */
export const takePart = async (members, { id, origin, every, epochs }) => {
  const outcomes = await Promise.all(
    members.map(async (member) => {
      const { me } = member;
      const listed = (await me.poll()) ?? [];
      const texts = listed.filter((text) => JSON.parse(JSON.parse(text).query).id === id);
      const receipts = [];
      for (let epoch = 0; epoch < epochs; epoch++) {
        member.now = origin + epoch * every;
        receipts.push(...(await me.answerAll(texts)));
      }
      member.now = origin + epochs * every + LATER;
      const { problems, waiting } = await me.upload();
      if (problems.length || waiting) return [...problems, `${waiting} shares wait`];
      member.now = null;
      return receipts.map((receipt) => receipt.reason || receipt.outcome);
    }),
  );
  return outcomes.flat();
};
