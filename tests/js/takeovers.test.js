// Takeovers in an address, without a page: node --test tests/js/takeovers.test.js
import assert from "node:assert/strict";
import test from "node:test";

globalThis.window = /** @type {any} */ ({});
const { add, endOf, read, until, written } = await import("../../ui/watch/takeovers.js");
const { append, forked, fresh } = await import("../../ui/watch/position.js");

const TEXT = "412.d2a12-640.c8";

test("an address is read and written as the server does it", () => {
  assert.deepEqual(read(TEXT), [
    { step: 412, runs: [{ action: 3, count: 2 }, { action: 0, count: 12 }] },
    { step: 640, runs: [{ action: 2, count: 8 }] },
  ]);
  assert.equal(written(read(TEXT)), TEXT);
  assert.deepEqual(read(""), []);
  assert.deepEqual(read(TEXT).map(endOf), [426, 648]);
});

test("steps are added to the run that they go on with, and a game has one spelling", () => {
  const takeovers = [];
  for (const [step, action] of [[412, 3], [413, 3], [414, 0], [640, 2], [641, 2]]) add(takeovers, step, action);
  assert.equal(written(takeovers), "412.d2a-640.c2");
  const taken = until(read(TEXT), 414);
  add(taken, 414, 3);
  assert.equal(written(taken), "412.d3");
});

test("what was played before a step", () => {
  assert.deepEqual([412, 413, 420, 640, 641].map((step) => written(until(read(TEXT), step))), [
    "", "412.d", "412.d2a6", "412.d2a12", "412.d2a12-640.c",
  ]);
});

test("another game keeps the chunks that are whole, a live one all steps up to its first", () => {
  const game = fresh(/** @type {any} */ ({ agent: "breakout" }));
  game.about = /** @type {any} */ ({ width: 2, height: 2 });
  for (const first of [0, 2]) {
    const told = { first, over: false, pictures: [2, 2], actions: [1, 2], values: [0, 0], rewards: [1, 1], policies: [[], []] };
    append(game, /** @type {any} */ (told), {});
  }
  const [whole, exact] = [false, true].map((exactly) => forked(game, { agent: "breakout", takeovers: "3.a" }, 3, exactly));
  assert.deepEqual([whole, exact].map(({ chunks, pictures, steps }) => [chunks.length, pictures, steps.returns]), [
    [1, 4, [1, 2]],
    [2, 6, [1, 2, 3]],
  ]);
  assert.equal(whole.about.takeovers, "3.a");
});
