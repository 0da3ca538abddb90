/** deniable-client: answers signed questions, randomized on this device and split between proxies. */

export { Client, open } from "./client.js";
export { Refusal } from "./signing.js";
export { StoreError, memoryStore } from "./stores/memory.js";
export { indexedDbStore } from "./stores/indexeddb.js";
export { ProxyError, httpTransport } from "./transport.js";
