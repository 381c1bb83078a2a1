// The pages of the static arcade. Everything that they ask for lies beside them.
import { mount as mountPlayer } from "../watch/player.js";
import { found, recordedGames } from "../watch/recorded.js";
import { make } from "../chunk.js";
import { MOST_LETTERS } from "../watch/takeovers.js";
import { playedHere } from "./played.js";

const SEED = /^[0-9]{1,9}$/;
const LAST_SEED = 1e9; // training has those above
const NUDGES = /^[0-9]{1,6}\.(left|right)(-[0-9]{1,6}\.(left|right)){0,19}$/;
const TAKEOVERS = /^[0-9]{1,6}\.([ab][0-9]{0,6})+(-[0-9]{1,6}\.([ab][0-9]{0,6})+)*$/;
const PARTS = ["agent", "snapshot", "protocol", "seed"];

/** @typedef {{ name: string, env: string, about: string, stages: Record<string, string> }} Agent */

/** @type {Promise<{ agents: Agent[], games: import("../watch/recorded.js").Recorded[],
 * played: Record<string, import("./played.js").Playable>, play: import("./play.js").Playing | null }>} */
const index = fetch(new URL("index.json", location.href)).then((answer) => answer.json());
const directory = new URL("games/", location.href);
const weights = new URL("weights/", location.href);
const sourceOf = ({ games, played }) => playedHere(played, weights, recordedGames(games, directory));

/**
 * Lets visitors choose among the games; each part of the choice offers what is recorded with the parts before it.
 * @param {HTMLElement} cabinet
 */
async function watch(cabinet) {
  const told = await index;
  const { agents, games, played } = told;
  const element = /** @type {HTMLElement} */ (cabinet.querySelector(".player-box"));
  const another = /** @type {HTMLElement} */ (cabinet.querySelector(".another"));
  const props = { value: null };
  let show = () => {};

  const values = (matching, part) => [...new Set(matching.map((game) => game[part]))];
  const words = {
    agent: (value) => value.replaceAll("_", "_\u200b"), // a long name may break there
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
      if (part === "seed" && played[agent.name] && SEED.test(asked.seed) && !offered.includes(Number(asked.seed))) {
        matching.push({ ...matching[0], seed: Number(asked.seed) }); // it is played here
        offered.push(Number(asked.seed));
      }
      const wanted = offered.find((value) => String(value) === String(asked[part])) ?? offered[0];
      const sorted = part === "snapshot" ? [...offered].sort((a, b) => a - b) : offered;
      lay(part, sorted, wanted, agent);
      matching = matching.filter((game) => game[part] === wanted);
    }
    lay("agent", agents.map(({ name }) => name), agent.name, agent);
    cabinet.querySelector(".verdict").innerHTML = agent.about; // our own HTML, made by ui/site/build.py
    another.hidden = following(matching[0]) === matching[0].seed;
    const [{ seed, snapshot, actions, protocol }] = matching;
    const nudges = played[agent.name] && NUDGES.test(asked.nudges) ? asked.nudges : "";
    const byHand = played[agent.name]?.about.controls && asked.takeovers?.length <= MOST_LETTERS && TAKEOVERS.test(asked.takeovers);
    const takeovers = byHand ? asked.takeovers : "";
    return { agent: agent.name, seed, snapshot, actions, protocol, nudges, takeovers };
  }

  // The seed after this one: the next number where games are played here, else the next that was recorded.
  function following({ agent, seed, snapshot, protocol }) {
    if (played[agent]) return (Number(seed) + 1) % LAST_SEED;
    const recorded = values(games.filter((game) => game.agent === agent && game.snapshot === snapshot && game.protocol === protocol), "seed");
    return recorded[(recorded.indexOf(seed) + 1) % recorded.length];
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

  // What can be watched beside a game: the same agent at other ages, and others that played the same game.
  function others(spec) {
    const there = (other) => played[other.agent ?? spec.agent] || found(games, { ...spec, ...other });
    const { env, stages } = agents.find(({ name }) => name === spec.agent);
    const ages = Object.keys(stages).map((age) => ({ snapshot: Number(age) }));
    const rivals = agents.filter((agent) => agent.env === env && agent.name !== spec.agent).map(({ name }) => ({ agent: name, snapshot: 100 }));
    return [...ages.filter(({ snapshot }) => snapshot !== spec.snapshot), ...rivals].filter(there);
  }

  function open(asked, at = null) {
    const spec = choose(asked);
    props.value = { ...spec, at, others: others(spec) };
    show();
    return spec;
  }

  const go = (change) => open({ ...props.value, nudges: "", takeovers: "", ...change });

  // The game that an address names.
  function arrive(asked) {
    const spec = open(Object.fromEntries(asked), asked.get("at"));
    const missing = Object.entries(spec).some(([part, value]) => asked.has(part) && asked.get(part) !== String(value));
    if (missing) cabinet.querySelector(".verdict").prepend(make("p", "", "The game that this link names was not recorded; here is another one."));
  }

  cabinet.addEventListener("change", (event) => {
    const input = /** @type {HTMLInputElement} */ (event.target);
    if (input.type !== "radio") return;
    go({ [input.name]: input.value });
  });
  another.addEventListener("click", () => go({ seed: String(following(props.value)) }));
  cabinet.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  arrive(new URL(location.href).searchParams);
  const source = sourceOf(told);
  const visit = (_, { query }) => arrive(new URLSearchParams(query));
  mountPlayer({ element, props, watch: (_, act) => (show = act), trigger: visit }, { ...source, another: () => (another.hidden ? null : another) });
}

/** @param {HTMLElement} element */
async function zoo(element) {
  const [{ games }, { mount }] = await Promise.all([index, import("../zoo_tab/zoo.js")]);
  mount({ element, props: {}, watch: () => {}, trigger: () => {} }, recordedGames(games, directory));
}

/** @param {HTMLElement} cabinet */
async function playByHand(cabinet) {
  const [told, { play }] = await Promise.all([index, import("./play.js")]);
  play(cabinet, told.play, sourceOf(told));
}

/** @param {HTMLElement} lesson */
async function how(lesson) {
  const { runTimelines } = await import("../how/how.js");
  runTimelines(lesson);
}

const pages = { "#watch": watch, "#play": playByHand, "#zoo": zoo, ".lesson": how };
for (const [selector, run] of Object.entries(pages)) {
  const part = /** @type {HTMLElement | null} */ (document.querySelector(selector));
  if (part) Promise.resolve(run(part)).catch(() => part.prepend(make("p", "", "A file of this page is missing. Reload it in a moment.")));
}
