// CartPole and Pendulum in the browser: Gymnasium's arithmetic, the agent's network, and the same pushes and takeovers.

import { read } from "../watch/takeovers.js";

// --- Chance: numpy's SeedSequence and PCG64, which give a seed its first state ---

const MASK32 = 0xffffffffn;
const MASK64 = (1n << 64n) - 1n;
const MASK128 = (1n << 128n) - 1n;

/**
 * @param {bigint[]} entropy words of 32 bits
 * @returns {bigint[]} four words of 64 bits
 */
function seedSequence(entropy) {
  let constant = 0x43b0d7e5n;
  const hashed = (value) => {
    value ^= constant;
    constant = (constant * 0x931e8875n) & MASK32;
    value = (value * constant) & MASK32;
    return value ^ (value >> 16n);
  };
  const mixed = (one, other) => {
    const value = BigInt.asUintN(32, 0xca01f9ddn * one - 0x4973f715n * other);
    return value ^ (value >> 16n);
  };
  const pool = [0, 1, 2, 3].map((i) => hashed(entropy[i] ?? 0n));
  for (let from = 0; from < 4; from++) {
    for (let to = 0; to < 4; to++) if (from !== to) pool[to] = mixed(pool[to], hashed(pool[from]));
  }
  let output = 0x8b51f9ddn;
  const words = Array.from({ length: 8 }, (_, i) => {
    let value = pool[i % 4] ^ output;
    output = (output * 0x58f38dedn) & MASK32;
    value = (value * output) & MASK32;
    return value ^ (value >> 16n);
  });
  return [0, 2, 4, 6].map((i) => words[i] | (words[i + 1] << 32n));
}

/**
 * numpy's `default_rng(seed).random`: numbers from 0 to below 1.
 * @param {number} seed
 */
export function randomOf(seed) {
  const entropy = [BigInt(seed) & MASK32, BigInt(seed) >> 32n];
  const [high, low, sequenceHigh, sequenceLow] = seedSequence(entropy);
  const increment = ((((sequenceHigh << 64n) | sequenceLow) << 1n) | 1n) & MASK128;
  const next = (state) => (state * 0x2360ed051fc65da44385df649fccf645n + increment) & MASK128;
  let state = next((increment + ((high << 64n) | low)) & MASK128);
  return () => {
    state = next(state);
    const value = (state >> 64n) ^ (state & MASK64);
    const turn = state >> 122n;
    const turned = ((value >> turn) | (value << (64n - turn) % 64n)) & MASK64;
    return Number(turned >> 11n) / 2 ** 53;
  };
}

// --- The network ---

/** @typedef {(input: number[]) => number[]} Layers */

/**
 * The tensors of a safetensors file.
 * @param {ArrayBuffer} buffer
 * @returns {Record<string, { shape: number[], values: Float32Array }>}
 */
export function tensorsOf(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  delete head.__metadata__;
  return Object.fromEntries(
    Object.entries(head).map(([name, { shape, data_offsets: [begin, end] }]) => {
      return [name, { shape, values: new Float32Array(buffer.slice(8 + length + begin, 8 + length + end)) }];
    }),
  );
}

/**
 * Linear layers with tanh between them, in double precision, as Python's playback computes them.
 * @param {ReturnType<typeof tensorsOf>} tensors
 * @param {string} name of all of them
 * @returns {Layers}
 */
function layersOf(tensors, name) {
  const numbers = Object.keys(tensors)
    .map((key) => (key.startsWith(`${name}.`) && key.endsWith(".weight") ? Number(key.split(".").at(-2)) : NaN))
    .filter((number) => number >= 0)
    .sort((a, b) => a - b);
  const layers = numbers.map((number) => [tensors[`${name}.${number}.weight`], tensors[`${name}.${number}.bias`]]);
  return (input) =>
    layers.reduce((inputs, [{ values }, bias], i) => {
      const outputs = Array.from(bias.values, (constant, row) => {
        return inputs.reduce((total, each, column) => total + each * values[row * inputs.length + column], constant);
      });
      return i + 1 < layers.length ? outputs.map(Math.tanh) : outputs;
    }, input);
}

// --- The games ---

/** @typedef {{ state: number[], reward: number, over: boolean }} Moment */

/**
 * A game: how it begins, how a step goes, what a push does, how it is drawn.
 * @typedef {object} Rules
 * @property {number} steps after which it is over at the latest
 * @property {number[]} bounds of the first state, which is drawn evenly from between them
 * @property {(state: number[]) => number[]} seen what the agent sees
 * @property {(head: number[]) => any} choice the action that a policy's head says: a number, or real numbers
 * @property {(state: number[], action: any) => Moment} step
 * @property {(state: number[], direction: number) => number[]} push
 * @property {(pen: CanvasRenderingContext2D, state: number[]) => void} draw
 */

const TAU = 0.02;
const [GRAVITY, POLE_MASS, TOTAL_MASS, HALF_POLE, FORCE] = [9.8, 0.1, 1.1, 0.5, 10];
const LEANS_TOO_FAR = (12 * 2 * Math.PI) / 360;
const clipped = (value, most) => Math.max(-most, Math.min(most, value));

