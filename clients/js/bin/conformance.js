#!/usr/bin/env node
/** `deniable client conformance tests/vectors/client-v1.json -- node clients/js/bin/conformance.js` */

import { createInterface } from "node:readline";
import { ConformingDevice, parseRows } from "../src/conformance.js";

const device = new ConformingDevice();
for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await device.answer(parseRows(line)))}\n`);
}
