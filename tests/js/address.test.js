// The address as the page's state, without a page: node --test tests/js/address.test.js
import assert from "node:assert/strict";
import test from "node:test";

const log = [];
const heard = {};
let inFront; // the tab that the page shows as selected
const stub = {
  document: { querySelector: () => inFront && { dataset: { tabId: inFront } } },
  location: new URL("https://user-arcade.hf.space/?agent=pong&__theme=dark"),
  history: Object.fromEntries(["pushState", "replaceState"].map((how) => [how, (state, _, href) => {
    log.push([how, href.replace(/^[^?]*\?/, "")]);
    stub.location.href = href;
    globalThis.history.state = state;
  }])),
  addEventListener: (event, act) => (heard[event] = act),
  window: { parent: { postMessage: (...told) => log.push(["told", ...told]) } },
};
Object.assign(globalThis, stub);
const { arrived, bring, mount, onReturn, shared, tabOf, tell, written } = await import("../../ui/address.js");

const logged = (act) => {
  log.length = 0;
  act();
  return log.filter(([how]) => how !== "told");
};

test("an address belongs to a tab", () => {
  const tabs = ["", "agent=pong", "play=pong&seed=1", "zoo=", "tab=how"].map((query) => tabOf(new URLSearchParams(query)));
  assert.deepEqual(tabs, ["watch", "watch", "play", "zoo", "how"]);
  assert.equal(written({ a: 1, b: null, c: undefined, d: "" }), "a=1&d=");
});

test("another game is another entry, another moment is not, and the entry that is left keeps its last", () => {
  bring("watch"); // where the page begins
  const pong = { agent: "pong", seed: 0 };
  assert.deepEqual(logged(() => tell("watch", pong)), [["replaceState", "agent=pong&seed=0&__theme=dark"]]);
  assert.deepEqual(logged(() => tell("watch", pong, { at: 7 })), []); // in a moment
  assert.deepEqual(logged(() => tell("watch", { agent: "pong", seed: 1 })), [
    ["replaceState", "agent=pong&seed=0&at=7&__theme=dark"],
    ["pushState", "agent=pong&seed=1&__theme=dark"],
  ]);
  assert.deepEqual(log.at(-1), ["told", { queryString: "agent=pong&seed=1", hash: "" }, "https://huggingface.co"]);
  assert.equal(shared(), "https://user-arcade.hf.space/?agent=pong&seed=1");
});

test("a tab that is not in front is remembered until it comes", () => {
  assert.deepEqual(logged(() => tell("play", { play: "breakout" })), []);
  assert.deepEqual(logged(() => bring("play")), [["pushState", "play=breakout&__theme=dark"]]);
  assert.deepEqual(logged(() => bring("how")), [["pushState", "tab=how&__theme=dark"]]);
});

test("a tab whose event comes after another tab's is no entry", () => {
  inFront = "how"; // it is in front already
  assert.deepEqual(logged(() => bring("watch")), []);
  inFront = undefined;
  assert.deepEqual(logged(() => tell("how", { tab: "how" }, {}, "pong")), [["replaceState", "tab=how&__theme=dark#pong"]]);
});

test("back leads to what a tab was, and what is told then is no news", () => {
  const asked = [];
  onReturn("watch", (query) => asked.push(String(query)));
  stub.location.search = "agent=pong&seed=0&at=7&__theme=dark";
  heard.popstate({ state: { what: "agent=pong&seed=0", moment: "at=7", hash: "" } });
  assert.deepEqual(asked, ["agent=pong&seed=0&at=7"]);
  assert.deepEqual(logged(() => tell("watch", { agent: "pong", seed: 0 }, { at: 7 })), []);
});

test("a tab that opens late, when the visitor has gone further back, is no entry", () => {
  const opened = [];
  mount({ trigger: (_, { tab }) => opened.push(tab) });
  bring("watch");
  bring("zoo");
  const back = (query) => {
    stub.location.search = query;
    heard.popstate({ state: null });
  };
  back("tab=retrain");
  back("agent=pendulum");
  assert.deepEqual(opened, ["retrain", "watch"]);
  assert.deepEqual(logged(() => bring("retrain")), []);
  assert.deepEqual(logged(() => bring("watch")), []);
  assert.deepEqual(logged(() => bring("retrain")), [["pushState", "tab=retrain"]]); // a visitor's click
});

test("the address stays until the server has been asked what it names", () => {
  mount({ trigger: () => {} }); // the tab retrain is in front
  assert.deepEqual(logged(() => tell("retrain", { tab: "retrain", lesson: 1 })), []);
  assert.deepEqual(logged(() => tell("retrain", { tab: "retrain", lesson: 2 })), []);
  assert.deepEqual(logged(arrived), [["replaceState", "tab=retrain&lesson=2"]]);
  assert.deepEqual(logged(() => tell("retrain", { tab: "retrain", lesson: 3 })), [["pushState", "tab=retrain&lesson=3"]]);
});

test("an answer that comes before the page's tabs counts too", () => {
  mount({ trigger: () => {} }); // after arrived(), above
  assert.deepEqual(logged(() => tell("retrain", { tab: "retrain", lesson: 4 })), [["pushState", "tab=retrain&lesson=4"]]);
});
