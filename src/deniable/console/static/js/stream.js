// One event stream for all tabs of a browser: one tab holds it and passes on what comes; when it closes, another takes over.

/** @typedef {{kind: 'window'|'health'|'queries'|'state', id: number, data: any}} Message */

const CHANNEL = 'deniable-stream';
const RETRY = 1000;

export class Stream {
  /** @type {EventSource|null} */ #source = null;
  /** @type {BroadcastChannel|null} */ #channel = null;
  #closed = false;
  /** @type {(() => void)|null} */ #release = null;
  #retry = 0;

  /** @param {number} after the newest window that is known @param {(message: Message) => void} receive */
  constructor(after, receive) {
    this.last = after;
    this.open = false;
    this.receive = receive;
    if (navigator.locks && 'BroadcastChannel' in window) this.#share();
    else this.#connect();
  }

  #share() {
    const channel = new BroadcastChannel(CHANNEL);
    this.#channel = channel;
    channel.onmessage = (event) => {
      if (event.data === 'who') {
        if (this.#source) channel.postMessage({ kind: 'state', id: 0, data: this.open });
      } else {
        this.#take(event.data);
      }
    };
    channel.postMessage('who');
    void navigator.locks.request(CHANNEL, () => new Promise((/** @type {(value?: unknown) => void} */ release) => {
      if (this.#closed) return release();
      this.#release = () => release();
      this.#connect();
      return undefined;
    }));
  }

  #connect() {
    if (this.#closed) return;
    const source = new EventSource(`/v1/stream?after=${this.last}`);
    this.#source = source;
    source.onopen = () => this.#pass({ kind: 'state', id: 0, data: true });
    source.onerror = () => {
      this.#pass({ kind: 'state', id: 0, data: false });
      if (source.readyState === EventSource.CLOSED) {
        clearTimeout(this.#retry);
        this.#retry = setTimeout(() => this.#connect(), RETRY);
      }
    };
    for (const kind of /** @type {const} */ (['window', 'health', 'queries'])) {
      source.addEventListener(kind, (event) => {
        this.#pass({ kind, id: Number(event.lastEventId) || 0, data: JSON.parse(event.data) });
      });
    }
  }

  /** @param {Message} message */
  #pass(message) {
    this.#channel?.postMessage(message);
    this.#take(message);
  }

  /** @param {Message} message */
  #take(message) {
    if (message.kind === 'state') this.open = message.data;
    else this.open = true;
    if (message.id) this.last = Math.max(this.last, message.id);
    this.receive(message);
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#channel?.close();
    this.#release?.();
  }
}
