// The player's keys, which are YouTube's, and the dialog that lists them.
import { make } from "../chunk.js";

/**
 * What keys ask of a player. Seconds are of the game's time.
 * @typedef {object} Acts
 * @property {() => void} toggle plays or pauses
 * @property {(count: number) => void} step pauses and moves by so many steps
 * @property {(seconds: number) => void} skip moves by so many seconds
 * @property {(share: number) => void} seek goes to a share of the game, from 0 to 1
 * @property {(count: number) => void} speed takes the next higher or lower speed
 * @property {(() => void) | undefined} [takeOver] takes the controls, where the player's games can be played by hand
 * @property {() => void} fill fills the screen, or leaves it
 */

/** @type {{ keys: string[], shown: string, does: string, only?: keyof Acts, act: (acts: Acts, key: string) => void }[]} */
export const KEYS = [
  { keys: [" ", "k"], shown: "Space or K", does: "Play or pause", act: (acts) => acts.toggle() },
  { keys: ["ArrowLeft"], shown: "←", does: "5 seconds back", act: (acts) => acts.skip(-5) },
  { keys: ["ArrowRight"], shown: "→", does: "5 seconds forward", act: (acts) => acts.skip(5) },
  { keys: ["j"], shown: "J", does: "10 seconds back", act: (acts) => acts.skip(-10) },
  { keys: ["l"], shown: "L", does: "10 seconds forward", act: (acts) => acts.skip(10) },
  { keys: [","], shown: ", (comma)", does: "One step back", act: (acts) => acts.step(-1) },
  { keys: ["."], shown: ". (full stop)", does: "One step forward", act: (acts) => acts.step(1) },
  { keys: [..."0123456789"], shown: "0 to 9", does: "To 0 to 90 % of the game", act: (acts, key) => acts.seek(Number(key) / 10) },
  { keys: ["Home"], shown: "Home", does: "To the beginning", act: (acts) => acts.seek(0) },
  { keys: ["End"], shown: "End", does: "To the end", act: (acts) => acts.seek(1) },
  { keys: ["<"], shown: "<", does: "Slower", act: (acts) => acts.speed(-1) },
  { keys: [">"], shown: ">", does: "Faster", act: (acts) => acts.speed(1) },
  { keys: ["t"], shown: "T", does: "Take over, or hand the controls back", only: "takeOver", act: (acts) => acts.takeOver?.() },
  { keys: ["f"], shown: "F", does: "Full screen; F or Escape leaves it", act: (acts) => acts.fill() },
];

/**
 * The entry of the key that was pressed; none where the browser or a button has its own use for it.
 * @param {{ key: string, ctrlKey?: boolean, metaKey?: boolean, altKey?: boolean, target?: { tagName?: string } | null }} event
 */
export function entryOf({ key, ctrlKey, metaKey, altKey, target }) {
  if (ctrlKey || metaKey || altKey || target?.tagName === "SELECT" || (key === " " && target?.tagName === "BUTTON")) return undefined;
  const lower = key.length === 1 ? key.toLowerCase() : key; // with Caps Lock too
  return KEYS.find(({ keys }) => keys.includes(lower));
}

/**
 * Listens to the keys of a player, `?` included.
 * @param {HTMLElement} root
 * @param {(label: string, text: string, act: () => void) => HTMLButtonElement} button
 * @param {Acts} acts
 */
export function listenToKeys(root, button, acts) {
  const dialog = /** @type {HTMLDialogElement} */ (make("dialog", "shortcuts", "", { "aria-label": "Keys of the player" }));
  const list = make("dl", "");
  for (const { shown, does } of KEYS.filter(({ only }) => !only || acts[only])) list.append(make("dt", "", shown), make("dd", "", does));
  list.append(make("dt", "", "?"), make("dd", "", "This list"));
  const close = button("Close (Escape)", "Close", () => dialog.close());
  dialog.append(make("h3", "", "Keys of the player"), list, close);
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close()); // its backdrop
  root.append(dialog);
  root.addEventListener("keydown", (/** @type {any} */ event) => {
    if (dialog.open) return;
    const entry = entryOf(event);
    if (event.key === "?") dialog.showModal();
    else if (entry) entry.act(acts, event.key);
    else return;
    event.preventDefault();
  });
  return button("Keys (?)", "?", () => dialog.showModal());
}
