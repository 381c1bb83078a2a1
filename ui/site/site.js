// The pages of the static arcade. Everything that they ask for lies beside them.
import { mount as mountZoo } from "../agents/zoo.js";
import { runTimelines } from "../how/how.js";
import { query } from "../watch/live.js";
import { mount as mountPlayer } from "../watch/player.js";
import { found, recordedGames } from "../watch/recorded.js";
import { make } from "../chunk.js";

const PARTS = ["agent", "snapshot", "protocol", "seed"];

/** @typedef {{ name: string, env: string, about: string, stages: Record<string, string> }} Agent */

/** @type {Promise<{ agents: Agent[], games: import("../watch/recorded.js").Recorded[] }>} */
const index = fetch(new URL("index.json", location.href)).then((answer) => answer.json());
const directory = new URL("games/", location.href);

/**
 * Lets visitors choose among the games; each part of the choice offers what is recorded with the parts before it.
 * @param {HTMLElement} cabinet
 */
async function watch(cabinet) {
  const { agents, games } = await index;
  const element = /** @type {HTMLElement} */ (cabinet.querySelector(".player-box"));
  const props = { value: null };
  let show = () => {};

  const values = (matching, part) => [...new Set(matching.map((game) => game[part]))];
  const words = {
    agent: (value) => value,
    snapshot: (value, agent) => agent.stages[value],
    protocol: (value) => value,
    seed: (value) => String(value),
  };

  // The game that is nearest to what is asked for: of each part what was asked, or the first that there is.
  function choose(asked) {
    const agent = agents.find(({ name }) => name === asked.agent) ?? agents[0];
    let matching = games.filter((game) => game.agent === agent.name);
    for (const part of PARTS.slice(1)) {
      const offered = values(matching, part);
      const wanted = offered.find((value) => String(value) === String(asked[part])) ?? offered[0];
      const sorted = part === "snapshot" ? [...offered].sort((a, b) => a - b) : offered;
      lay(part, sorted, wanted, agent);
      matching = matching.filter((game) => game[part] === wanted);
    }
    lay("agent", agents.map(({ name }) => name), agent.name, agent);
    cabinet.querySelector(".verdict").innerHTML = agent.about; // our own HTML, made by ui/site/build.py
    const [{ seed, snapshot, actions, protocol }] = matching;
    return { agent: agent.name, seed, snapshot, actions, protocol };
  }

  function lay(part, offered, wanted, agent) {
    const group = /** @type {HTMLElement} */ (cabinet.querySelector(`[data-part="${part}"]`));
    const wrap = group.querySelector(".wrap");
    group.hidden = offered.length < 2;
    const before = [...wrap.querySelectorAll("input")].map(({ value }) => value).join();
    if (before !== offered.join()) {
      wrap.replaceChildren(
        ...offered.map((value) => {
          const label = make("label", "");
          label.append(make("input", "", "", { type: "radio", name: part, value }), make("span", "", words[part](value, agent)));
          return label;
        }),
      );
    }
    for (const input of wrap.querySelectorAll("input")) {
      input.checked = input.value === String(wanted);
      input.parentElement.classList.toggle("selected", input.checked);
    }
  }

  function open(asked, at = null) {
    const ticket = choose(asked);
    props.value = { ...ticket, at };
    show();
    return ticket;
  }

  function arrive() {
    const asked = new URL(location.href).searchParams;
    open(Object.fromEntries(asked), asked.get("at"));
    const missing = asked.has("agent") && !found(games, /** @type {any} */ ({ ...Object.fromEntries(asked), nudges: undefined }));
    if (missing) cabinet.querySelector(".verdict").prepend(make("p", "", "The game of this link was not recorded; here is another one."));
  }

  cabinet.addEventListener("change", (event) => {
    const input = /** @type {HTMLInputElement} */ (event.target);
    if (input.type !== "radio") return;
    const { actions, ...now } = props.value;
    const ticket = open({ ...now, [input.name]: input.value });
    const address = new URL(location.href);
    address.search = String(query(ticket));
    history.pushState(null, "", address);
  });
  window.addEventListener("popstate", arrive);
  cabinet.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  arrive();
  mountPlayer({ element, props, watch: (_, act) => (show = act) }, recordedGames(games, directory));
}

/** @param {HTMLElement} element */
async function zoo(element) {
  const { games } = await index;
  mountZoo({ element, props: {}, watch: () => {}, trigger: () => {} }, recordedGames(games, directory));
}

const pages = { "#watch": watch, "#zoo": zoo, ".lesson": runTimelines };
for (const [selector, run] of Object.entries(pages)) {
  const part = /** @type {HTMLElement | null} */ (document.querySelector(selector));
  if (part) Promise.resolve(run(part)).catch(() => part.prepend(make("p", "", "A file of this page is missing. Reload it in a moment.")));
}