/** @type {Record<string, Rules>} */
export const RULES = {
  "CartPole-v1": {
    steps: 500,
    bounds: [0.05, 0.05, 0.05, 0.05],
    seen: (state) => state.map(Math.fround),
    choice: (logits) => logits.indexOf(Math.max(...logits)),
    step([x, speed, lean, turn], action) {
      const force = action === 1 ? FORCE : -FORCE;
      const [cos, sin] = [Math.cos(lean), Math.sin(lean)];
      const temp = (force + POLE_MASS * HALF_POLE * (turn * turn) * sin) / TOTAL_MASS;
      const turning = (GRAVITY * sin - cos * temp) / (HALF_POLE * (4 / 3 - (POLE_MASS * (cos * cos)) / TOTAL_MASS));
      const speeding = temp - (POLE_MASS * HALF_POLE * turning * cos) / TOTAL_MASS;
      const state = [x + TAU * speed, speed + TAU * speeding, lean + TAU * turn, turn + TAU * turning];
      const over = Math.abs(state[0]) > 2.4 || Math.abs(state[2]) > LEANS_TOO_FAR;
      // Rounded as in Python, since sines differ between browsers in the last digit: a link shows the same game everywhere.
      return { state: state.map(Math.fround), reward: 1, over };
    },
    push: ([x, speed, lean, turn], direction) => [x, speed, lean, turn + 0.7 * direction],
    draw(pen, [x, , lean]) {
      const [left, ground] = [300 + 125 * x, 300];
      pen.fillStyle = "#000";
      pen.fillRect(0, ground, 600, 1);
      pen.fillRect(left - 25, ground - 15, 50, 30);
      pen.translate(left, ground - 7.5);
      pen.rotate(lean);
      pen.fillStyle = "#ca9865";
      pen.fillRect(-5, -120, 10, 125);
      pen.fillStyle = "#8184cb";
      pen.beginPath();
      pen.arc(0, 0, 5, 0, 2 * Math.PI);
      pen.fill();
    },
  },
  "Pendulum-v1": {
    steps: 200,
    bounds: [Math.PI, 1],
    seen: ([angle, speed]) => [Math.cos(angle), Math.sin(angle), speed].map(Math.fround),
    choice: (means) => means,
    step([angle, speed], [mean]) {
      const torque = 2 * clipped(mean, 1);
      const circle = 2 * Math.PI;
      const upright = ((((angle + Math.PI) % circle) + circle) % circle) - Math.PI;
      const reward = -(upright ** 2 + 0.1 * speed ** 2 + 0.001 * torque ** 2);
      const faster = clipped(speed + (15 * Math.sin(angle) + 3 * torque) * 0.05, 8);
      return { state: [angle + faster * 0.05, faster], reward, over: false };
    },
    push: ([angle, speed], direction) => [angle, clipped(speed - 2 * direction * (Math.sign(Math.cos(angle)) || 1), 8)],
    draw(pen, [angle]) {
      const unit = 500 / 4.4;
      pen.translate(250, 250);
      pen.rotate(-angle);
      pen.lineCap = "round";
      pen.lineWidth = 0.2 * unit;
      pen.strokeStyle = "#cc4d4d";
      pen.beginPath();
      pen.moveTo(0, 0);
      pen.lineTo(0, -unit);
      pen.stroke();
      pen.fillStyle = "#000";
      pen.beginPath();
      pen.arc(0, 0, 0.05 * unit, 0, 2 * Math.PI);
      pen.fill();
    },
  },
};

/**
 * The first state of a seed, as Gymnasium draws it.
 * @param {Rules} rules
 * @param {number} seed
 */
export function begun({ bounds }, seed) {
  const random = randomOf(seed);
  return bounds.map((most) => -most + (most - -most) * random());
}

/**
 * One step of a game, with the state that it led to.
 * @typedef {Moment & { seen: number[], head: number[], value: number, action: any }} Step
 */

/** @typedef {(step: number) => number | undefined} Hand the action to take in the agent's place, if any */

/**
 * The steps of a game, each with the likeliest action unless the hand plays it.
 * @param {string} env
 * @param {ReturnType<typeof tensorsOf>} tensors
 * @param {number} seed
 * @param {string} nudges as an address names them
 * @param {Hand} hand
 * @returns {Generator<Step, void>}
 */
export function* stepsOf(env, tensors, seed, nudges, hand) {
  const rules = RULES[env];
  const heads = layersOf(tensors, tensors["policy.log_std"] ? "policy.mean" : "policy.logits");
  const values = layersOf(tensors, "value");
  const pushes = nudges ? nudges.split("-").map((text) => text.split(".")) : [];
  const pushed = (state, step) =>
    pushes.filter(([when]) => Number(when) === step).reduce((now, [, side]) => rules.push(now, side === "left" ? -1 : 1), state);
  let state = begun(rules, seed);
  for (let step = 0; step < rules.steps; step++) {
    state = pushed(state, step);
    const seen = rules.seen(state);
    const head = heads(seen);
    const action = hand(step) ?? rules.choice(head);
    const moment = rules.step(state, action);
    const over = moment.over || step + 1 === rules.steps;
    yield { ...moment, over, seen, head, value: values(seen)[0], action };
    if (over) return;
    state = moment.state;
  }
}

/**
 * The hand that plays the steps of an address again.
 * @param {string} takeovers
 * @returns {Hand}
 */
export function replayed(takeovers) {
  const actions = read(takeovers).flatMap(({ step, runs }) => runs.flatMap(({ action, count }) => Array(count).fill(action)).map((action, i) => [step + i, action]));
  const byStep = new Map(/** @type {[number, number][]} */ (actions));
  return (step) => byStep.get(step);
}

/**
 * A whole game.
 * @param {string} env
 * @param {ReturnType<typeof tensorsOf>} tensors
 * @param {number} seed
 * @param {string} nudges
 * @param {string} takeovers
 * @returns {{ begin: number[], steps: Step[] }}
 */
export function play(env, tensors, seed, nudges = "", takeovers = "") {
  return { begin: begun(RULES[env], seed), steps: [...stepsOf(env, tensors, seed, nudges, replayed(takeovers))] };
}
