// The page's address is its state. Each tab tells what it shows, and the address is that of the tab in front. Another game,
// agent or tab is another entry of the browser's history; while a game moves, its entry follows.
import { tabInFront, THEME } from "./gradio_internals.js";

const PAUSE = 1000; // milliseconds between two changes of an entry: browsers refuse more than a few a second
const FRAME = "https://huggingface.co"; // where a Space's page is, in whose frame the app is

/**
 * What a tab shows: `what` makes an entry of its own, `moment` changes within it.
 * @typedef {{ what: string, moment: string, hash: string }} State
 */

/** @typedef {Record<string, string | number | null | undefined>} Parts */

const states = /** @type {Map<string, State>} */ (new Map());
const returns = /** @type {Map<string, (asked: URLSearchParams, hash: string) => void>} */ (new Map());
let front = tabOf(new URL(location.href).searchParams);
let shown = ""; // the tab that the page has in front; none before it begins
let returning = /** @type {string[]} */ ([]); // tabs that a return has asked for and that are not in front yet
let timer = 0;
let open = (/** @type {string} */ _tab) => {};
let waits = /** @type {boolean | undefined} */ (undefined); // until the server has been asked what the address names, which stays as it is for so long

/**
 * The tab that an address belongs to.
 * @param {URLSearchParams} asked
 */
export function tabOf(asked) {
  return ["play", "zoo"].find((tab) => asked.has(tab)) ?? asked.get("tab") ?? "watch";
}

/**
 * Parts of an address, without those that say nothing.
 * @param {Parts | URLSearchParams} parts
 */
export function written(parts) {
  const entries = parts instanceof URLSearchParams ? [...parts] : Object.entries(parts);
  return String(new URLSearchParams(entries.filter(([, value]) => value !== undefined && value !== null).map(([name, value]) => [name, String(value)])));
}

/**
 * A tab shows something else, or another moment of the same.
 * @param {string} tab
 * @param {Parts | URLSearchParams} what
 * @param {Parts} moment
 * @param {string} hash
 */
export function tell(tab, what, moment = {}, hash = "") {
  const before = states.get(tab);
  const now = { what: written(what), moment: written(moment), hash };
  const other = before && (before.what !== now.what || before.hash !== now.hash);
  if (other && tab === front && !waits) {
    settle(); // the entry that is left keeps its last moment
    states.set(tab, now);
    write("pushState", now);
    return;
  }
  states.set(tab, now);
  if (tab !== front) return;
  if (!before) settle(); // the address may have named only a part of it
  else timer ||= Number(setTimeout(settle, PAUSE));
}

/**
 * A tab has come to the front, or had: the event may be late.
 * @param {string} tab
 */
export function bring(tab) {
  const first = !shown;
  shown = tabInFront() ?? tab;
  if (first) return; // where every page begins, before it has read its address
  const late = returning.lastIndexOf(tab); // the server opens tabs, and the visitor may have gone further meanwhile
  returning = returning.slice(late + 1);
  if (tab === front || tab !== shown) return;
  if (late >= 0) {
    if (!returning.length) reopen();
    return;
  }
  settle();
  front = tab;
  write("pushState", states.get(tab) ?? { what: written({ tab }), moment: "", hash: "" });
}

// The tab that the visitor has gone back to.
function reopen() {
  returning.push(front);
  open(front);
}

/**
 * Calls `act` when the visitor goes back, or forth, to something else of that tab.
 * @param {string} tab
 * @param {(asked: URLSearchParams, hash: string) => void} act
 */
export function onReturn(tab, act) {
  returns.set(tab, act);
}

/** Opens a tab, where the page has any. */
export const openTab = (/** @type {string} */ tab) => open(tab);

/** The address of what is in front, as it is handed on. */
export function shared() {
  settle();
  const address = new URL(location.href);
  address.searchParams.delete(THEME);
  return address.href;
}

// The address follows what is in front.
function settle() {
  clearTimeout(timer);
  timer = 0;
  const state = states.get(front);
  if (!waits && state && hrefOf(state) !== location.href) write("replaceState", state);
}

/** @param {State} state */
function hrefOf({ what, moment, hash }) {
  const address = new URL(location.href);
  const theme = address.searchParams.get(THEME);
  address.search = [what, moment, theme ? written({ [THEME]: theme }) : ""].filter(Boolean).join("&");
  address.hash = hash;
  return address.href;
}

/**
 * @param {"pushState" | "replaceState"} how
 * @param {State} state
 */
function write(how, state) {
  history[how](state, "", hrefOf(state));
  const framed = window.parent !== window && location.hostname.endsWith(".hf.space");
  if (framed) window.parent.postMessage({ queryString: [state.what, state.moment].filter(Boolean).join("&"), hash: state.hash }, FRAME);
}

addEventListener("popstate", ({ state }) => {
  clearTimeout(timer);
  timer = 0;
  const { searchParams, hash } = new URL(location.href);
  front = tabOf(searchParams);
  states.set(front, state ?? { what: written(searchParams), moment: "", hash: hash.slice(1) });
  if (front !== shown || returning.length) reopen();
  searchParams.delete(THEME);
  returns.get(front)?.(searchParams, hash.slice(1));
});

/**
 * Runs once, where the page has tabs: the server opens them.
 * @param {import("./chunk.js").Host} host
 */
export function mount({ trigger }) {
  open = (tab) => trigger("tab", { tab });
  waits ??= true; // the answer may be here already: a browser runs what waits for one module in any order
}

/** The server has answered what the address names, and it may change. */
export function arrived() {
  waits = false;
  settle();
}
