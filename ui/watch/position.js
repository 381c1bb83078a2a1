// A game in the browser: what has come of it, and which picture, step and chunk belong together. No page is needed for it.

/**
 * Which game: the same spec is the same game. `at` is the step to begin with; the `landing` game is the page's own, for
 * visitors whose address names no other; a game that was gone back to has the number of that `visit`.
 * @typedef {{ agent: string, seed?: number, snapshot?: number, actions?: string, protocol?: string, nudges?: string,
 *   takeovers?: string, at?: number | string | null, others?: import("./player_beside.js").Other[], landing?: boolean,
 *   visit?: string | null }} Spec
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
 * @property {(spec: Spec, n: number, ahead: number, stop?: AbortSignal) => Promise<Answer>} chunk number `n` of a game; the player has
 *   something to show for `ahead` seconds
 * @property {(game: Game, step: number, most: number) => Promise<{ looks?: Looks, status: number, error?: string }>} look what
 *   the agent looks at in a step, and perhaps in those after it
 * @property {string} lookNote what is said of it
 * @property {(spec: Spec) => import("../play/live.js").Arena | null} [live] where a game is taken over, if it can be
 * @property {(spec: Spec) => string} [video] the address of a game as a file
 * @property {(spec: Spec, from: number) => string} [gif] the address of a stretch of it
 * @property {(element: HTMLElement) => HTMLElement | null} [another] the button that opens another game in this player,
 *   where the page has one
 */

/**
 * By the steps' numbers two square maps of what the agent looks at, for its choice and for its value, with a byte from 0 to
 * 255 for each field, in base64; null where there are none.
 * @typedef {Record<string, string | null>} Looks
 */

/** @typedef {ReturnType<typeof fresh>} Game */

/**
 * What a game that is being taken over has besides: the game that it left, at which step, and its own speed.
 * @typedef {{ from: Game, first: number, pace: number }} Live
 */

/**
 * A chunk that is played in the browser: it draws its pictures.
 * @typedef {{ header: import("../chunk.js").Header, paint: (canvas: HTMLCanvasElement, index: number) => void }} Played
 */

/**
 * @typedef {{ first: number, data?: ArrayBuffer, bytes: number, looks?: Looks, paint?: Played["paint"] }} Chunk
 */

const DECODED = 48e6; // bytes of pictures that are kept, besides those of the chunk that is shown and of the next

/**
 * A game of which nothing has come yet.
 * @param {Spec} spec
 */
export function fresh(spec) {
  return {
    spec,
    chunks: /** @type {Chunk[]} */ ([]),
    about: /** @type {import("../chunk.js").About | null} */ (null),
    over: false,
    fetching: false,
    failed: false,
    trouble: "",
    ending: "",
    live: /** @type {Live | null} */ (null),
    playing: false,
    rolling: false,
    position: 0,
    drawn: -1, // the picture that is being drawn
    painted: -1, // and the one that is
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
 * Whether two specs are the same game but for how long its agent was trained.
 * @param {Spec} one
 * @param {Spec} other
 */
export const differsInAge = (one, other) =>
  one.snapshot !== other.snapshot && ["agent", "seed", "protocol", "actions", "nudges", "takeovers"].every((part) => (one[part] ?? "") === (other[part] ?? ""));

/**
 * The game of another spec whose steps before `step` are the same, with what has come of them and the picture that is
 * shown, so that nothing jumps. A source counts its chunks on from those that are kept whole; a live game, which has no
 * such chunks, goes on `exact`ly there.
 * @param {Game} from
 * @param {Spec} spec
 * @param {number} step
 * @returns {Game}
 */
export function forked(from, spec, step, exact = false) {
  const ends = from.chunks.map((_, i) => from.chunks[i + 1]?.first ?? from.steps.ends.length);
  const kept = exact ? from.chunks.filter(({ first }) => first < step).length : ends.filter((end) => end <= step).length;
  const steps = exact ? Math.min(step, from.steps.ends.length) : (ends[kept - 1] ?? 0);
  return {
    ...fresh(spec),
    about: { ...from.about, nudges: spec.nudges ?? "", takeovers: spec.takeovers ?? "" },
    chunks: from.chunks.slice(0, kept),
    starts: from.starts.slice(0, kept),
    pictures: steps ? from.steps.ends[steps - 1] : 0,
    steps: /** @type {Game["steps"]} */ (
      Object.fromEntries(Object.entries(from.steps).map(([part, values]) => [part, values.slice(0, steps)]))
    ),
    decoded: new Map([...from.decoded].filter(([index]) => index < kept)),
    position: from.position,
    drawn: from.drawn,
  };
}

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
 * The step that led to a picture: the first whose pictures end behind it.
 * @param {Game} game
 * @param {number} picture
 */
export const stepTo = ({ steps }, picture) => firstAbove(steps.ends, picture);

/**
 * The step that the agent chose when it saw a picture: it sees what its last step has led to. -1 where there is none yet.
 * @param {Game} game
 * @param {number} picture
 */
export const stepFrom = (game, picture) => (picture >= 0 && picture + 1 < game.pictures ? stepTo(game, picture + 1) : -1);

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
