// The seed of the day (see ui/board/days.py): its date in UTC as a number. No page is needed for it.

/**
 * The day whose seed it is; null where it is no day's.
 * @param {number} seed
 */
export function dayOf(seed) {
  const [year, month, day] = [Math.floor(seed / 10_000), Math.floor(seed / 100) % 100, seed % 100];
  const found = new Date(Date.UTC(year, month - 1, day));
  const is = year >= 2000 && found.getUTCMonth() === month - 1 && found.getUTCDate() === day;
  return is ? found : null;
}

/**
 * Whether it is the day that a moment belongs to.
 * @param {Date} day
 * @param {Date} now
 */
export const isToday = (day, now = new Date()) => day.toISOString().slice(0, 10) === now.toISOString().slice(0, 10);

/**
 * A day as it is read.
 * @param {Date} day
 */
export const written = (day) => day.toLocaleDateString("en-GB", { day: "numeric", month: "long", timeZone: "UTC" });

/**
 * How much of a game its visitor has played, in words; none of an agent's own.
 * @param {{ by_hand: number, steps: number }} entry
 */
export function share({ by_hand, steps }) {
  if (!by_hand) return "agent";
  if (by_hand === steps) return "by hand";
  return `${Math.min(99, Math.max(1, Math.round((100 * by_hand) / steps)))} % by hand`;
}
