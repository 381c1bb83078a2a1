// A game in the browser: what has come of it, and which picture, step and chunk belong together. No page is needed for it.

/**
 * Which game: the same ticket is the same game. `at` is the step to begin with; the `landing` game is the page's own, for
 * visitors whose address names no other.
 * @typedef {{ agent: string, seed?: number, snapshot?: number, actions?: string, protocol?: string, nudges?: string,
 *   at?: number | string | null, landing?: boolean }} Ticket
 */

/**
 * An answer to who asks for a chunk. Its status is HTTP's: 200 with the chunk, 204 past the end of the game, 202 or 503
 * where it is to be asked for again, any other where the game cannot be shown; then `error` is a sentence. So it may be
 * with 204, where the game would have gone on.
 * @typedef {{ status: number, buffer?: ArrayBuffer, played?: Played, error?: string }} Answer
 */

/**
 * Where games come from.
 * @typedef {object} Source
 * @property {number} ahead seconds that are fetched ahead
 * @property {(ticket: Ticket, n: number, ahead: number, stop?: AbortSignal) => Promise<Answer>} chunk number `n` of a game; the player has
 *   something to show for `ahead` seconds
 * @property {(game: Game, step: number) => Promise<{ map?: number[][], status: number, error?: string }>} look what the
 *   agent looks at in a step, from 0 to 255
 * @property {string} lookNote what is said of it
 * @property {(ticket: Ticket) => string} [video] the address of a game as a file
 * @property {(ticket: Ticket, from: number) => string} [gif] the address of a stretch of it
 * @property {(element: HTMLElement) => HTMLElement | null} [another] the button that opens another game in this player,
 *   where the page has one
 */

/** @typedef {ReturnType<typeof fresh>} Game */

/**
 * A chunk that is played in the browser: it draws its pictures.
 * @typedef {{ header: import("../chunk.js").Header, paint: (canvas: HTMLCanvasElement, index: number) => void }} Played
 */

/**
 * @typedef {{ first: number, data?: ArrayBuffer, bytes: number, looks?: Record<string, string>, paint?: Played["paint"] }} Chunk
 */

const DECODED = 48e6; // bytes of pictures that are kept, besides those of the chunk that is shown and of the next

/**
 * A game of which nothing has come yet.
 * @param {Ticket} ticket
 */
export function fresh(ticket) {
  return {
    ticket,
    chunks: /** @type {Chunk[]} */ ([]),
    about: /** @type {import("../chunk.js").About | null} */ (null),
    over: false,
    fetching: false,
    failed: false,
    trouble: "",
    ending: "",
    playing: false,
    rolling: false,
    position: 0,
    drawn: -1,
    pictures: 0,
    want: /** @type {number | null} */ (null),
    decoded: /** @type {Map<number, Promise<import("../chunk.js").Pictures>>} */ (new Map()),
    starts: /** @type {number[]} */ ([]),
    steps: {
      ends: /** @type {number[]} */ ([]),
      values: /** @type {number[]} */ ([]),
      returns: /** @type {number[]} */ ([]),
      rewards: /** @type {number[]} */ ([]),
      policies: /** @type {number[][]} */ ([]),
      actions: /** @type {any[]} */ ([]),
    },
  };
}

/**
 * Whether two tickets are the same game but for how long its agent was trained.
 * @param {Ticket} one
 * @param {Ticket} other
 */
export const differsInAge = (one, other) =>
  one.snapshot !== other.snapshot && ["agent", "seed", "protocol", "actions", "nudges"].every((part) => (one[part] ?? "") === (other[part] ?? ""));

/**
 * Adds a chunk to a game.
 * @param {Game} game
 * @param {import("../chunk.js").Header} header
 * @param {{ data?: ArrayBuffer, paint?: Played["paint"] }} content
 */
export function append(game, header, { data, paint }) {
  const { steps } = game;
  const before = game.pictures;
  game.starts.push(before);
  header.pictures.forEach((count, i) => {
    game.pictures += count;
    steps.ends.push(game.pictures);
    steps.returns.push((steps.returns.at(-1) ?? 0) + header.rewards[i]);
    for (const part of ["values", "rewards", "policies", "actions"]) steps[part].push(header[part][i]);
  });
  const bytes = (game.pictures - before) * game.about.width * game.about.height;
  game.chunks.push({ first: header.first, data, paint, bytes, looks: header.looks });
  game.over = header.over;
}

/**
 * The first index whose value is greater than `wanted`, in a list that ascends; the last where there is none.
 * @param {number[]} ascending
 * @param {number} wanted
 */
export function firstAbove(ascending, wanted) {
  let low = 0;
  let high = ascending.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle] > wanted) high = middle;
    else low = middle + 1;
  }
  return Math.max(0, low);
}

/**
 * The chunk with a picture: the last that starts at it or before.
 * @param {number[]} starts
 * @param {number} picture
 */
export function chunkOf(starts, picture) {
  const after = firstAbove(starts, picture);
  return starts[after] > picture ? after - 1 : after;
}

/**
 * Forgets the pictures that were decoded longest ago, until the others fit.
 * @param {Map<number, unknown>} decoded by the number of the chunk
 * @param {Chunk[]} chunks
 */
export function forget(decoded, chunks) {
  let bytes = [...decoded.keys()].reduce((sum, index) => sum + chunks[index].bytes, 0);
  for (const index of decoded.keys()) {
    if (bytes <= DECODED || decoded.size <= 2) return;
    decoded.delete(index);
    bytes -= chunks[index].bytes;
  }
}
