// Nudges: what a visitor does to the game. A nudge makes another game, whose steps before it are the same.
import { make } from "../chunk.js";
import { forked } from "./position.js";

const MOST_NUDGES = 20;

const nudgesOf = (/** @type {import("./position.js").Spec} */ { nudges }) => (nudges ? nudges.split("-") : []);
const stepOfNudge = (text) => parseInt(text, 10);

/**
 * Lets visitors disturb a player's game; `choose` puts another in its place.
 * @param {{ canvas: HTMLCanvasElement, button: (label: string, text: string, act: () => void) => HTMLButtonElement,
 *   say: (sentence: string) => void, fetchMore: () => void, stepOf: (picture: number) => number, still: boolean,
 *   begin: (game: import("./position.js").Game, about: import("../chunk.js").About) => void,
 *   current: () => import("./position.js").Game, choose: (game: import("./position.js").Game) => void }} player
 */
export function makeNudges({ canvas, button, say, fetchMore, begin, stepOf, still, current, choose }) {
  const nudging = make("div", "nudging", "", { role: "group", "aria-label": "Disturb the game" });
  const undo = button("Undo the last nudge", "Undo", () => {
    const nudges = nudgesOf(current().spec);
    fork(nudges.slice(0, -1), stepOfNudge(nudges.at(-1)));
  });
  let laidOut = null;
  function lay(about) {
    const kinds = JSON.stringify([about.kinds, about.actions]);
    if (kinds !== laidOut) layKinds(about); // else the button that was just pressed would lose the focus
    laidOut = kinds;
    nudging.hidden = !about.kinds.length || Boolean(about.takeovers); // what was played by hand fits this game alone
    if (!about.nudges && document.activeElement === undo) canvas.focus({ preventScroll: true });
    undo.hidden = !about.nudges;
  }

  function layKinds(about) {
    const held = !about.kinds.includes("left"); // an action that is held, not a push
    nudging.replaceChildren(
      make("span", "hint", held ? "Make it choose:" : "Disturb it:"),
      ...about.kinds.map((kind) => {
        const text = held ? about.actions?.[kind] ?? `action ${kind}` : `Push ${kind}`;
        const made = button(held ? `Make it choose “${text}” for eight steps` : text, text, () => nudge(kind));
        made.dataset.kind = kind;
        return made;
      }),
      undo,
    );
  }

  function nudge(kind) {
    const game = current();
    const step = stepOf(Math.floor(game.position)) + 1;
    const before = nudgesOf(game.spec).filter((text) => stepOfNudge(text) <= step);
    if (game.over && step >= game.steps.ends.length) say("The game is over. Go back to a moment before its end first.");
    else if (before.length >= MOST_NUDGES) say(`A game allows ${MOST_NUDGES} nudges at most. Undo one first.`);
    else if (game.want === null) fork([...before, `${step}.${kind}`], step);
  }

  // Opens the game with other nudges, and stays at the picture that is shown while the server plays that game up to here.
  function fork(nudges, changed) {
    const from = current();
    const game = { ...forked(from, { ...from.spec, nudges: nudges.join("-"), at: null }, changed), want: changed - 1, playing: from.playing || !still };
    choose(game);
    begin(game, game.about);
    fetchMore();
  }

  function draw(pen, x, height, ratio) {
    nudgesOf(current().spec).forEach((text) => pen.fillRect(x(stepOfNudge(text)), 0, ratio, height));
  }

  return { parts: [nudging], lay, draw };
}
