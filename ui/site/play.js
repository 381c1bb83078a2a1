// The page Play of the static arcade: a visitor plays, and then sees the agent play the same seed (see ui/play/tab.py).
import { make } from "../chunk.js";
import { mount as mountHuman } from "../play/play.js";
import { mount as mountPlayer } from "../watch/player.js";

/**
 * What the index says of the game.
 * @typedef {{ play: string, agent: string, usual: number, speeds: Record<string, string> }} Playing
 */

const SEED = /^[0-9]{1,9}$/;
const LAST_SEED = 1e9; // training has those above

/**
 * @param {HTMLElement} cabinet
 * @param {Playing} playing
 * @param {import("../watch/position.js").Source} source
 */
export function play(cabinet, { speeds, ...game }, source) {
  const asked = new URL(location.href).searchParams;
  if (!asked.has("play")) return location.replace(`?play=${game.play}`); // else the address belongs to another tab
  const element = /** @type {HTMLElement} */ (cabinet.querySelector(".arena"));
  const input = /** @type {HTMLInputElement} */ (cabinet.querySelector(".seed input"));
  const verdict = cabinet.querySelector(".verdict");
  const props = { value: null };
  let show = () => {};
  let rival = /** @type {HTMLElement | null} */ (null);

  const specOf = (/** @type {any} */ match) => ({ agent: game.agent, snapshot: 100, actions: "greedy", ...match });
  const live = source.live(specOf({}));
  const arena = {
    ...live,
    receive: (match, stop, take) => live.receive(specOf(match), stop, take),
    askRival: (match) => live.askRival(specOf(match)),
  };

  // The match that an address names, as far as it can be played here.
  function open(asked) {
    const seed = SEED.test(asked.get("seed")) ? Number(asked.get("seed")) : 0;
    const speed = Object.hasOwn(speeds, asked.get("speed")) ? Number(asked.get("speed")) : game.usual;
    const match = { play: game.play, seed, speed };
    props.value = { ...game, ...match, pace: speed === 100 ? "" : ` at ${speeds[speed]} speed` };
    input.value = String(seed);
    for (const radio of cabinet.querySelectorAll("input[type=radio]")) check(/** @type {HTMLInputElement} */ (radio), speed);
    verdict.querySelector(".missing")?.remove();
    const missing = Object.entries(match).some(([part, value]) => asked.has(part) && asked.get(part) !== String(value));
    if (missing) verdict.prepend(make("p", "missing", "The game that this link names cannot be played here; here is another one."));
    show();
  }

  function check(radio, speed) {
    radio.checked = Number(radio.value) === speed;
    radio.parentElement.classList.toggle("selected", radio.checked);
  }

  const go = (change) => open(new URLSearchParams(Object.entries({ ...props.value, ...change }).map(([part, value]) => [part, String(value)])));

  function leave() {
    rival?.remove();
    rival = null;
  }

  // The agent's game of the same seed, in a player of its own.
  function showRival({ seed }) {
    leave();
    rival = make("div", "player-box");
    rival.append(make("div", "player"));
    element.append(rival);
    const spec = specOf({ seed, protocol: "classic" });
    mountPlayer({ element: rival, props: { value: spec }, watch: () => {}, trigger: () => {} }, source);
  }

  const group = cabinet.querySelector(".wrap");
  for (const [value, words] of Object.entries(speeds).sort(([one], [other]) => Number(other) - Number(one))) {
    const label = make("label", "");
    label.append(make("input", "", "", { type: "radio", name: "speed", value }), make("span", "", words));
    group.append(label);
  }
  group.addEventListener("change", (event) => go({ speed: /** @type {HTMLInputElement} */ (event.target).value }));
  input.addEventListener("change", () => go({ seed: SEED.test(input.value) ? Number(input.value) : 0 }));
  cabinet.querySelector("button.quiet").addEventListener("click", () => go({ seed: (props.value.seed + 1) % LAST_SEED }));
  cabinet.querySelector("form").addEventListener("submit", (event) => event.preventDefault());

  const events = { begin: leave, over: showRival, visit: ({ query }) => open(new URLSearchParams(query)) };
  open(asked);
  mountHuman({ element, props, watch: (_, act) => (show = act), trigger: (event, data) => events[event](data) }, arena);
}
