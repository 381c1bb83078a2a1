// The board of a game and a day (see ui/board/routes.py), and what hands a visitor's own game in. What others have written is
// set as text, never as HTML.
import { brief, make } from "../chunk.js";
import { base } from "../gradio_internals.js";
import { dayOf, isToday, share, written } from "./days.js";

const PAUSE = 4000; // milliseconds between questions whether the agents have played
const MOST_LETTERS = 24; // of a name, as the server takes it
const SETTING = "a3c-arcade-name";

/** @typedef {{ name: string, score: number, steps: number, by_hand: number, query: string }} Entry */

/**
 * A board that shows nothing yet. `part` is its list, `form` hands a game in.
 * @param {{ here: AbortSignal }} page
 */
export function makeBoard({ here }) {
  // --- The parts of the page ---

  const part = make("section", "board");
  const head = make("header", "");
  const title = make("h3", "");
  const note = make("span", "hint");
  head.append(title, note);
  const list = make("ol", "", "", { tabindex: 0 });
  part.append(head, list);

  const form = make("form", "hand-in");
  const field = make("input", "", "", { type: "text", maxlength: MOST_LETTERS, placeholder: "Your name", "aria-label": "Your name on the board", autocomplete: "nickname", spellcheck: "false" });
  const send = make("button", "", "Put it on the board", { type: "submit" });
  const status = make("p", "answer", "", { role: "status" });
  form.append(field, send, status);
  part.hidden = form.hidden = true;
  field.value = kept();
  form.addEventListener("keydown", (event) => event.stopPropagation()); // a name is written, no game is moved

  // --- What it shows ---

  let shown = { env: "", seed: -1 };
  let there = false; // whether there is such a board
  let takes = false; // whether it takes games
  let asking = 0; // the number of the question whose answer counts
  let offered = { query: "", score: /** @type {number | null} */ (null) };
  let done = ""; // the game that was handed in, and how the board names it
  let mine = "";

  async function ask() {
    const [number, { env, seed }] = [++asking, shown];
    const board = await fetched(env, seed);
    if (number !== asking || here.aborted) return;
    there = Boolean(board);
    takes = there && board.open;
    if (board) lay(board.entries);
    if (board?.coming) setTimeout(() => number === asking && ask(), PAUSE);
    lift();
  }

  /** @param {Entry[]} entries */
  function lay(entries) {
    const day = dayOf(shown.seed);
    title.textContent = isToday(day) ? "Today’s board" : `The board of ${written(day)}`;
    note.textContent = isToday(day) ? `${written(day)}, seed ${shown.seed}` : `seed ${shown.seed}`;
    list.setAttribute("aria-label", title.textContent);
    list.replaceChildren(...entries.map((entry, i) => row(entry, i + 1)));
    if (!entries.length) list.append(make("li", "empty", "Nobody has played yet."));
  }

  /**
   * @param {Entry} entry
   * @param {number} number
   */
  function row(entry, number) {
    const made = make("li", entry.query === mine ? "mine" : entry.by_hand ? "" : "agent");
    const link = make("a", "name", entry.name, { href: `?${entry.query}`, dir: "auto", title: "Watch this game" });
    made.append(make("span", "place", `${number}`), link, make("span", "share", share(entry)), make("span", "score", brief(entry.score)));
    return made;
  }

  function lift() {
    part.hidden = !there;
    form.hidden = !takes || !offered.query;
    field.hidden = send.hidden = done === offered.query;
  }

  // --- Handing in ---

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (send.disabled) return;
    const { query, score } = offered;
    const name = field.value;
    keep(name);
    send.disabled = true;
    status.textContent = "The server plays your game again, to be sure of its score.";
    const told = { name, ...(score === null ? {} : { score: String(score) }) };
    const answer = await answered(`${query}&${new URLSearchParams(told)}`);
    send.disabled = false;
    if (here.aborted || query !== offered.query) return;
    status.textContent = answer.error ?? `Your game scores ${brief(answer.score)} and is number ${answer.place} on the board.`;
    if (answer.error) return;
    const focused = form.contains(document.activeElement);
    done = query;
    mine = answer.query;
    await ask();
    list.querySelector(".mine")?.scrollIntoView({ block: "nearest" });
    if (focused) list.focus({ preventScroll: true }); // what had the focus is hidden now
  });

  return {
    part,
    form,
    /**
     * Shows the board of a game and of its seed's day; none where the seed is no day's, or there is no game.
     * @param {string} env
     * @param {number} seed
     */
    show(env, seed) {
      if (env === shown.env && seed === shown.seed) return;
      shown = { env, seed };
      asking += 1;
      there = takes = false;
      lift();
      if (env && dayOf(seed)) ask();
    },
    /**
     * Offers to hand in the game of a link, with the score that its visitor has seen; none where the link is empty.
     * @param {string} query
     * @param {number | null} score
     */
    offer(query, score = null) {
      if (query === offered.query && score === offered.score) return;
      if (query !== offered.query) status.textContent = "";
      offered = { query, score };
      lift();
    },
  };
}

/** @returns {Promise<{ day: string, open: boolean, coming: boolean, entries: Entry[] } | null>} */
async function fetched(env, seed) {
  try {
    const answer = await fetch(`${base}/arcade/board?${new URLSearchParams({ env, seed: String(seed) })}`);
    return answer.ok ? await answer.json() : null;
  } catch {
    return null; // the connection is lost, which the game says
  }
}

/** @returns {Promise<{ place?: number, score?: number, query?: string, error?: string }>} */
async function answered(query) {
  try {
    const answer = await fetch(`${base}/arcade/board?${query}`, { method: "POST" });
    return await answer.json();
  } catch {
    return { error: "The connection was lost. Please try again." };
  }
}

function kept() {
  try {
    return localStorage.getItem(SETTING) ?? "";
  } catch {
    return ""; // the browser keeps nothing for this page
  }
}

function keep(name) {
  try {
    localStorage.setItem(SETTING, name);
  } catch {
    // then it holds for this visit
  }
}
