// Another game beside a player's: the same seed, by the same agent at another age or by another agent. It is shown at the
// player's own position, so that one transport moves both.
import { brief, lay, make } from "../chunk.js";
import { fresh, stepTo } from "./position.js";
import { draw, fetchChunk, makeScreen } from "./reel.js";

/**
 * What can be watched beside a game: the same agent where only a `snapshot` is named.
 * @typedef {{ agent?: string, snapshot: number }} Other
 */

const AGES = { 0: "untrained", 100: "at the end of its training" };
const wordsOf = (/** @type {Other} */ { agent, snapshot }) => agent ?? AGES[snapshot] ?? `at ${snapshot} % of training`;
const keyOf = (/** @type {Other} */ { agent, snapshot }) => agent ?? String(snapshot);

/**
 * @param {{ films: HTMLElement, source: import("./position.js").Source, current: () => import("./position.js").Game, pace: () => number,
 *   unseen: () => boolean, laid: () => void, changed: () => void }} player
 */
export function makeBeside({ films, source, current, pace, unseen, laid, changed }) {
  const choice = make("label", "beside-choice");
  const list = /** @type {HTMLSelectElement} */ (make("select", ""));
  choice.append(make("span", "hint", "Beside it:"), list);
  const { shot, picture, canvas, name, note, show } = makeScreen("beside", "");
  choice.hidden = true;

  let others = /** @type {Other[]} */ ([]);
  let key = ""; // which of them is chosen
  let game = fresh(/** @type {any} */ ({}));

  list.addEventListener("change", () => {
    choose(list.value);
    changed();
  });

  // Those that can be chosen; the choice stays where it still can be.
  function offer(offered) {
    others = offered;
    list.replaceChildren(make("option", "", "nothing", { value: "" }), ...others.map((each) => make("option", "", wordsOf(each), { value: keyOf(each) })));
    choice.hidden = !others.length;
    choose(key);
  }

  function choose(wanted) {
    const other = others.find((each) => keyOf(each) === wanted);
    key = wanted; // kept while there is nothing to choose from
    list.value = other ? wanted : "";
    if (other) films.append(shot);
    else shot.remove();
    if (other) open({ ...current().spec, agent: other.agent ?? current().spec.agent, snapshot: other.snapshot, at: null });
    else game = fresh(/** @type {any} */ ({}));
    laid();
  }

  function open(spec) {
    game = fresh(spec);
    name.textContent = spec.agent + (Number(spec.snapshot) < 100 ? `, at ${spec.snapshot} % of training` : "");
    note.textContent = "";
  }

  async function fetchMore() {
    const mine = game;
    const wanted = () => mine === game;
    const begin = (about) => {
      mine.about = about;
      show(about, name.textContent);
      laid();
    };
    if (!unseen() && (await fetchChunk(mine, source, { pace: pace(), begin, wanted })) && wanted()) setTimeout(fetchMore, 0);
  }

  return {
    choice,
    offer,
    choose,
    chosen: () => (shot.isConnected ? key : ""),
    /** The numbers of its steps, to be drawn beside the player's. */
    steps: () => game.steps,
    /** Whether the player's game has to wait for its pictures. */
    waits: (position) => Boolean(game.spec.agent) && !game.over && !game.failed && position >= game.pictures - 1,
    /** Its box, as the player's. */
    lay(shape, cells) {
      if (shot.isConnected) lay(picture, shape, cells);
    },
    /** Shows it at a position of the player's game. */
    at(position) {
      if (!game.spec.agent) return;
      game.position = Math.min(position, Math.max(0, game.pictures - 1));
      const shown = Math.floor(game.position);
      const mine = game;
      if (game.pictures && shown !== game.drawn) {
        draw(game, canvas, shown, () => mine === game);
        note.textContent = `Return ${brief(game.steps.returns[stepTo(game, shown)])}`;
      }
      if (game.failed) note.textContent = game.trouble;
      else if (game.over && position > game.pictures) note.textContent = `Over: ${brief(game.steps.returns.at(-1))}`;
      fetchMore();
    },
  };
}
