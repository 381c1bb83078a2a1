// --- What the agent looks at: a soft light over the picture, asked of the server for the step that is shown ---

const LOOK_PAUSE = 150; // milliseconds between an answer and the next question: each costs the server 25 of a core
const LOOK_NOTE =
  "Bright is where hiding that part of the picture would change its choice most, as in Greydanus et al. 2018. " +
  "Each map takes 145 runs of its network, so while the game plays there are only a few a second.";

const extras = make("div", "extras");
const look = button("Show what it looks at", "What it looks at", () => setLook(!looking));
look.title = LOOK_NOTE;
look.setAttribute("aria-pressed", "false");
const lookNote = make("p", "look-note", LOOK_NOTE);
const light = make("canvas", "light", "", { "aria-hidden": true });
const picture = make("div", "picture");
canvas.replaceWith(picture);
picture.append(canvas, light);
extras.append(look);
transport.after(extras, lookNote);
look.hidden = lookNote.hidden = light.hidden = true;

let looking = false;
let asking = false;
let lit = null; // the game and the step whose light is shown

function setLook(on) {
  looking = on;
  look.setAttribute("aria-pressed", on);
  lookNote.hidden = !on;
  if (!on) darken();
}

function darken() {
  light.hidden = true;
  lit = null;
}

function layLook(about) {
  look.hidden = !about.pictured;
  if (look.hidden) setLook(false);
  darken();
}

// Called with every picture. A light that is late follows the game; on a game that stands still it is exact or not there.
function lookAt(step) {
  const current = lit?.game === game && lit.step === step;
  if (!looking || current || !canvas.clientWidth) return;
  if (lit && (lit.game !== game || !game.playing)) darken();
  if (!asking) askLook(game, step);
}

async function askLook(mine, step) {
  asking = true;
  try {
    const n = mine.chunks.findLastIndex((chunk) => chunk.first <= step);
    const asked = query(mine.ticket, { n, step: step - mine.chunks[n].first });
    const answer = await fetch(`${base}/arcade/saliency?${asked}`);
    const { map, error } = await answer.json();
    if (mine === game && looking && map) shine(mine, step, map);
    else if (answer.status !== 503 && error) {
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
  light.dataset.step = step;
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
