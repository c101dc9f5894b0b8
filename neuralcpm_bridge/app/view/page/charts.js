// Small line charts over time, drawn as SVG from rows of measures.
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 300, HEIGHT = 160, LEFT = 46, RIGHT = 6, TOP = 8, BOTTOM = 22;

export function element(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function swatch(colour, outlined = false) {
  const box = element("rect", { x: 1, y: 1, width: 12, height: 12, rx: 2, fill: colour });
  if (outlined) box.setAttribute("stroke", "#2c323e");
  return element("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" }, box);
}

export function shortNumber(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return String(+value.toPrecision(3));
}

// lines: [{ key, name, colour }]; bands: measures' ranges in the data, by key.
export class Chart {
  constructor(title, lines, bands) {
    this.lines = lines;
    this.bands = lines.filter((line) => bands[line.key]).map((line) => ({ ...line, ends: bands[line.key] }));
    this.svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title });
    const caption = document.createElement("figcaption");
    caption.textContent = title;
    this.figure = document.createElement("figure");
    this.figure.append(caption, this.svg);
    if (lines.length > 1) {
      const legend = document.createElement("ul");
      legend.className = "legend";
      for (const line of lines) {
        const item = document.createElement("li");
        item.append(swatch(line.colour), line.name);
        legend.append(item);
      }
      this.figure.append(legend);
    }
  }

  draw(rows) {
    const values = rows.flatMap((row) => this.lines.map((line) => row[line.key])).filter((v) => v !== null && v !== undefined);
    this.figure.hidden = values.length === 0;
    if (!values.length) return;
    let low = Math.min(...values, ...this.bands.map((band) => band.ends[0]));
    let high = Math.max(...values, ...this.bands.map((band) => band.ends[1]));
    const room = (high - low || Math.abs(high) || 1) * 0.06;
    low -= room;
    high += room;
    const last = Math.max(rows[rows.length - 1].mcs, 1);
    const x = (mcs) => LEFT + (mcs / last) * (WIDTH - LEFT - RIGHT);
    const y = (value) => TOP + ((high - value) / (high - low)) * (HEIGHT - TOP - BOTTOM);
    const parts = [];
    for (const band of this.bands)
      parts.push(element("rect", {
        class: "band", x: LEFT, width: WIDTH - LEFT - RIGHT, y: y(band.ends[1]),
        height: Math.max(y(band.ends[0]) - y(band.ends[1]), 1), fill: band.colour,
      }));
    for (const value of [low + room, (low + high) / 2, high - room]) {
      parts.push(element("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }));
      parts.push(element("text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" }, shortNumber(value)));
    }
    parts.push(element("text", { x: LEFT, y: HEIGHT - 5 }, "0"));
    parts.push(element("text", { x: WIDTH - RIGHT, y: HEIGHT - 5, "text-anchor": "end" }, `${last.toLocaleString("en")} MCS`));
    for (const line of this.lines) {
      const points = rows.filter((row) => row[line.key] !== null && row[line.key] !== undefined)
        .map((row) => `${x(row.mcs).toFixed(1)},${y(row[line.key]).toFixed(1)}`);
      parts.push(element("polyline", { points: points.join(" "), stroke: line.colour }));
    }
    this.svg.replaceChildren(...parts);
  }
}
