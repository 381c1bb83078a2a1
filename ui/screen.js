// Runs once per screen. `element`, `props` and `watch` are gradio's.

/** @param {import("./chunk.js").Host} host */
export function mount({ element, props, watch }) {
  const stage = element.querySelector(".stage");
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const PAUSE_AT_THE_END = 1200; // milliseconds to read the last picture

  function make(tag, className, text) {
    const made = document.createElement(tag);
    made.className = className;
    made.textContent = text;
    return made;
  }

  // The browser's own controls, while the mouse or the keyboard is there; a tap, which has neither, pauses and plays.
  function offerControls(picture) {
    picture.addEventListener("pointerenter", (event) => (picture.controls ||= event.pointerType === "mouse"));
    picture.addEventListener("focus", () => (picture.controls ||= picture.matches(":focus-visible")));
    for (const event of ["pointerleave", "blur"]) picture.addEventListener(event, () => (picture.controls = false));
    picture.addEventListener("click", () => picture.controls || (picture.paused ? picture.play() : picture.pause()));
  }

  function shot({ video, game, name, note, spoken }) {
    const picture = document.createElement("video");
    Object.assign(picture, { src: video.url, muted: true, playsInline: true, tabIndex: 0, autoplay: !still });
    picture.setAttribute("aria-label", spoken);
    picture.addEventListener("ended", again);
    offerControls(picture);
    const figure = make("figure", "shot", "");
    figure.dataset.game = game;
    const strip = make("figcaption", "strip", "");
    strip.append(make("span", "name", name), make("span", "note", note));
    figure.append(picture, strip);
    return figure;
  }

  function videos() {
    return [...stage.querySelectorAll("video")];
  }

  // All games begin anew together, when the longest is over.
  function again() {
    const playing = videos();
    if (still || !playing.every((video) => video.ended)) return;
    setTimeout(() => {
      if (playing.every((video) => video.isConnected && video.ended)) playing.forEach((video) => video.play());
    }, PAUSE_AT_THE_END);
  }

  // The curves of the same cabinet follow the first video: a line moves, and the number under it is shown.
  function follow() {
    const [video] = videos();
    if (video?.duration) {
      const share = video.currentTime / video.duration;
      for (const curve of /** @type {NodeListOf<HTMLElement>} */ (stage.closest(".cabinet")?.querySelectorAll("[data-numbers]")) ?? []) {
        const numbers = curve.dataset.numbers.split(" ");
        const now = Number(numbers[Math.min(numbers.length - 1, Math.floor(share * numbers.length))]);
        const x = String(share * 1000);
        const line = curve.querySelector(".playhead");
        line.setAttribute("x1", x);
        line.setAttribute("x2", x);
        const digits = numbers.every((text) => Number.isInteger(Number(text))) ? 0 : 1;
        curve.querySelector("output").textContent = now.toFixed(digits).replace("-", "−");
      }
    }
    if (stage.isConnected) requestAnimationFrame(follow);
  }

  function show() {
    stage.replaceChildren(...(props.value || []).map(shot));
    stage.classList.toggle("pair", stage.children.length > 1);
  }

  watch("value", show);
  show();
  requestAnimationFrame(follow);
}
