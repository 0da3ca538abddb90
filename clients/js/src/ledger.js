/** The ledger: what was charged, what may still be, and why a device stays silent. Sums are exact. */

import { Fraction, ZERO } from "./fraction.js";
import { stop } from "./signing.js";

/** @typedef {import("./policy.js").Policy} Policy */
/** @typedef {import("./query.js").Query} Query */
/** @typedef {import("./state.js").State} State */
/** @typedef {State["charges"][number]} Charge */

/** @param {Charge[]} charges */
const total = (charges) => charges.reduce((sum, charge) => sum.plus(Fraction.parse(charge.epsilon)), ZERO);

/** What counts against a limit if `analyst` asks now. @param {Policy["limits"][number]} limit @param {Charge[]} charges @param {string} analyst @param {number} now */
const counted = (limit, charges, analyst, now) =>
  total(
    charges.filter(
      (charge) =>
        (limit.period === null || charge.time > now - limit.period) &&
        (limit.each_analyst ? charge.analyst === analyst : limit.analyst === null || limit.analyst === charge.analyst),
    ),
  );

/** @param {Policy} policy @param {string} analyst */
const covering = (policy, analyst) => policy.limits.filter((limit) => limit.analyst === null || limit.analyst === analyst);

/** What is left for an analyst under all limits; null if there are none. @param {State} state @param {Policy} policy @param {string} analyst @param {number} now */
export const left = (state, policy, analyst, now) => {
  const rooms = covering(policy, analyst).map((limit) => limit.epsilon.minus(counted(limit, state.charges, analyst, now)));
  return rooms.length ? rooms.reduce((least, room) => (least.exceeds(room) ? room : least)) : null;
};

/**
 * What an answer costs, decided before the data are read. A memoized question is paid for in advance:
 * all permanent answers that its slots may ever draw, once; a later total replaces the earlier one.
 * @param {State} state @param {Policy} policy @param {Query} query @param {string | null} scope @param {number} now
 */
export const payment = (state, policy, query, scope, now) => {
  const { analyst, id, budget } = query.given;
  let [sum, before] = [query.cost, ZERO];
  /** @type {{[slot: string]: number}} */
  const slots = {};
  if (scope !== null) {
    before = total(state.charges.filter((charge) => charge.scope === scope));
    Object.assign(slots, state.reserves[scope]);
    for (let slot = 0; slot < query.mostRows; slot++) slots[slot] = Math.max(query.distinct, slots[slot] ?? 0);
    const paid = Object.values(slots).reduce((n, each) => n + each, 0);
    sum = query.rowCost.times(new Fraction(BigInt(paid)));
  }
  const cost = sum.minus(before);
  const due = cost.n > 0n || query.distinct > 1;
  if (due) {
    const spent = total(state.charges.filter((charge) => charge.analyst === analyst && charge.query === id));
    if (budget.epsilon !== null && spent.plus(cost).exceeds(Fraction.parse(budget.epsilon))) {
      stop("budget", budget.epsilon);
    }
    const others = scope === null ? state.charges : state.charges.filter((charge) => charge.scope !== scope);
    for (const limit of covering(policy, analyst)) {
      if (counted(limit, others, analyst, now).plus(sum).exceeds(limit.epsilon)) {
        stop("budget", limit.epsilon.double);
      }
    }
  }
  /** Record the charge; its place, if it is for this answer alone. */
  const make = () => {
    if (!due) return null;
    if (scope !== null) {
      state.charges = state.charges.filter((charge) => charge.scope !== scope);
      state.reserves[scope] = slots;
    }
    const place = state.next++;
    state.charges.push({ place, time: now, analyst, query: id, epsilon: sum.toString(), scope });
    return scope === null ? place : null;
  };
  return { cost, make };
};
