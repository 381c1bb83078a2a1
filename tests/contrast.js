// What on the page is too faint to read: text whose contrast with what is behind it is less than WCAG 2.1, 1.4.3 asks for.
() => {
  const MANY_COLOURS = null; // a gradient or a picture is behind it: looked at by eye
  const faint = new Set();

  const channels = (colour) => {
    const [red, green, blue, alpha = 1] = colour.match(/[\d.]+/g).map(Number);
    return [red, green, blue, alpha];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const linear = (channel) => (channel <= 10 ? channel / 255 / 12.92 : ((channel / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([red, green, blue]) => 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  const ancestors = (element) => (element ? [element, ...ancestors(element.parentElement)] : []);

  const behind = (element) => {
    let colour = [255, 255, 255];
    for (const each of ancestors(element).reverse()) {
      const { backgroundImage, backgroundColor } = getComputedStyle(each);
      if (backgroundImage !== "none") return MANY_COLOURS;
      colour = over(channels(backgroundColor), colour);
    }
    return colour;
  };

  const look = (element, colour, text) => {
    const seen = element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    const below = behind(element);
    if (!seen || below === MANY_COLOURS || element.closest("[disabled]") || colour === "none") return;
    const front = channels(colour);
    for (const each of ancestors(element)) front[3] *= getComputedStyle(each).opacity;
    const [light, dark] = [over(front, below), below].map(luminance).sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    const { fontSize, fontWeight } = getComputedStyle(element);
    const large = parseFloat(fontSize) >= (fontWeight >= 700 ? 18.66 : 24);
    if (ratio < (large ? 3 : 4.5)) faint.add(`${text.trim()}: ${ratio.toFixed(1)}`);
  };

  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let looked = 0;
  while (texts.nextNode()) {
    const { parentElement: element, textContent: text } = texts.currentNode;
    if (!text.trim()) continue;
    looked += 1;
    look(element, getComputedStyle(element)[element instanceof SVGElement ? "fill" : "color"], text);
  }
  for (const field of document.querySelectorAll("[placeholder]")) {
    look(field, getComputedStyle(field, "::placeholder").color, field.placeholder);
  }
  return { looked, faint: [...faint] };
}
