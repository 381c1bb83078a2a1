// What all who show streamed games share: where the server is, how parts of the page are made, how chunks become pictures
// (see ui/broadcast/chunks.py).
const base = (window.gradio_config?.root || "").replace(/\/$/, "");

function make(tag, className, text = "", attributes = {}) {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

const minus = (text) => text.replace("-", "−");
const brief = (value) => minus(Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(1));

// A chunk's header, and its pictures as they were packed.
function opened(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  return { header: JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))), data: buffer.slice(4 + length) };
}

// The pictures of a chunk, of `size` pixels each, as numbers of colours. Four pixels at a time are added to those of the
// picture before: all games' pictures have a multiple of four.
async function unpacked(data, size) {
  const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const colours = new Uint32Array(256);
  for (let i = 0; i < 256; i++) colours[i] = 0xff000000 | (bytes[3 * i + 2] << 16) | (bytes[3 * i + 1] << 8) | bytes[3 * i];
  const fours = new Uint32Array(bytes.buffer, 768);
  for (let i = size / 4; i < fours.length; i++) fours[i] ^= fours[i - size / 4];
  return { colours, frames: bytes.subarray(768), size };
}

function paint(canvas, { colours, frames, size }, index) {
  const image = new ImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < size; i++) pixels[i] = colours[frames[index * size + i]];
  canvas.getContext("2d").putImageData(image, 0, 0);
}

const TALLEST = 0.72; // of the window: below the picture stands what moves it
const ENOUGH = 0.88; // of the room's width
const BENT = 0.06; // how far whole pixels may be from the true shape

// Gives the box of a picture, whose shape is its width by its height, as much room as there is. Of one that is drawn in
// few columns and rows, `cells`, each gets a whole number of the screen's pixels where that costs little: columns of four
// and five pixels in turn spoil what is small.
function lay(box, shape, cells) {
  const shot = box.parentElement;
  const room = shot.clientWidth - 2 * parseFloat(getComputedStyle(shot).paddingLeft);
  if (room <= 0) return; // another tab is in front
  const most = Math.min(room, TALLEST * innerHeight * shape);
  const [width, height] = (cells && wholly(most * devicePixelRatio, shape, cells)) || [most, most / shape];
  Object.assign(box.style, { width: `${width}px`, height: `${height}px`, marginLeft: `${Math.floor((room - width) / 2)}px` });
}

function wholly(most, shape, [columns, rows]) {
  for (let across = Math.floor(most / columns); across * columns > ENOUGH * most; across--) {
    const [width, height] = [across * columns, Math.round((across * columns) / shape / rows) * rows];
    if (Math.abs((height * shape) / width - 1) < BENT) return [width / devicePixelRatio, height / devicePixelRatio];
  }
  return null;
}

// Calls `act` when the room for an element may be another. A frame later: it changes the size that is observed.
function whenResized(watched, act) {
  const later = () => requestAnimationFrame(act);
  new ResizeObserver(later).observe(watched);
  addEventListener("resize", later);
}
