/** The worker of Node. */

import { parentPort } from "node:worker_threads";
import { serve } from "./serve.js";

const port = /** @type {import("node:worker_threads").MessagePort} */ (parentPort);
serve(port.postMessage.bind(port), (listener) => port.on("message", listener));
