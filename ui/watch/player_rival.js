// The agent alone: beside a game that was taken over, a smaller screen where the agent's own game goes on, in step with it.
import { brief, lay, whenResized } from "../chunk.js";
import { query } from "./live.js";
import { firstAbove, forked } from "./position.js";
import { draw, fetchChunk, makeScreen } from "./reel.js";
import { read } from "./takeovers.js";

/** @param {import("./position.js").Spec} spec */
export const alone = (spec) => ({ ...spec, takeovers: "", at: null });

/**
 * @param {{ shot: HTMLElement, source: import("./position.js").Source, unseen: () => boolean, here: AbortSignal }} player
 */
export function makeRival({ shot, source, unseen, here }) {
  const { shot: figure, picture, canvas, note, show } = makeScreen("rival", "The agent alone");

  /** @type {import("./position.js").Game | null} */
  let game = null;
  let key = "";

  function open(from, spec, first) {
    game = from.spec.takeovers ? forked(from, spec, first) : from;
    game.drawn = -1;
    show(from.about, `${from.about.agent} alone`);
  }

  /**
   * Follows the game that the player shows, at each of its pictures.
   * @param {import("./position.js").Game} main
   * @param {number} shown the picture
   */
  function follow(main, shown) {
    const [takeover] = read(main.spec.takeovers);
    const from = main.live?.from ?? main;
    const first = main.live?.first ?? takeover?.step;
    const spec = alone(main.spec);
    const same = game !== null && key === String(query(spec)); // it stays while the other comes anew
    const wanted = first !== undefined && (same || main.live || main.over || main.steps.ends.length >= first);
    if (!wanted) {
      figure.remove();
      game = null;
      return;
    }
    if (!figure.isConnected) shot.after(figure);
    if (!same) {
      key = String(query(spec));
      open(from, spec, takeover?.step ?? first);
      layPicture();
    }
    fetchMore(shown);
    const now = Math.min(shown, game.pictures - 1);
    if (now < 0 || now === game.drawn) return;
    const mine = game;
    draw(game, canvas, now, () => mine === game);
    const returned = brief(game.steps.returns[firstAbove(game.steps.ends, now)]);
    note.textContent = `Return ${returned}${game.over && now < shown ? ", over" : ""}`;
  }

  // Its chunks come as the player's do, and no further than the player's own game is shown.
  function fetchMore(shown) {
    if (unseen()) return;
    const mine = game;
    mine.position = shown;
    fetchChunk(mine, source, { pace: 1, begin: () => {}, wanted: () => mine === game });
  }

  function layPicture() {
    if (!game) return;
    const { width, height, pixel } = game.about;
    lay(picture, (width * pixel[1]) / (height * pixel[0]));
  }

  whenResized(figure, layPicture, here);
  return { follow };
}
