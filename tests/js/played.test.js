// Games that are played in the visitor's tab, without a page: node --test tests/js/played.test.js
import assert from "node:assert/strict";
import test from "node:test";

globalThis.window = /** @type {any} */ ({});
const { makePad, playedHere } = await import("../../ui/site/played.js");
const { add, written } = await import("../../ui/watch/takeovers.js");

// An agent that sees nothing: it always pushes to the left.
const SIZES = { "policy.logits.0.weight": [2, 4], "policy.logits.0.bias": [2], "value.0.weight": [1, 4], "value.0.bias": [1] };
let bytes = 0;
const tensors = Object.entries(SIZES).map(([name, shape]) => {
  const begin = bytes;
  bytes += 4 * shape.reduce((a, b) => a * b);
  return [name, { dtype: "F32", shape, data_offsets: [begin, bytes] }];
});
const head = Buffer.from(JSON.stringify(Object.fromEntries(tensors)));
const length = Buffer.alloc(8);
length.writeBigUInt64LE(BigInt(head.length));
globalThis.fetch = async () => new Response(Buffer.concat([length, head, Buffer.alloc(bytes)]));

const about = /** @type {any} */ ({ env: "CartPole-v1", rate: 50_000, actions: ["left", "right"] }); // a game within milliseconds
const agents = { blind: { weights: { 100: "weights" }, shift: 0, scale: 1, about } };
const source = playedHere(agents, new URL("http://localhost/"), /** @type {any} */ ({}));
const spec = { agent: "blind", seed: 7, snapshot: 100, actions: "greedy" };

test("a game that is taken over replays to the same score", async () => {
  const { receive, tell, askRival } = source.live(spec);
  const takeovers = [];
  const steps = [];
  let id = "";
  const refused = await receive({ ...spec, from: "3", speed: "100" }, new AbortController().signal, ({ header }) => {
    if (header.live) return tell((id = header.live.id), 0, ["right"]);
    steps.push(header);
    if (header.by_hand[0]) add(takeovers, header.first, header.actions[0]);
    if (header.first === 8) tell(id, 1, ["agent"]);
  });
  assert.equal(refused, "");
  assert.equal(written(takeovers), "3.b6");
  assert.deepEqual(steps.map(({ first }) => first), steps.map((_, i) => 3 + i));
  assert.deepEqual(steps.map(({ over }) => over), steps.map((step) => step === steps.at(-1)));
  const [mine, alone] = [await askRival({ ...spec, takeovers: "3.b6" }), await askRival(spec)];
  assert.deepEqual(mine, { return: 3 + steps.length, over: true });
  assert.ok(alone.return < mine.return);
});

test("only what is played here can be taken over", () => {
  assert.equal(source.live({ ...spec, actions: "sampled" }), null);
  assert.equal(source.live({ ...spec, agent: "pong" }), null);
  assert.equal(source.live({ ...spec, snapshot: 3 }), null);
});

test("a pad takes what was pressed last, however briefly, and goes on with it", () => {
  const pad = makePad(["left", "right"]);
  assert.equal(pad.action(), 0);
  pad.hold(["right"]);
  pad.hold([]);
  assert.equal(pad.action(), 1);
  assert.equal(pad.action(), 1);
  pad.hold(["right", "left"]);
  assert.equal(pad.action(), 0);
  pad.hold(["agent"]);
  assert.ok(pad.handedBack());
});
