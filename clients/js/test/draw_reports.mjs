/**
 * Counts the reports that a mechanism draws, for games: one JSON object per line in (`mechanism`, `k`,
 * `answer`, `n`, and `instantaneous` where there is one), one per line out, from report to count.
 */

import { createInterface } from "node:readline";
import { F64 } from "../src/canonical.js";
import { integer } from "../src/bytes.js";
import { hashed, mechanism, twoSteps } from "../src/mechanisms.js";
import { systemWords } from "../src/words.js";

/** @param {any} value @returns {any} */
const tree = (value) => {
  if (Array.isArray(value)) return value.map(tree);
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, tree(part)]));
  return typeof value === "number" ? new F64(value) : value;
};

for await (const line of createInterface({ input: process.stdin })) {
  const { mechanism: recipe, k, answer, n, instantaneous } = JSON.parse(line);
  const { g, q, fan_outs } = recipe;
  // whole numbers, unlike the parameters that are doubles
  const first = mechanism({ ...tree(recipe), ...(g && { g }), ...(fan_outs && { fan_outs }), ...(recipe.name === "ProjectiveResponse" && { q }) }, k);
  const drawn = instantaneous ? twoSteps(first, k, instantaneous) : first;
  const words = systemWords();
  /** @type {{[report: string]: number}} */
  const counts = {};
  for (let i = 0; i < n; i++) {
    const [report] = drawn.draw([[answer]], words);
    let name = report.join();
    if (recipe.name === "LocalHashing") {
      // Of a seed and a value, what matters is which answers have this value under the seed.
      const [alpha, beta] = [integer(report.subarray(0, 4)), integer(report.subarray(4, 8))];
      name = Array.from({ length: k }, (_, v) => Number(hashed(alpha, beta, v, g, 32n) === report[8])).join();
    }
    counts[name] = (counts[name] ?? 0) + 1;
  }
  process.stdout.write(`${JSON.stringify({ counts, loss: drawn.loss(1) })}\n`);
}
