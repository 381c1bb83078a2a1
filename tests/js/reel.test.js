// How chunks are fetched, without a page: node --test tests/js/reel.test.js
import assert from "node:assert/strict";
import test from "node:test";
import { deflateSync } from "node:zlib";

globalThis.window = /** @type {any} */ ({});
const { fresh } = await import("../../ui/watch/position.js");
const { draw, fetchChunk } = await import("../../ui/watch/reel.js");

const about = { width: 2, height: 2, rate: 2 };

function chunk(header, pictures = deflateSync(Buffer.alloc(772))) {
  const head = Buffer.from(JSON.stringify({ actions: [0], policies: [[1]], values: [0], rewards: [1], pictures: [1], over: false, ...header }));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(head.length);
  const bytes = Buffer.concat([length, head, pictures]);
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
}

async function asked(answers, game = fresh({ agent: "pong" }), wanted = () => true) {
  const numbers = [];
  const source = /** @type {any} */ ({
    ahead: 2,
    chunk: async (_, n) => {
      numbers.push(n);
      return answers.shift();
    },
  });
  const begin = (told) => (game.about = told);
  while (answers.length && (await fetchChunk(game, source, { pace: 1, begin, wanted })));
  return { game, numbers };
}

test("chunks are asked for in order until enough is there", async () => {
  const first = { status: 200, buffer: chunk({ first: 0, game: about }) };
  const others = Array.from({ length: 9 }, (_, i) => ({ status: 200, buffer: chunk({ first: i + 1 }) }));
  const { game, numbers } = await asked([first, { status: 202 }, ...others]);
  assert.deepEqual(numbers, [0, 1, 1, 2, 3, 4]); // 4 pictures are 2 seconds
  assert.equal(game.steps.returns.at(-1), 5);
});

test("the end of a game, and why it cannot be shown, are kept", async () => {
  const { game } = await asked([{ status: 204, error: "It is cut here." }]);
  assert.deepEqual([game.over, game.ending], [true, "It is cut here."]);
  const { game: none } = await asked([{ status: 404, error: "There is no such game." }]);
  assert.deepEqual([none.failed, none.trouble], [true, "There is no such game."]);
});

test("what comes for a game that nobody looks at any more is thrown away", async () => {
  const { game } = await asked([{ status: 200, buffer: chunk({ first: 0, game: about }) }], undefined, () => false);
  assert.deepEqual([game.about, game.chunks.length, game.fetching], [null, 0, false]);
});

test("a browser that cannot unpack is told so", async () => {
  const { DecompressionStream } = globalThis;
  delete globalThis.DecompressionStream;
  const { game } = await asked([{ status: 200, buffer: chunk({ first: 0, game: about }) }]);
  globalThis.DecompressionStream = DecompressionStream;
  assert.equal(game.failed, true);
  assert.match(game.trouble, /too old/);
});

test("a canvas says which step it shows", async () => {
  const painted = [];
  const paint = (_, index) => painted.push(index);
  const header = { first: 0, over: true, pictures: [2, 1], actions: [0, 0], policies: [[1], [1]], values: [0, 0], rewards: [1, 1], game: about };
  const { game } = await asked([{ status: 200, played: { header, paint } }]);
  const canvas = /** @type {any} */ ({ dataset: {} });
  await draw(game, canvas, 2, () => true);
  assert.deepEqual([painted, canvas.dataset.step, game.painted], [[2], "1", 2]);
});

test("a picture that came broken is told, and no error of the browser", async () => {
  const { game } = await asked([{ status: 200, buffer: chunk({ first: 0, over: true, game: about }, Buffer.from("broken")) }]);
  await draw(game, /** @type {any} */ ({ dataset: {} }), 0, () => true);
  assert.deepEqual([game.trouble, game.painted], ["This part of the game came broken. Reload the page.", -1]);
});
