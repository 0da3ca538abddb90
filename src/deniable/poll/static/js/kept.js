// What this browser keeps of a poll beside its answers' shares: the signed poll, so that the page works offline, and a code until it is used.

import { indexedDbStore } from "../client/stores/indexeddb.js";

const nothing = () => ({ changes: 0, document: "", copies: {}, code: "" });

export class Kept {
  constructor(poll) {
    this.store = indexedDbStore(`poll-${poll}`);
  }

  change(work) {
    return this.store.transaction(nothing, work);
  }

  look() {
    return this.change((kept) => ({ ...kept }));
  }
}

/** Let the browser keep the page's own files. Where it cannot, the page works as long as there is a network. */
export const keepPage = () => {
  const policy = globalThis.trustedTypes?.createPolicy("poll", { createScriptURL: (url) => (url === "sw.js" ? url : "") });
  const address = policy ? policy.createScriptURL("sw.js") : "sw.js";
  navigator.serviceWorker?.register(address).catch(() => undefined);
};
