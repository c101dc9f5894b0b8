// The page: asks the server for steps of the tissue, draws them, and shows what was clicked on.
import { Chart, shortNumber, swatch } from "./charts.js";

const LINES = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"];
const INK = [44, 50, 62], PAPER = [255, 255, 255], CHOSEN = [170, 51, 119];
const SPEEDS = [1, 2, 5, 10, 20, 50, 100, 200];
const FRAME = 40; // milliseconds from one frame to the next at least
const NOWHERE = -1;
const THICK = 5; // pixels per site from which lines are two pixels wide

const $ = (id) => document.getElementById(id);
const state = { about: null, map: null, ids: null, said: null, rows: [], charts: [], running: false, chosen: null, queue: Promise.resolve() };

// -- the server ---------------------------------------------------------------------------------------------------

async function ask(name, body) {
  const answer = await fetch(name, body === undefined ? {} : { method: "POST", body: JSON.stringify(body) });
  if (!answer.ok) {
    const said = await answer.json().catch(() => ({}));
    throw new Error(said.error || "The tissue cannot be reached: start neuralcpm view again.");
  }
  return answer;
}

// One request after the other: a slider that is drawn fast must not overtake itself.
function inTurn(work) {
  const next = state.queue.then(work).then(() => complain(""), (error) => { pause(); complain(error.message); });
  state.queue = next;
  return next;
}

function complain(sentence) {
  $("error").textContent = sentence === "Failed to fetch" ? "The program has ended: start neuralcpm view again." : sentence;
  $("error").hidden = !sentence;
}

const view = () => ({ axis: Number($("axis").value), index: Number($("index").value) });
const query = () => new URLSearchParams(view()).toString();

async function takeFrame(answer) {
  const buffer = await answer.arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  state.said = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  state.ids = new Int32Array(buffer, 4 + length);
  const last = state.rows[state.rows.length - 1];
  if (!last || state.said.row.mcs > last.mcs) state.rows.push(state.said.row);
  show();
}

// -- drawing ------------------------------------------------------------------------------------------------------

async function loadPlane() {
  const buffer = await (await ask(`plane?${query()}`)).arrayBuffer();
  const [height, width] = new Uint32Array(buffer, 0, 2);
  state.map = new Int32Array(buffer, 8);
  const canvas = $("tissue");
  canvas.width = width;
  canvas.height = height;
  // how wide one site is: the first run of one site in the middle row
  const middle = Math.floor(height / 2) * width, half = Math.floor(width / 2);
  let run = 1;
  while (half + run < width && state.map[middle + half + run] === state.map[middle + half]) run += 1;
  state.line = run >= THICK ? 2 : 1;
}

const packed = ([red, green, blue]) => (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
const channels = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));

