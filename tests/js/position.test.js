// The wire format and the player's arithmetic, without a page: node --test tests/js/position.test.js
import assert from "node:assert/strict";
import test from "node:test";
import { gzipSync, deflateSync } from "node:zlib";

globalThis.window = /** @type {any} */ ({});
const { opened, unpacked } = await import("../../ui/chunk.js");
const { append, chunkOf, forget, fresh, stepFrom, stepTo } = await import("../../ui/watch/position.js");
const { recordedGames, split } = await import("../../ui/watch/recorded.js");

const about = { width: 2, height: 2, rate: 2 };

function chunk(header, pixels = []) {
  const head = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(head.length);
  const colours = Buffer.alloc(768);
  colours.set([1, 2, 3, 4, 5, 6]);
  return Buffer.concat([length, head, deflateSync(Buffer.concat([colours, Buffer.from(pixels)]))]);
}

const buffer = (bytes) => bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
const steps = (count) => Object.fromEntries(["actions", "values", "rewards", "policies"].map((part) => [part, Array(count).fill(1)]));

test("a chunk gives its header, its colours and pictures that are XORed with those before", async () => {
  const { header, data } = opened(buffer(chunk({ first: 3 }, [0, 1, 0, 1, 1, 0, 0, 1])));
  assert.equal(header.first, 3);
  const { colours, frames } = await unpacked(data, 4);
  assert.deepEqual(Array.from(colours.slice(0, 2)), [0xff030201, 0xff060504]);
  assert.deepEqual([...frames], [0, 1, 0, 1, 1, 1, 0, 0]);
});

test("a file of a recorded game is its chunks, each behind its length, packed", async () => {
  const chunks = [chunk({ first: 0 }), chunk({ first: 7 })];
  const lengths = chunks.map((each) => Buffer.from(new Uint32Array([each.length]).buffer));
  const file = gzipSync(Buffer.concat([lengths[0], chunks[0], lengths[1], chunks[1]]));
  const parts = await split(new Blob([file]).stream());
  assert.deepEqual(parts.map((part) => opened(part).header.first), [0, 7]);
});

test("two who show the same recorded game at once get its chunks in order, and fetch each file once", async () => {
  const packed = (first) => {
    const one = chunk({ first });
    return gzipSync(Buffer.concat([Buffer.from(new Uint32Array([one.length]).buffer), one]));
  };
  const files = { a: packed(0), b: packed(7) };
  const asked = [];
  globalThis.fetch = /** @type {any} */ (
    async (url, { signal }) => {
      signal?.throwIfAborted();
      asked.push(url.pathname.slice(1));
      await new Promise((wake) => setTimeout(wake, 1));
      return { ok: url.pathname.slice(1) in files, body: new Blob([files[url.pathname.slice(1)]]).stream() };
    }
  );
  const game = { agent: "pong", seed: 0, snapshot: 100, actions: "greedy", protocol: "classic", total: 1, steps: 9, whole: true };
  const source = recordedGames([{ ...game, files: ["a", "b"] }], new URL("http://files/"));
  const left = assert.rejects(source.chunk(game, 1, 0, AbortSignal.abort()), { name: "AbortError" });
  const answers = await Promise.all([source.chunk(game, 0, 0), source.chunk(game, 1, 0), source.chunk(game, 1, 0), source.chunk(game, 2, 0)]);
  await left;
  assert.deepEqual(asked, ["a", "b"]);
  assert.deepEqual(answers.map(({ status, buffer }) => buffer ? opened(buffer).header.first : status), [0, 7, 7, 204]);
  assert.equal((await recordedGames([{ ...game, files: ["gone"] }], new URL("http://files/")).chunk(game, 0, 0)).status, 404);
});

test("picture, step and chunk lead to each other", () => {
  const game = fresh(/** @type {any} */ ({}));
  game.about = /** @type {any} */ (about);
  append(game, /** @type {any} */ ({ first: 0, over: false, pictures: [3, 2], ...steps(2), rewards: [1, 2] }), {});
  append(game, /** @type {any} */ ({ first: 2, over: true, pictures: [2], ...steps(1), rewards: [-4] }), {});
  assert.deepEqual(game.steps.ends, [3, 5, 7]);
  assert.deepEqual(game.steps.returns, [1, 3, -1]);
  assert.deepEqual([0, 2, 3, 4, 5, 6].map((picture) => stepTo(game, picture)), [0, 0, 1, 1, 2, 2]);
  assert.deepEqual([-1, 0, 1, 2, 3, 4, 5, 6].map((picture) => stepFrom(game, picture)), [-1, 0, 0, 1, 1, 2, 2, -1]);
  assert.deepEqual([0, 4, 5, 6].map((picture) => chunkOf(game.starts, picture)), [0, 0, 1, 1]);
  assert.deepEqual(game.chunks.map(({ bytes }) => bytes), [20, 8]);
  assert.equal(game.over, true);
});

test("decoded pictures are counted in bytes, and two chunks always stay", () => {
  const kept = (bytes, count) => {
    const decoded = new Map(Array.from({ length: count }, (_, i) => [i, null]));
    forget(decoded, Array(count).fill({ bytes }));
    return [...decoded.keys()];
  };
  assert.deepEqual(kept(20e6, 5), [3, 4]);
  assert.deepEqual(kept(60e6, 3), [1, 2]);
  assert.deepEqual(kept(2e6, 6), [0, 1, 2, 3, 4, 5]);
});
