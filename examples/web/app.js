/** A page that records trips, and answers questions about them that its owner's ring trusts. */

import { open } from "deniable-client";

/** @param {string} name */
const element = (name) => document.querySelector(`[data-testid="${name}"]`);

/** A receipt in one sentence. It says that an answer was given, never what it was. */
const sentence = ({ analyst, question, outcome, reason, epsilon, epoch }) => {
  const asked = analyst ? `${analyst} asked: ${question || "a question without words"}.` : "A query was not trusted.";
  if (outcome === "answered") return `${asked} Answered for epoch ${epoch}, randomized; it cost ${epsilon.toFixed(3)}.`;
  return reason ? `${asked} Refused (${reason}); nothing was sent.` : `${asked} Not answered: ${outcome}.`;
};

const show = async () => {
  const receipts = await me.receipts();
  element("receipts").replaceChildren(
    ...receipts.map((receipt) => Object.assign(document.createElement("li"), { textContent: sentence(receipt) })),
  );
  element("enabled").checked = await me.enabled();
  element("status").textContent = me.lost
    ? "The browser deleted this page's data; what was spent before is not known."
    : `Ready; ${me.persistent ? "the browser will keep" : "the browser may delete"} what is stored here.`;
  document.documentElement.dataset.ready = "yes";
};

// Which proxies may receive shares, whose questions are trusted, and what answers may cost: the app's choice.
const settings = await (await fetch("settings.json")).json();
const me = await open(settings);
globalThis.me = me;

element("trip").addEventListener("submit", async (event) => {
  event.preventDefault();
  await me.record("trips", { distance: Number(new FormData(event.target).get("distance")) });
  event.target.reset();
});
element("answer").addEventListener("click", async () => {
  await me.answerAll();
  await show();
});
element("enabled").addEventListener("change", async (event) => {
  await me.setEnabled(event.target.checked);
  await show();
});
await show();
