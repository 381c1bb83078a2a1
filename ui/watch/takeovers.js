// Takeovers in an address (see ui/streaming/takeovers.py), and as they grow while a visitor plays. No page is needed for it.

/**
 * Steps in a row that a visitor played.
 * @typedef {{ step: number, runs: { action: number, count: number }[] }} Takeover
 */

export const MOST_LETTERS = 4000;
const FIRST_ACTION = "a".charCodeAt(0);

/**
 * @param {string} [text]
 * @returns {Takeover[]}
 */
export function read(text) {
  if (!text) return [];
  return text.split("-").map((part) => {
    const [step, runs] = part.split(".");
    const counted = [...runs.matchAll(/([a-z])([0-9]*)/g)];
    return { step: Number(step), runs: counted.map(([, letter, count]) => ({ action: letter.charCodeAt(0) - FIRST_ACTION, count: Number(count || 1) })) };
  });
}

/** @param {Takeover[]} takeovers */
export function written(takeovers) {
  const run = ({ action, count }) => String.fromCharCode(FIRST_ACTION + action) + (count > 1 ? count : "");
  return takeovers.map(({ step, runs }) => `${step}.${runs.map(run).join("")}`).join("-");
}

/**
 * The first step after a takeover.
 * @param {Takeover} takeover
 */
export const endOf = ({ step, runs }) => runs.reduce((end, { count }) => end + count, step);

/**
 * What was played by hand before a step.
 * @param {Takeover[]} takeovers
 * @param {number} step
 */
export function until(takeovers, step) {
  const kept = [];
  for (const takeover of takeovers) {
    let at = takeover.step;
    const runs = [];
    for (const { action, count } of takeover.runs) {
      if (at < step) runs.push({ action, count: Math.min(count, step - at) });
      at += count;
    }
    if (runs.length) kept.push({ step: takeover.step, runs });
  }
  return kept;
}

/**
 * Adds a step that a visitor played, the latest of all.
 * @param {Takeover[]} takeovers
 * @param {number} step
 * @param {number} action
 */
export function add(takeovers, step, action) {
  const last = takeovers.at(-1);
  if (!last || endOf(last) !== step) takeovers.push({ step, runs: [{ action, count: 1 }] });
  else if (last.runs.at(-1).action === action) last.runs.at(-1).count += 1;
  else last.runs.push({ action, count: 1 });
}
