// What all who show streamed games share: where the server is, how parts of the page are made, how chunks become pictures
// (see ui/streaming/chunks.py).

/**
 * What gradio hands to the script of a component.
 * @typedef {object} Host
 * @property {HTMLElement} element
 * @property {{ value?: any }} props
 * @property {(name: string, act: () => void) => void} watch calls `act` when a property has changed
 * @property {(event: string, data?: object) => void} [trigger]
 */

/**
 * What the first chunk tells of the whole game.
 * @typedef {object} About
 * @property {string} agent
 * @property {number} seed
 * @property {number} snapshot percent of the training
 * @property {boolean} greedy
 * @property {string} protocol
 * @property {string} nudges
 * @property {string} takeovers
 * @property {string} env
 * @property {number} height
 * @property {number} width
 * @property {[number, number]} pixel rows and columns of the screen that a pixel fills
 * @property {number} rate pictures per second
 * @property {string[] | null} actions names of the choices; null where an action is real numbers
 * @property {string[]} numbers names of those
 * @property {string[]} kinds of nudges
 * @property {{ keys: string, rule: string, buttons: string[], percent: number } | null} controls how it is played by hand
 * @property {boolean} pictured whether it can be asked what the agent looks at
 */

/**
 * The head of a chunk; its lists have an item per step.
 * @typedef {object} Header
 * @property {About} [game] in the first chunk
 * @property {number} first the first step
 * @property {boolean} over whether the game ends with it
 * @property {number[]} pictures how many pictures each step has
 * @property {any[]} actions
 * @property {number[][]} policies
 * @property {number[]} values
 * @property {number[]} rewards
 * @property {import("./watch/position.js").Looks} [looks] what the agent looks at
 * @property {boolean[]} [by_hand] in a game that is being taken over: whether the visitor played the step
 * @property {{ id: string, rate: number }} [live] of such a game, before its first step
 * @property {string} [ended] why a game that is played by hand ended early
 */

/** @typedef {{ colours: Uint32Array, frames: Uint8Array, size: number }} Pictures */

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {string} className
 * @param {string} text
 * @param {Record<string, any>} attributes
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, className, text = "", attributes = {}) {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

export const minus = (text) => text.replace("-", "−");
export const brief = (value) => minus(Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(1));

/**
 * A chunk's header, and its pictures as they were packed.
 * @param {ArrayBuffer} buffer
 * @returns {{ header: Header, data: ArrayBuffer }}
 */
export function opened(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  return { header: JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))), data: buffer.slice(4 + length) };
}

/** Where the browser cannot unpack what comes; the message is a sentence for its visitor. */
export class Outdated extends Error {}

/**
 * What unpacks a stream. Raises Outdated.
 * @param {"deflate" | "gzip"} format
 * @returns {ReadableWritablePair<Uint8Array, Uint8Array>}
 */
export function inflater(format) {
  const { DecompressionStream } = /** @type {any} */ (globalThis);
  if (!DecompressionStream) throw new Outdated("This browser is too old to show the games. A newer one can.");
  return new DecompressionStream(format);
}

/**
 * The pictures of a chunk, of `size` pixels each, as numbers of colours. Four pixels at a time are added to those of the
 * picture before: all games' pictures have a multiple of four.
 * @param {ArrayBuffer} data
 * @param {number} size
 * @returns {Promise<Pictures>}
 */
export async function unpacked(data, size) {
  const stream = new Blob([data]).stream().pipeThrough(inflater("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const colours = new Uint32Array(256);
  for (let i = 0; i < 256; i++) colours[i] = 0xff000000 | (bytes[3 * i + 2] << 16) | (bytes[3 * i + 1] << 8) | bytes[3 * i];
  const fours = new Uint32Array(bytes.buffer, 768);
  for (let i = size / 4; i < fours.length; i++) fours[i] ^= fours[i - size / 4];
  return { colours, frames: bytes.subarray(768), size };
}

/**
 * Draws one of the pictures.
 * @param {HTMLCanvasElement} canvas
 * @param {Pictures} pictures
 * @param {number} index
 */
export function paint(canvas, { colours, frames, size }, index) {
  const image = new ImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < size; i++) pixels[i] = colours[frames[index * size + i]];
  canvas.getContext("2d").putImageData(image, 0, 0);
}

const TALLEST = 0.72; // of the window: below the picture stands what moves it
const TALLEST_ALONE = 0.92; // where the picture fills the screen
const ENOUGH = 0.88; // of the room's width
const BENT = 0.06; // how far whole pixels may be from the true shape

/**
 * Gives the box of a picture, whose shape is its width by its height, as much room as there is. Of one that is drawn in
 * few columns and rows, `cells`, each gets a whole number of the screen's pixels where that costs little: columns of four
 * and five pixels in turn spoil what is small.
 * @param {HTMLElement} box
 * @param {number} shape
 * @param {[number, number] | false} [cells]
 */
export function lay(box, shape, cells) {
  const shot = box.parentElement;
  const room = shot.clientWidth - 2 * parseFloat(getComputedStyle(shot).paddingLeft);
  if (room <= 0) return; // another tab is in front
  const most = Math.min(room, (document.fullscreenElement === shot ? TALLEST_ALONE : TALLEST) * innerHeight * shape);
  const [width, height] = (cells && wholly(most * devicePixelRatio, shape, cells)) || [most, most / shape];
  Object.assign(box.style, { width: `${width}px`, height: `${height}px`, marginLeft: `${Math.floor((room - width) / 2)}px` });
}

function wholly(most, shape, [columns, rows]) {
  for (let across = Math.floor(most / columns); across * columns > ENOUGH * most; across--) {
    const [width, height] = [across * columns, Math.round((across * columns) / shape / rows) * rows];
    if (Math.abs((height * shape) / width - 1) < BENT) return [width / devicePixelRatio, height / devicePixelRatio];
  }
  return null;
}

/**
 * Calls `act` when the room for an element may be another. A frame later: it changes the size that is observed.
 * @param {Element} watched
 * @param {() => void} act
 * @param {AbortSignal} here ends it
 */
export function whenResized(watched, act, here) {
  const later = () => requestAnimationFrame(act);
  const observer = new ResizeObserver(later);
  observer.observe(watched);
  addEventListener("resize", later, { signal: here });
  here.addEventListener("abort", () => observer.disconnect());
}

/**
 * A signal that is aborted when an element leaves the page: what listens to the document must not keep its game alive.
 * @param {Element} element
 */
export function whileConnected(element) {
  const stop = new AbortController();
  const observer = new MutationObserver(() => {
    if (element.isConnected) return;
    observer.disconnect();
    stop.abort();
  });
  observer.observe(document, { childList: true, subtree: true });
  return stop.signal;
}
