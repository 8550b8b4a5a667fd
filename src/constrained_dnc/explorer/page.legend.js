"use strict";
// What lines and colours stand for.

const SWATCHES = { // as Plotly draws lines of this width
  bar: "", solid: "", dash: "6 3", dot: "2 2", dashdot: "6 3 2 3",
};

function swatch(kind, color, symbol) {
  const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const part = (tag, attributes) => {
    const made = document.createElementNS(drawing.namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    drawing.append(made);
  };
  for (const [name, value] of Object.entries({width: 30, height: 12, "aria-hidden": true})) drawing.setAttribute(name, value);
  part("line", {x1: 0, x2: 30, y1: 6, y2: 6, stroke: color, "stroke-width": kind === "bar" ? 10 : symbol ? 1 : 2.5, "stroke-dasharray": SWATCHES[kind]});
  if (symbol === "diamond") part("path", {d: "M15 0 L21 6 L15 12 L9 6 Z", fill: color});
  return drawing;
}

// Names of lines stand above the figure: inside it they would move its edges, and the cursor with them.
function setFigure(panel, figure) {
  panel.figure = figure;
  if (!figure || !figure.layout.showlegend) return;
  panel.legend = {showlegend: true, margin: figure.layout.margin, height: figure.layout.height};
  const spare = figure.layout.margin.t - template().layout.margin.t;
  figure.layout = {...figure.layout, showlegend: false, margin: {}, height: figure.layout.height - spare};
  const keys = figure.data.filter(trace => trace.name && trace.showlegend !== false).map(trace => {
    const {color, dash = "solid"} = trace.line || trace.marker, symbol = trace.mode === "lines+markers" && (trace.marker || {}).symbol;
    return element("span", {}, swatch(trace.type === "bar" ? "bar" : dash, color, symbol), trace.name);
  });
  panel.frame.before(element("p", {className: "keys soft"}, ...keys));
}

// The range of the colours of a figure and their scale, if it has one.
function colours({data: [first], layout}) {
  if (first.type !== "heatmap") return null;
  const {colorscale, coloraxis} = template().layout;
  if (first.coloraxis) return {low: layout.coloraxis.cmin, high: layout.coloraxis.cmax, scale: coloraxis.colorscale};
  return {low: first.zmin, high: first.zmax, scale: colorscale[first.zmin < 0 ? "diverging" : "sequential"]};
}

function showScale(panel) {
  const range = colours(panel.figure);
  if (!range) return;
  const bar = element("i"), stops = range.scale.map(([at, colour]) => `${colour} ${100 * at}%`);
  bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  panel.scale.replaceChildren(String(+range.low.toFixed(2)), bar, String(+range.high.toFixed(2)));
}

// Figures in a file have nothing beside them: they get a colour bar of their own.
const BAR = {thickness: 12, outlinewidth: 0, nticks: 5};
const BAR_WIDTH = 50; // pixels
function withColourBar({data: [first, ...others], layout}) {
  if (first.type !== "heatmap") return {data: [first, ...others], layout};
  const margin = {...template().layout.margin, ...layout.margin, r: template().layout.margin.r + BAR_WIDTH};
  if (first.coloraxis) return {data: [first, ...others], layout: {...layout, margin, coloraxis: {...layout.coloraxis, showscale: true, colorbar: BAR}}};
  return {data: [{...first, showscale: true, colorbar: BAR}, ...others], layout: {...layout, margin}};
}
