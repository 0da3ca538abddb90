// The link's fragment, and whether what the page was served is what it names.

import { keyedHash } from "../client/blake2b.js";
import { digest, hex, parsed, unhex, utf8 } from "../client/bytes.js";

const FRAGMENT = /^#([A-Z2-7]{26}),([A-Z2-7]{26})(?:,([A-Z2-7]{20}))?$/;
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const FORMAT = "deniable poll 1";
const LARGEST = 1 << 20;

/** 130 bits of a digest in base32. */
const fingerprint = async (separator, content) => {
  const bytes = await digest("SHA-256", utf8(`${separator}\0`), content);
  let [out, bits, held] = ["", 0, 0];
  for (const byte of bytes) {
    held = (held << 8) | byte;
    for (bits += 8; bits >= 5; bits -= 5) out += LETTERS[(held >> (bits - 5)) & 31];
    held &= 255;
  }
  return out.slice(0, 26);
};

/** What the address says; a code leaves the address bar at once. */
export const readLink = () => {
  const found = FRAGMENT.exec(location.hash);
  if (!found) return null;
  const [, key, poll, code = ""] = found;
  if (code) history.replaceState(history.state, "", `${location.pathname}#${key},${poll}`);
  return { key, poll, code };
};

/** What the page's host serves; null if it does not reply. */
const served = async () => {
  try {
    const response = await fetch("poll.json", { credentials: "omit", redirect: "error", cache: "no-store" });
    return response.ok ? new Uint8Array(await response.arrayBuffer()) : null;
  } catch {
    return null;
  }
};

/** The poll's document, or what is wrong with it; null if there is none. Without a network it is the one that was kept. */
export const fetchDocument = async (link, kept) => {
  const content = (await served()) ?? (kept && utf8(kept));
  if (!content) return null;
  const document = content.length > LARGEST ? null : parsed(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content));
  if ((await fingerprint(FORMAT, content)) !== link.poll || document?.format !== FORMAT) return { fault: "badPage" };
  const print = await fingerprint("deniable key 1", unhex(document.key.public));
  return print === link.key ? { document, content } : { fault: "badKey", print };
};

/** What a proxy is shown in place of the code: another text for each proxy and question, by a one-way function. */
export const invitationOf = (code, proxy, query) =>
  hex(keyedHash(utf8(code), utf8(`deniable poll code 1\0${proxy}\0${query}`))(new Uint8Array()));
