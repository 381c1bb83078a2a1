// The settings of a training in the page's address, and back from there. The component's value is what a lesson says.
import { onReturn, tell } from "../address.js";

/** @param {import("../chunk.js").Host} host */
export function mount({ trigger }) {
  onReturn("retrain", (asked) => trigger("visit", { query: String(asked) }));
}

/**
 * Tells the address what differs from the shipped settings, which are given by game.
 * @param {Record<string, Record<string, number | string>>} shipped
 * @param {string} game
 * @param {(number | string | null)[]} values in the order of those
 */
export function note(shipped, game, ...values) {
  const changed = Object.entries(shipped[game] ?? {}).map(([field, usual], i) => [field, values[i] === usual ? null : values[i]]);
  tell("retrain", { tab: "retrain", game }, Object.fromEntries(changed));
}
