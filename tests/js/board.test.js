// Days and shares on the board, without a page: node --test tests/js/board.test.js
import assert from "node:assert/strict";
import test from "node:test";

const { dayOf, isToday, share, written } = await import("../../ui/board/days.js");

test("a seed is a day's where it is its date, and no other's", () => {
  assert.equal(dayOf(20261124).toISOString().slice(0, 10), "2026-11-24");
  assert.equal(dayOf(20280229).toISOString().slice(0, 10), "2028-02-29");
  for (const seed of [0, 7, 20261100, 20261131, 20260229, 20261301, 2026112, 999_999_999, NaN]) assert.equal(dayOf(seed), null, String(seed));
});

test("a day is the one in UTC, wherever the visitor is", () => {
  const day = dayOf(20261124);
  assert.deepEqual(["2026-11-24T00:00:00Z", "2026-11-24T23:59:59+00:00", "2026-11-24T23:59:59-05:00"].map((now) => isToday(day, new Date(now))), [true, true, false]);
  assert.equal(written(day), "24 November");
});

test("only a game whose every step was played by hand is by hand alone", () => {
  const said = [[0, 500], [500, 500], [499, 500], [1, 5000], [130, 500]].map(([by_hand, steps]) => share({ by_hand, steps }));
  assert.deepEqual(said, ["agent", "by hand", "99 % by hand", "1 % by hand", "26 % by hand"]);
});
