// The player's place for the board of the day: below a game of the day's seed that is played as everybody plays it.
import { makeBoard } from "../board/board.js";
import { query } from "./live.js";

/**
 * `finished` is the game that the visitor has taken over and finished.
 * @param {{ current: () => import("./position.js").Game, finished: () => import("./position.js").Game | null, here: AbortSignal }} player
 */
export function makePlayerBoard({ current, finished, here }) {
  const board = makeBoard({ here });
  return {
    part: board.part,
    form: board.form,
    /** Called with every picture. */
    at() {
      const { spec, about, live, over, want, steps } = current();
      if (!about) return;
      const fair = about.controls && about.protocol === "classic" && !about.nudges && !about.agent.includes("/");
      board.show(fair ? about.env : "", about.seed);
      const mine = fair && !live && finished() === current();
      board.offer(mine ? String(query(spec)) : "", over && want === null ? steps.returns.at(-1) : null);
    },
  };
}
