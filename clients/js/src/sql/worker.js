/** The worker of a browser. */

import { serve } from "./serve.js";

const port = /** @type {{postMessage: (message: any) => void, addEventListener: (kind: string, listener: (event: MessageEvent) => void) => void}} */ (/** @type {unknown} */ (globalThis));
serve(port.postMessage.bind(globalThis), (listener) => port.addEventListener("message", ({ data }) => listener(data)));
