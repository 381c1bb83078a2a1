// The player's keys, without a page: node --test tests/js/keys.test.js
import assert from "node:assert/strict";
import test from "node:test";

globalThis.window = /** @type {any} */ ({});
const { KEYS, entryOf } = await import("../../ui/watch/player_keys.js");

const asked = (event) => {
  const calls = [];
  const acts = new Proxy({}, { get: (_, name) => (...values) => calls.push([name, ...values]) });
  entryOf(event)?.act(/** @type {any} */ (acts), event.key);
  return calls;
};

test("keys do what they do on YouTube, with Caps Lock too", () => {
  assert.deepEqual(asked({ key: "K" }), [["toggle"]]);
  assert.deepEqual(asked({ key: "ArrowLeft" }), [["skip", -5]]);
  assert.deepEqual(asked({ key: "l" }), [["skip", 10]]);
  assert.deepEqual(asked({ key: "," }), [["step", -1]]);
  assert.deepEqual(asked({ key: "7" }), [["seek", 0.7]]);
  assert.deepEqual(asked({ key: ">" }), [["speed", 1]]);
  assert.deepEqual(asked({ key: "t" }), [["takeOver"]]);
});

test("the browser's own shortcuts, a button's space and a list's keys are left alone", () => {
  assert.deepEqual(asked({ key: "End", target: { tagName: "SELECT" } }), []);
  assert.deepEqual(asked({ key: "l", ctrlKey: true }), []);
  assert.deepEqual(asked({ key: " ", target: { tagName: "BUTTON" } }), []);
  assert.deepEqual(asked({ key: " ", target: { tagName: "CANVAS" } }), [["toggle"]]);
  assert.deepEqual(asked({ key: "x" }), []);
});

test("no key is listed twice, and each says what it does", () => {
  const all = KEYS.flatMap(({ keys }) => keys);
  assert.equal(new Set(all).size, all.length);
  assert.ok(KEYS.every(({ shown, does }) => shown && does));
});