function draw() {
  const canvas = $("tissue"), { width, height } = canvas, { map, ids, about, line } = state;
  const colours = about.cell_types.map((type) => packed(channels(about.colours[Math.max(type, 0)])));
  const striped = new Set($("outside").checked ? state.said.outside : []);
  const stripes = about.cell_types.map((type) => packed(channels(about.colours[Math.max(type, 0)]).map((c) => Math.round(0.55 * c))));
  const ink = packed(INK), paper = packed(PAPER), marked = packed(CHOSEN);
  const image = canvas.getContext("2d").createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const at = (place) => (map[place] === NOWHERE ? NOWHERE : ids[map[place]]);
  for (let y = 0, place = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1, place += 1) {
      const id = at(place);
      if (id === NOWHERE) { pixels[place] = paper; continue; }
      const right = x + 1 < width ? at(place + 1) : id, below = y + 1 < height ? at(place + width) : id;
      let border = (right !== id && right !== NOWHERE) || (below !== id && below !== NOWHERE);
      let near = right === state.chosen || below === state.chosen;
      if (line > 1 && !border) {
        const left = x ? at(place - 1) : id, above = y ? at(place - width) : id;
        border = (left !== id && left !== NOWHERE) || (above !== id && above !== NOWHERE);
        near = left === state.chosen || above === state.chosen;
      }
      if (border) pixels[place] = state.chosen !== null && (near || id === state.chosen) ? marked : ink;
      else pixels[place] = striped.has(id) && (x + y) % 9 < 3 ? stripes[id] : colours[id];
    }
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function show() {
  draw();
  $("mcs").textContent = state.said.mcs.toLocaleString("en");
  $("outside-count").textContent = state.said.outside.length;
  for (const chart of state.charts) chart.draw(state.rows);
}

// -- what can be done ---------------------------------------------------------------------------------------------

const steps = () => SPEEDS[Number($("steps").value)];
const advance = () => inTurn(async () => takeFrame(await ask("advance", { mcs: steps(), ...view() })));

const settle = () => inTurn(async () => takeFrame(await ask(`frame?${query()}`)));

async function live() {
  while (state.running) {
    const began = performance.now();
    await advance();
    if (state.chosen !== null) await showCell(state.chosen);
    await new Promise((resume) => setTimeout(resume, Math.max(0, FRAME - (performance.now() - began))));
  }
  await settle();
}

function pause() {
  state.running = false;
  $("run").textContent = "Start";
}

function toggle() {
  if (state.running) return pause();
  state.running = true;
  $("run").textContent = "Pause";
  return live();
}

async function step() {
  pause();
  await advance();
  await settle();
  if (state.chosen !== null) await showCell(state.chosen);
}

async function restart() {
  pause();
  await inTurn(async () => {
    state.rows = [];
    await takeFrame(await ask("restart", view()));
  });
  if (state.chosen !== null) await showCell(state.chosen);
}

const set = (wanted) => inTurn(async () => {
  await ask("settings", wanted);
  await takeFrame(await ask(`frame?${query()}`));
});

async function turn() {
  await inTurn(async () => {
    const size = state.about.shape[Number($("axis").value)];
    $("index").max = size - 1;
    $("index").value = Math.floor(size / 2);
    $("index-value").textContent = $("index").value;
    await loadPlane();
    await takeFrame(await ask(`frame?${query()}`));
  });
}

// -- one cell -----------------------------------------------------------------------------------------------------

function clicked(event) {
  const canvas = $("tissue"), box = canvas.getBoundingClientRect();
  const scale = Math.min(box.width / canvas.width, box.height / canvas.height); // object-fit leaves room at the sides
  const x = Math.floor((event.clientX - box.left - (box.width - scale * canvas.width) / 2) / scale);
  const y = Math.floor((event.clientY - box.top - (box.height - scale * canvas.height) / 2) / scale);
  if (x < 0 || y < 0 || x >= canvas.width || y >= canvas.height) return;
  const site = state.map[y * canvas.width + x];
  const id = site === NOWHERE ? 0 : state.ids[site];
  choose(id || null);
}

async function choose(id) {
  state.chosen = id;
  draw();
  if (id === null) return forget("Click on a cell.");
  return showCell(id);
}

function forget(hint) {
  $("cell-facts").replaceChildren();
  $("cell-hint").textContent = hint;
  $("cell-hint").hidden = false;
}

const showCell = (id) => inTurn(async () => {
  if (!state.said) return;
  let cell;
  try {
    cell = await (await ask(`cell?id=${id}`)).json();
  } catch (error) {
    if (!error.message.startsWith("There is no cell")) throw error;
    return forget(`Cell ${id} is gone.`);
  }
  $("cell-hint").hidden = true;
  const range = cell.volume_range ? ` (training data: ${cell.volume_range.map(Math.round).join(" to ")})` : "";
  const facts = [["number", cell.id], ["type", cell.type], ["volume", `${cell.volume} sites${range}`]];
  if (cell.aspect_ratio !== null) facts.push(["length over width", cell.aspect_ratio.toFixed(2)]);
  const learned = `${cell.neural < 0 ? "-" : "+"} ${Math.abs(cell.neural).toFixed(2)} learned`;
  facts.push(["energy", `${cell.energy.toFixed(2)} = ${cell.symbolic.toFixed(2)} written ${learned}`]);
  for (const [name, value] of Object.entries(cell.properties)) facts.push([name, shortNumber(value)]);
  const where = !cell.knows_range ? ["training data", "the model does not say"]
    : ["training data", cell.inside ? "has cells like it" : "has no cell like it", cell.inside ? "fine" : "warn"];
  $("cell-facts").replaceChildren(...[...facts, where].flatMap(([name, text, mark]) => {
    const term = document.createElement("dt"), value = document.createElement("dd");
    term.textContent = name;
    value.textContent = text;
    if (mark) value.className = mark;
    return [term, value];
  }));
});

// -- the beginning ------------------------------------------------------------------------------------------------

function slider(id, apply, said = (value) => shortNumber(value)) {
  const say = () => { $(`${id}-value`).textContent = said(Number($(id).value)); };
  $(id).addEventListener("input", say);
  $(id).addEventListener("change", () => apply(Number($(id).value)));
  say();
}

function describe(about) {
  document.title = `${about.name}: neuralcpm view`;
  $("name").textContent = about.name;
  const size = about.shape.join(" × "), walls = new Set(about.boundary).size === 1 ? about.boundary[0] : about.boundary.join(" × ");
  $("facts").textContent = `${about.architecture.replaceAll("_", " ")}, ${size} ${about.geometry}, ${walls}, on ${about.runs_on}`;
  $("footer").textContent = `neuralcpm-bridge ${about.version}. A cell's energy is what H would lose if medium were in its place. This page is served by your own machine.`;
  $("key").replaceChildren(...about.types.map((name, type) => {
    const item = document.createElement("li");
    item.append(swatch(about.colours[type], true), name);
    return item;
  }));
  $("weight-row").hidden = !about.learned;
  $("outside-row").hidden = !about.knows_range;
}

function makeCharts(about) {
  const types = about.types.slice(1);
  const parts = [["energy", "all"], ["symbolic", "written"], ["neural", "learned"]].slice(0, about.learned ? 3 : 1);
  const lines = (entries) => entries.map(([key, name], number) => ({ key, name, colour: LINES[number % LINES.length] }));
  state.charts = [
    new Chart("Energy", lines(parts), {}),
    new Chart("Mean volume, sites", lines([["volume_mean", "volume"]]), about.bands),
    new Chart("Length over width", lines(types.map((name) => [`aspect_ratio_${name}`, name])), about.bands),
  ];
  if (types.length > 1)
    state.charts.push(new Chart("Interface between types, share", lines([["heterotypic_fraction", "share"]]), about.bands));
  $("charts").replaceChildren(...state.charts.map((chart) => chart.figure));
  $("bands-from").textContent = Object.keys(about.bands).length ? `Shaded: ${about.bands_from}.` : "";
}

async function begin() {
  const about = await (await ask("about")).json();
  state.about = about;
  describe(about);
  makeCharts(about);
  if (about.shape.length === 3) {
    $("slice").hidden = false;
    $("index").max = about.shape[0] - 1;
    $("index").value = Math.floor(about.shape[0] / 2);
  }
  state.rows = await (await ask("rows")).json();
  await loadPlane();
  await takeFrame(await ask(`frame?${query()}`));
  const hottest = Math.max(4 * about.temperature, 1.5 * state.said.temperature);
  Object.assign($("temperature"), { min: 0, max: hottest, step: about.temperature / 20, value: state.said.temperature });
  $("weight").value = state.said.weight;
  slider("temperature", (value) => set({ temperature: value }));
  slider("weight", (value) => set({ weight: value }), (value) => `× ${value.toFixed(2)}`);
  slider("steps", () => {}, (value) => SPEEDS[value]);
  slider("index", () => inTurn(async () => takeFrame(await ask(`frame?${query()}`))));
  $("axis").addEventListener("change", turn);
  $("outside").addEventListener("change", draw);
  $("run").addEventListener("click", toggle);
  $("step").addEventListener("click", step);
  $("restart").addEventListener("click", restart);
  $("tissue").addEventListener("click", clicked);
  document.body.dataset.ready = "yes";
}

begin().catch((error) => complain(error.message));
