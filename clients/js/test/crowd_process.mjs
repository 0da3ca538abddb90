/** Devices in Node for tests of the whole system: one JSON object per line in, one per line out. */

import { createInterface } from "node:readline";
import { memoryStore } from "../src/index.js";
import { gather, takePart } from "./crowd.js";

/** @type {import("./crowd.js").Member[]} */
let members = [];
for await (const line of createInterface({ input: process.stdin })) {
  const { settings, distances, ...asked } = JSON.parse(line);
  if (settings) members = await gather(settings, distances, memoryStore);
  console.log(JSON.stringify(settings ? members.length : await takePart(members, asked)));
}
