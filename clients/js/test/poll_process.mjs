/** People in Node who answer a poll: one JSON object in, what came of each of them out. Every second one tosses by hand. */

import { text as read } from "node:stream/consumers";
import { memoryStore, open } from "../src/index.js";
import { systemWords } from "../src/words.js";

const { proxies, ring, text, truths } = JSON.parse(await read(process.stdin));
const AT_ONCE = 16;
const byHand = Object.assign(systemWords(), { coin: () => 1 }); // what is said is sent as it is
const tossed = () => crypto.getRandomValues(new Uint8Array(1))[0] & 1;

/** @param {number} place @param {number} i */
const answer = async (place, i) => {
  const hand = i % 2 === 1;
  const said = hand && tossed() ? tossed() : place;
  const query = JSON.parse(JSON.parse(text).query);
  const [first] = query.columns[0].buckets;
  const me = await open({
    proxies, ring, store: memoryStore(), firstEpoch: "now",
    policy: { upload_within: 1, slot: 0, limits: [], epsilon_per_answer: 20 },
    rows: () => ({ rows: [[said ? null : first]] }),
    ...(hand ? { words: byHand } : {}),
  });
  await me.setEnabled(true);
  const [receipt] = await me.answerAll([text]);
  for (let round = 0; round < 20; round++) {
    const { waiting } = await me.upload();
    if (!waiting) return receipt.outcome;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  return "waiting";
};

const outcomes = [];
for (let i = 0; i < truths.length; i += AT_ONCE) {
  outcomes.push(...(await Promise.all(truths.slice(i, i + AT_ONCE).map((place, j) => answer(place, i + j)))));
}
console.log(JSON.stringify(outcomes));
