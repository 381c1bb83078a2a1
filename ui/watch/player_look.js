// What the agent looks at: a soft light over the picture that it saw. Each map lies on its own picture, so that the game
// waits for a map that is late; while it plays they are asked for ahead.
import { make } from "../chunk.js";

const PURPOSES = ["choice", "value"]; // in the order of a step's maps
const AHEAD = 30; // steps that are looked at ahead
const PAUSE = { answered: 20, refused: 250 }; // milliseconds until the next question; each map costs a server 25 of a core
const KEPT = 2000; // steps whose maps are kept

/**
 * Lays the light over a player's canvas; `current` is the game that it shows.
 * @param {{ canvas: HTMLCanvasElement, shot: HTMLElement, source: import("./position.js").Source,
 *   button: (label: string, text: string, act: () => void) => HTMLButtonElement, say: (sentence: string) => void,
 *   current: () => import("./position.js").Game, changed: () => void }} player
 */
export function makeLook({ canvas, shot, button, say, source, current, changed }) {
  const extras = make("div", "extras");
  const group = make("div", "looking", "", { role: "group", "aria-label": "What it looks at" });
  const buttons = PURPOSES.map((purpose, number) => {
    const made = button(`Show what it looks at for its ${purpose}`, purpose, () => {
      setLook(looking === number ? -1 : number);
      changed();
    });
    made.title = source.lookNote;
    return made;
  });
  group.append(make("span", "hint", "What it looks at for its"), ...buttons);
  const note = make("p", "look-note", source.lookNote);
  const light = make("canvas", "light", "", { "aria-hidden": true });
  const picture = make("div", "picture");
  canvas.replaceWith(picture);
  picture.append(canvas, light);
  extras.append(group);
  group.hidden = light.hidden = true;

  let looking = -1; // for which of the purposes; none at first
  let asking = false;
  let lit = ""; // which map is shown
  let maps = /** @type {Map<number, Uint8Array | null>} */ (new Map()); // of the game's steps; null where there is none
  setLook(-1);

  function setLook(number) {
    looking = number;
    buttons.forEach((each, i) => each.setAttribute("aria-pressed", String(i === number)));
    note.hidden = number < 0;
    if (number < 0) darken();
  }

  function darken() {
    light.hidden = true;
    lit = "";
  }

  // A game begins.
  function lay(about) {
    maps = new Map();
    group.hidden = !about.pictured;
    if (group.hidden) setLook(-1);
    darken();
  }

  const waits = (step) => looking >= 0 && step >= 0 && !maps.has(step);

  // Called with every picture, with the step that was chosen from it; -1 where there is none.
  function at(step) {
    if (looking < 0 || !canvas.clientWidth) return;
    const map = maps.get(step);
    if (!map) darken();
    else if (lit !== `${looking} ${step}`) shine(map, step);
    const next = missing(step);
    if (next >= 0 && !asking) ask(current(), next);
  }

  function missing(step) {
    const { playing, steps } = current();
    const end = playing ? Math.min(step + AHEAD, steps.ends.length) : step + 1;
    for (let each = step; each >= 0 && each < end; each++) if (!maps.has(each)) return each;
    return -1;
  }

  async function ask(mine, step) {
    asking = true;
    let pause = PAUSE.refused;
    try {
      const { looks, status, error } = await source.look(mine, step, mine.playing ? AHEAD : 1);
      if (mine === current() && looks) {
        Object.entries(looks).forEach(([number, packed]) => keep(Number(number), packed));
        pause = PAUSE.answered;
      } else if (mine === current() && status !== 503) {
        setLook(-1);
        say(error);
      }
    } catch {
      // the connection is lost; the chunks say so, and the next picture asks again
    }
    setTimeout(() => (asking = false), pause);
  }

  function keep(step, packed) {
    maps.set(step, packed && Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0)));
    if (maps.size > KEPT) maps.delete(maps.keys().next().value);
  }

  function shine(both, step) {
    lit = `${looking} ${step}`;
    const cells = both.length / PURPOSES.length;
    const side = Math.sqrt(cells);
    const map = both.subarray(looking * cells, (looking + 1) * cells);
    light.width = light.height = side;
    Object.assign(light.dataset, { step, purpose: PURPOSES[looking] });
    const pen = light.getContext("2d");
    pen.fillStyle = getComputedStyle(shot).getPropertyValue("--glow");
    map.forEach((value, i) => {
      pen.globalAlpha = 0.8 * (value / 255);
      pen.fillRect(i % side, Math.floor(i / side), 1, 1);
    });
    light.hidden = false;
  }

  return {
    extras,
    picture,
    note,
    lay,
    at,
    waits,
    purpose: () => PURPOSES[looking],
    set: (purpose) => setLook(PURPOSES.indexOf(purpose)),
  };
}
