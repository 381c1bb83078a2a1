// What the agent looks at: a soft light over the picture, asked of the source for the step that is shown.
import { make } from "../chunk.js";

const LOOK_PAUSE = 150; // milliseconds between an answer and the next question: each costs a server 25 of a core

/**
 * Lays the light over a player's canvas; `current` is the game that it shows.
 * @param {{ canvas: HTMLCanvasElement, shot: HTMLElement, source: import("./position.js").Source,
 *   button: (label: string, text: string, act: () => void) => HTMLButtonElement, say: (sentence: string) => void,
 *   current: () => import("./position.js").Game }} player
 */
export function makeLook({ canvas, shot, button, say, source, current }) {
  const extras = make("div", "extras");
  const look = button("Show what it looks at", "What it looks at", () => setLook(!looking));
  look.title = source.lookNote;
  look.setAttribute("aria-pressed", "false");
  const note = make("p", "look-note", source.lookNote);
  const light = make("canvas", "light", "", { "aria-hidden": true });
  const picture = make("div", "picture");
  canvas.replaceWith(picture);
  picture.append(canvas, light);
  extras.append(look);
  look.hidden = note.hidden = light.hidden = true;

  let looking = false;
  let asking = false;
  /** @type {{ game: import("./position.js").Game, step: number } | null} */
  let lit = null; // the game and the step whose light is shown

  function setLook(on) {
    looking = on;
    look.setAttribute("aria-pressed", String(on));
    note.hidden = !on;
    if (!on) darken();
  }

  function darken() {
    light.hidden = true;
    lit = null;
  }

  function lay(about) {
    look.hidden = !about.pictured;
    if (look.hidden) setLook(false);
    darken();
  }

  // Called with every picture. A light that is late follows the game; on a game that stands still it is exact or not there.
  function at(step) {
    const shown = lit?.game === current() && lit.step === step;
    if (!looking || shown || !canvas.clientWidth) return;
    if (lit && (lit.game !== current() || !current().playing)) darken();
    if (!asking) ask(current(), step);
  }

  async function ask(mine, step) {
    asking = true;
    try {
      const { map, status, error } = await source.look(mine, step);
      if (mine === current() && looking && map) shine(mine, step, map);
      else if (status !== 503 && error) {
        setLook(false);
        say(error);
      }
    } catch {
      // the connection is lost; the chunks say so, and the next picture asks again
    }
    setTimeout(() => (asking = false), LOOK_PAUSE);
  }

  function shine(mine, step, map) {
    lit = { game: mine, step };
    light.height = map.length;
    light.width = map[0].length;
    light.dataset.step = String(step);
    const pen = light.getContext("2d");
    pen.fillStyle = getComputedStyle(shot).getPropertyValue("--glow");
    map.forEach((row, y) =>
      row.forEach((value, x) => {
        pen.globalAlpha = 0.8 * (value / 255);
        pen.fillRect(x, y, 1, 1);
      }),
    );
    light.hidden = false;
  }

  return { extras, picture, note, lay, at };
}
