// The chunks of a game, fetched as they are needed, and its pictures on a canvas.
import { Outdated, inflater, make, opened, paint, unpacked } from "../chunk.js";
import { append, chunkOf, forget, stepTo } from "./position.js";

const pause = (milliseconds) => new Promise((wake) => setTimeout(wake, milliseconds));

/**
 * Asks a source for the next chunk of a game where that is needed, and adds it to the game. Resolves to whether it may be
 * asked again at once.
 * @param {import("./position.js").Game} game
 * @param {import("./position.js").Source} source
 * @param {{ pace: number, begin: (about: import("../chunk.js").About) => void, wanted: () => boolean }} player `begin` is
 *   called before the first chunk is added; of a game that is no longer `wanted` nothing is
 */
export async function fetchChunk(game, source, { pace, begin, wanted }) {
  if (!game.spec.agent || game.fetching || game.over || game.failed || game.live) return false;
  const ahead = Math.max(0, game.pictures - game.position);
  if (game.about && game.want === null && ahead > source.ahead * game.about.rate * Math.max(1, pace)) return false;
  game.fetching = true;
  try {
    const left = game.about ? Math.floor(ahead / game.about.rate / pace) : 0;
    const got = await source.chunk(game.spec, game.chunks.length, left);
    if (!wanted()) return false;
    if (got.status < 300) game.trouble = "";
    if (got.status === 200) {
      if (!got.played) inflater("deflate"); // before anything is shown of what could not be drawn
      const { header, ...content } = got.played ?? opened(got.buffer);
      if (header.game) begin(header.game);
      append(game, header, content);
    } else if (got.status === 204) Object.assign(game, { over: true, ending: got.error });
    else if (got.status !== 202) {
      game.failed = got.status !== 503;
      game.trouble = got.error;
      if (!game.failed) await pause(1000 + 1000 * Math.random());
    }
  } catch (error) {
    game.failed = error instanceof Outdated;
    game.trouble = game.failed ? error.message : "The connection is lost; the game continues when it is back.";
    if (!game.failed) await pause(1000);
  } finally {
    game.fetching = false;
  }
  return true;
}

const UNREADABLE = "This part of the game came broken. Reload the page.";

/**
 * Draws a picture of a game, unless another is to be drawn by then. Of one that came broken the game tells.
 * @param {import("./position.js").Game} game
 * @param {HTMLCanvasElement} canvas
 * @param {number} picture
 * @param {() => boolean} wanted whether the canvas still shows this game
 */
export async function draw(game, canvas, picture, wanted) {
  game.drawn = picture;
  const index = chunkOf(game.starts, picture);
  const { paint: paintHere } = game.chunks[index];
  if (paintHere) paintHere(canvas, picture - game.starts[index]);
  else {
    const part = await pictures(game, index).catch(() => null);
    if (!part) game.trouble = UNREADABLE;
    if (!part || !wanted() || game.drawn !== picture) return;
    paint(canvas, part, picture - game.starts[index]);
    if (index + 1 < game.chunks.length) pictures(game, index + 1).catch(() => {}); // which is told when it is to be drawn
  }
  game.painted = picture;
  canvas.dataset.step = String(stepTo(game, picture));
}

async function pictures({ about, chunks, decoded }, index) {
  const found = decoded.get(index);
  if (found) return found;
  const promise = unpacked(chunks[index].data, about.width * about.height);
  decoded.set(index, promise);
  forget(decoded, chunks);
  return promise;
}

/**
 * A smaller screen beside the player's: a picture and a line with a name and a note under it.
 * @param {string} kind of its class
 * @param {string} title
 */
export function makeScreen(kind, title) {
  const shot = make("figure", `shot ${kind}`);
  const picture = make("div", "picture");
  const canvas = make("canvas", "", "", { role: "img" });
  const strip = make("figcaption", "strip");
  const name = make("span", "name", title);
  const note = make("span", "note");
  strip.append(name, note);
  picture.append(canvas);
  shot.append(picture, strip);
  /**
   * @param {import("../chunk.js").About} about the game that is shown from now on
   * @param {string} player
   */
  const show = (about, player) => {
    Object.assign(canvas, { width: about.width, height: about.height });
    canvas.setAttribute("aria-label", `${about.env} played by ${player}`);
    shot.dataset.game = about.env;
  };
  return { shot, picture, canvas, name, note, show };
}
