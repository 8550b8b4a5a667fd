"use strict";
// What is drawn. The server computes a trace once; each step is then drawn here, from the numbers that
// came with it.

const content = JSON.parse(document.getElementById("content").textContent);
const served = !content.views;
const $ = id => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");
const template = () => content.templates[dark.matches ? "dark" : "light"];
const isMatrix = panel => panel.over_slots && !panel.over_time;
const NOTICED = 0.1; // a weight below this is not worth a word
const KEY_STEP = 8; // steps between two link matrices that are kept

const PANELS = [
  {name: "states", title: "Cell state", column: 0,
   note: `in the plane of its first two principal components; thin: 32 random problems of the same length. Check whether all
     problems share one narrow path that returns to the same places (a small machine, which can go on like that on
     longer inputs), or whether paths spread and drift.`},
  {name: "machine", title: "Machine", column: 1,
   note: "the controller as a finite-state machine, extracted at its training lengths; hover an arrow for its inputs."},
  {name: "tape", title: "Tape", over_time: true, column: 0,
   note: "symbols in the cells, what the network sees as colours; blank: no input, or no loss"},
  {name: "write_weights", title: "Write weights", over_time: true, over_slots: true, column: 0,
   note: "where the write head writes; click a slot to follow it"},
  {name: "read_weights", title: "Read weights", over_time: true, over_slots: true, column: 0, note: "where each read head reads"},
  {name: "usage", title: "Usage", over_time: true, over_slots: true, column: 0, note: "how much of a slot is in use"},
  {name: "gates", title: "Gates", over_time: true, column: 0, note: "write, allocation (0 = by content, 1 = new slot) and free gates"},
  {name: "read_modes", title: "Read modes", over_time: true, column: 0, note: "backward, forward or by content"},
  {name: "strengths", title: "Strengths", over_time: true, column: 0, note: "how sharply a head looks up by content"},
  {name: "slot", title: "One slot", over_time: true, column: 1, note: "written, read and used through time"},
  {name: "memory", title: "Memory", over_slots: true, column: 1, note: "the memory matrix after this step"},
  {name: "link", title: "Link", over_slots: true, column: 1, note: "which slot was written after which"},
  {name: "scores", title: "Score against length", column: 1,
   note: "as stored; shaded: training lengths; dotted: 95 %, which the maximum length reaches; green: the paper's rule"},
];

const FRESH = {
  model: "", rule: "", inference: "", compare: "", compare_rule: "", compare_inference: "",
  problem: "", memory: "", step: 0, slot: 0, hidden: "",
};
let state = {...FRESH}; // what is requested; step 0: where the answer begins; hidden: names of panels
let views = [];

function element(tag, attributes = {}, ...children) {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...children);
  return made;
}

function showError(error) {
  $("error").textContent = error ? error.message : "";
  $("error").hidden = !error;
}

// --- numbers ---

function unpack({shape, bytes}) {
  const raw = Uint8Array.from(atob(bytes), c => c.charCodeAt(0));
  return {shape, values: new Float32Array(raw.buffer)};
}

// L_ij = (1 - w_i - w_j) L_ij + w_i p_j: from the write weights, so that no link has to be sent.
function linkAt(view, step) {
  const n = view.slots, writes = view.write_weights.values, before = view.precedence.values;
  let at = Math.floor(step / KEY_STEP);
  while (at > 0 && !view.links[at]) at -= 1;
  const link = at ? view.links[at].slice() : new Float32Array(n * n);
  for (let t = at * KEY_STEP; t < step; t++) {
    const w = writes.subarray(t * n, (t + 1) * n);
    const p = t ? before.subarray((t - 1) * n, t * n) : new Float32Array(n);
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < n; j++) {
        link[i * n + j] = i === j ? 0 : (1 - w[i] - w[j]) * link[i * n + j] + w[i] * p[j];
      }
    }
    if ((t + 1) % KEY_STEP === 0) view.links[(t + 1) / KEY_STEP] = link.slice();
  }
  return link;
}

function matrixAt(view, name, step) {
  const n = view.slots, isLink = name === "link", width = isLink ? n : view.word;
  const values = isLink ? linkAt(view, step) : view.memory.values.subarray((step - 1) * n * width, step * n * width);
  return Array.from({length: n}, (_, row) => values.subarray(row * width, (row + 1) * width));
}

function largest(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

// --- words ---

function percent(share) { return `${(100 * share).toFixed(share === 1 || share === 0 ? 0 : 1)} %`; }

function describeStep(view, step) {
  const n = view.slots, t = step - 1, parts = [];
  const write = view.write_weights.values.subarray(t * n, (t + 1) * n);
  const slot = largest(write), gate = view.write_gate.values[t];
  if (write[slot] >= NOTICED) {
    const how = view.allocation_gate.values[t] >= 0.5 ? "new slot" : "by content";
    parts.push(`Writes slot ${slot + 1} (${write[slot].toFixed(2)}, ${how}).`);
  } else parts.push(gate >= 0.5 ? "Writes a little to many slots." : "Writes nothing.");
  let idle = 0;
  for (let head = 0; head < view.heads; head++) {
    const at = (t * view.heads + head) * n, read = view.read_weights.values.subarray(at, at + n);
    const best = largest(read), from = (t * view.heads + head) * 3;
    const mode = ["backward", "forward", "by content"][largest(view.read_modes.values.subarray(from, from + 3))];
    if (read[best] >= NOTICED) parts.push(`Head ${head + 1} reads slot ${best + 1} (${read[best].toFixed(2)}, ${mode}).`);
    else idle += 1;
  }
  if (idle) parts.push(`${idle === view.heads ? "No head reads a" : "The others read no"} slot in particular.`);
  return parts.join(" ");
}

function describeSlot(view, slot) {
  if (slot > view.slots) return `Slot ${slot} is never written or read.`;
  const n = view.slots, written = [], reads = [];
  for (let t = 0; t < view.steps; t++) {
    const write = view.write_weights.values[t * n + slot - 1];
    if (write >= NOTICED) written.push(`step ${t + 1} (${write.toFixed(2)})`);
    for (let head = 0; head < view.heads; head++) {
      const read = view.read_weights.values[(t * view.heads + head) * n + slot - 1];
      if (read >= NOTICED) reads.push(`step ${t + 1} by head ${head + 1} (${read.toFixed(2)})`);
    }
  }
  const list = (what, items) => items.length
    ? `${what} at ${items.slice(0, 8).join(", ")}${items.length > 8 ? `, and ${items.length - 8} more` : ""}.`
    : `Never ${what.toLowerCase()}.`;
  return `Slot ${slot}. ${list("Written", written)} ${list("Read", reads)}`;
}

function titleOf({task, approach, inference}) {
  return `${task}, ${approach}${inference === "digital" ? ", digital" : ""}`;
}

function describeModel({model, length, memory_size, all_slots, entries, answer_note}) {
  const slots = memory_size === "growing" ? `a growing memory, ${all_slots} slots at the end` : `${all_slots} slots`;
  const wrong = entries.filter(([, , right]) => !right).length;
  return [
    model.rule ? `${model.name}: parameters of iteration ${model.iteration}, chosen by rule ${model.rule}; ${model.state}.` : "",
    `Length ${length} (trained on ${model.training_lengths.join(" to ")}), ${slots} (trained with ${model.memory_size}).
    Right answer above, model below; ${wrong ? `${wrong} of ${entries.length} wrong` : "all right"}. ${answer_note}`,
  ];
}

// --- panels ---

function plotArea({figure, frame}) {
  const m = {...template().layout.margin, ...figure.layout.margin}, {height} = figure.layout;
  return {left: m.l, top: m.t, width: Math.max(frame.clientWidth - m.l - m.r, 1), height: height - m.t - m.b};
}

function makePanel(view, spec) {
  const {name, title, note, column} = spec;
  const plot = element("div", {className: "plot"}), frame = element("div", {className: "frame"}, plot);
  const save = element("span", {className: "save"}, ...["PNG", "SVG"].map(format => element("button", {
    type: "button", textContent: format, ariaLabel: `Save ${title} as ${format}`, onclick: () => savePicture(panel, format.toLowerCase()),
  })));
  const keys = element("p", {className: "keys soft"}), scale = element("span", {className: "scale"});
  const words = element("span", {className: "soft", textContent: note});
  const toggle = element("button", {type: "button", className: "toggle", onclick: () => togglePanel(name)});
  const header = element("header", {}, element("h3", {textContent: title}), scale, save, toggle, words);
  const section = element("section", {className: "panel", id: `${name}-${view.place}`, hidden: name === "slot"}, header, keys, frame);
  const panel = {...spec, view, frame, plot, section, words, scale, keys, toggle, marks: {}};
  if (name === "machine") save.remove();
  if (view.figures[name]) setFigure(panel, view.figures[name]);
  else if (name === "states") frame.prepend(panel.waiting = element("p", {className: "soft", textContent: "computing…"}));
  else if (name === "scores") remove(panel, `No scores are stored${view.model.rule ? `; cdnc evaluate ${view.model.name} makes them` : ""}.`);
  if (name === "machine") offerMachine(panel);
  fold(panel);
  view.columns[column].append(section);
  return panel;
}

function remove(panel, why) {
  panel.words.textContent = why;
  panel.section.querySelector(".save").remove();
  panel.frame.remove();
}

const hiddenPanels = () => state.hidden.split(",").filter(Boolean);

function fold({name, title, section, toggle}) {
  const hidden = hiddenPanels().includes(name);
  section.classList.toggle("folded", hidden);
  Object.assign(toggle, {textContent: hidden ? "Show" : "Hide", ariaLabel: `${hidden ? "Show" : "Hide"} ${title}`});
}

function togglePanel(name) {
  const hidden = hiddenPanels();
  state.hidden = (hidden.includes(name) ? hidden.filter(each => each !== name) : [...hidden, name]).join();
  views.flatMap(view => view.panels).filter(panel => panel.name === name).forEach(fold);
  redraw();
}

const isDrawn = panel => panel.figure && !panel.section.hidden && !panel.section.classList.contains("folded");
const drawnPanels = () => views.flatMap(view => view.panels).filter(isDrawn);

// Names of lines stand above the figure: inside it they would move its edges, and the cursor with them.
function setFigure(panel, figure) {
  panel.figure = figure;
  if (!figure.layout.showlegend) return;
  const {margin, height} = figure.layout, spare = margin.t - template().layout.margin.t;
  panel.legend = {showlegend: true, margin, height};
  figure.layout = {...figure.layout, showlegend: false, margin: {}, height: height - spare};
  const styles = {dash: "dashed", dot: "dotted", bar: "10px solid"};
  panel.keys.replaceChildren(...figure.data.filter(({name, showlegend}) => name && showlegend !== false).map(trace => {
    const {color, dash} = trace.line || trace.marker, sign = trace.mode === "markers" ? "◆" : "";
    const border = sign ? "0" : styles[trace.type === "bar" ? "bar" : dash] || "solid";
    return element("span", {}, element("i", {style: `color: ${color}; border-top: ${border}`, textContent: sign}), trace.name);
  }));
}

// The range of the colours of a figure and their scale, if it has one.
function colours({data: [first], layout}) {
  if (first.type !== "heatmap") return null;
  const {colorscale, coloraxis} = template().layout;
  if (first.coloraxis) return {low: layout.coloraxis.cmin, high: layout.coloraxis.cmax, scale: coloraxis.colorscale};
  return {low: first.zmin, high: first.zmax, scale: colorscale[first.zmin < 0 ? "diverging" : "sequential"]};
}

// Draws a panel, and listens to its clicks from the first time on.
async function show(panel) {
  const {plot, figure, scale} = panel, isNew = !plot.data, range = colours(figure);
  if (range) {
    const stops = range.scale.map(([at, colour]) => `${colour} ${100 * at}%`);
    const bar = element("i", {style: `background: linear-gradient(to right, ${stops.join(", ")})`});
    scale.replaceChildren(String(+range.low.toFixed(2)), bar, String(+range.high.toFixed(2)));
  }
  const layout = {...figure.layout, template: template(), autosize: true};
  await Plotly.react(plot, figure.data, layout, {displayModeBar: false, responsive: false});
  placeMarks(panel);
  if (isNew) plot.on("plotly_click", ({points: [point]}) => {
    if (panel.over_time) setStep(point.x);
    if (panel.name === "states" && point.customdata) setStep(point.customdata);
    if (panel.over_slots) followSlot(point.y);
  });
}

function redraw() {
  drawnPanels().forEach(show);
  if (views.length) showStep();
}

// --- marks above the figures ---

function mark(panel, name, kind = "div") {
  if (!panel.marks[name]) {
    panel.marks[name] = element(kind, {className: `mark ${name}`});
    panel.frame.append(panel.marks[name]);
  }
  return panel.marks[name];
}

function place(mark, left, top, width, height) {
  const pixels = value => value === undefined ? "" : `${value}px`;
  Object.assign(mark.style, {left: pixels(left), top: pixels(top), width: pixels(width), height: pixels(height)});
}

function placeMarks(panel) {
  const {view, figure, name} = panel;
  if (!isDrawn(panel)) return;
  const area = plotArea(panel), across = area.width / view.steps;
  if (panel.over_time) {
    place(mark(panel, "cursor"), area.left + (state.step - 1) * across, area.top, across, area.height);
    place(mark(panel, "phase"), area.left + view.encoding_steps * across, area.top, 0, area.height);
  }
  if (name === "states") {
    const [x, y] = view.path.values.subarray(2 * state.step - 2, 2 * state.step);
    const share = (value, {range: [low, high]}) => (value - low) / (high - low);
    const left = area.left + area.width * share(x, figure.layout.xaxis);
    place(mark(panel, "dot"), left, area.top + area.height * (1 - share(y, figure.layout.yaxis)));
  }
  if (!panel.over_slots) return;
  const axes = Object.keys(figure.layout).filter(key => key.startsWith("yaxis"));
  axes.forEach((axis, at) => {
    const [low, high] = figure.layout[axis].domain || [0, 1], tall = area.height * (high - low) / view.slots;
    const band = mark(panel, `band band-${at}`);
    band.hidden = !state.slot || state.slot > view.slots;
    place(band, area.left, area.top + area.height * (1 - high) + (state.slot - 1) * tall - 1.5, area.width, tall + 3);
  });
}

function colourTable(scale) {
  const table = new Uint8ClampedArray(256 * 4);
  const rgb = hex => [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
  for (let i = 0; i < 256; i++) {
    const at = i / 255, high = Math.max(1, scale.findIndex(([stop]) => stop >= at));
    const [[a, from], [b, to]] = [scale[high - 1], scale[high]];
    const share = (at - a) / (b - a), start = rgb(from), end = rgb(to);
    for (let c = 0; c < 3; c++) table[4 * i + c] = start[c] + share * (end[c] - start[c]);
    table[4 * i + 3] = 255;
  }
  return new Uint32Array(table.buffer);
}

// Plotly is too slow for fast scrubbing: paint now, give Plotly the numbers later.
function paint(panel, matrix) {
  const {low, high, scale} = colours(panel.figure), canvas = mark(panel, "matrix", "canvas"), table = colourTable(scale);
  const height = matrix.length, width = matrix[0].length;
  const picture = new ImageData(width, height), pixels = new Uint32Array(picture.data.buffer);
  for (let i = 0; i < height; i++) for (let j = 0; j < width; j++) {
    const share = (matrix[i][j] - low) / (high - low);
    pixels[i * width + j] = table[Math.max(0, Math.min(255, Math.round(255 * share)))];
  }
  Object.assign(canvas, {width, height});
  canvas.getContext("2d").putImageData(picture, 0, 0);
  const area = plotArea(panel);
  place(canvas, area.left, area.top, area.width, area.height);
}

// --- step and slot ---

let updateTimer = 0;
function updatePlots() {
  for (const panel of drawnPanels().filter(isMatrix)) {
    panel.figure.data[0] = {...panel.figure.data[0], z: panel.matrix};
    show(panel);
  }
  writeLink();
}

function showStep() {
  if (!state.step) return; // a new problem is on its way: where its answer begins is not known yet
  for (const panel of drawnPanels()) {
    if (isMatrix(panel)) {
      panel.matrix = matrixAt(panel.view, panel.name, state.step);
      paint(panel, panel.matrix);
    }
    placeMarks(panel);
  }
  for (const view of views) {
    lightState(view);
    view.story.textContent = describeStep(view, state.step);
    view.entryButtons.forEach((button, at) => button.classList.toggle("now", at === state.step - view.first_result_step));
  }
  const {steps, encoding_steps} = views[0];
  $("step").value = state.step;
  $("where").textContent = `step ${state.step} of ${steps}, ${state.step <= encoding_steps ? "encoding" : "decoding"}`;
  clearTimeout(updateTimer);
  updateTimer = setTimeout(updatePlots, 160);
}

function setStep(step) {
  if (!views.length) return;
  state.step = Math.min(Math.max(Math.round(step) || views[0].first_result_step, 1), views[0].steps);
  showStep();
}

function showSlot(view, slot) {
  const panel = view.panels.find(({name}) => name === "slot"), drawn = slot <= view.slots;
  panel.section.hidden = !slot;
  panel.frame.hidden = !drawn;
  if (!slot) return;
  panel.words.textContent = describeSlot(view, slot);
  if (!drawn) return;
  const n = view.slots, at = slot - 1, every = (values, stride, offset) =>
    Float32Array.from({length: view.steps}, (_, t) => values[t * stride + offset]);
  const [write, ...reads] = panel.figure.data, usage = reads.pop();
  write.y = every(view.write_weights.values, n, at);
  reads.forEach((trace, head) => { trace.y = every(view.read_weights.values, view.heads * n, head * n + at); });
  usage.y = every(view.usage.values, n, at);
  if (isDrawn(panel)) show(panel);
}

function followSlot(slot) {
  state.slot = Math.min(Math.max(Math.round(slot) || 0, 0), $("slot").max); // 0: none
  $("slot").value = state.slot || "";
  views.forEach(view => showSlot(view, state.slot));
  showStep();
}

// --- views ---

// Two models are compared on one scale; their cell states cannot be.
function shareScales(answers) {
  const axes = answers.map(({figures}) => figures.strengths.layout.yaxis);
  const low = Math.min(...axes.map(({range}) => range[0])), high = Math.max(...axes.map(({range}) => range[1]));
  for (const axis of axes) axis.range = [low, high];
  for (const {name} of PANELS.filter(panel => panel.over_slots)) {
    const maps = answers.flatMap(({figures}) => figures[name].data), most = Math.max(...maps.map(({zmax}) => zmax));
    for (const map of maps) Object.assign(map, {zmin: map.zmin < 0 ? -most : 0, zmax: most});
  }
}

async function showViews(answers) {
  shareScales(answers);
  views = answers.map(prepare);
  $("views").replaceChildren(...views.map(view => view.section));
  $("views").classList.toggle("two", views.length > 1);
  $("scrub").hidden = false;
  $("step").max = views[0].steps;
  $("slot").max = Math.max(...views.map(view => view.all_slots));
  setStep(state.step);
  followSlot(state.slot);
  for (const panel of drawnPanels()) await show(panel);
  views.forEach(showStates);
}

function prepare(view, place) {
  for (const [name, packed] of Object.entries(view.arrays)) view[name] = unpack(packed);
  Object.assign(view, {place, links: [], columns: [element("div"), element("div")]});
  view.story = element("p", {className: view.heads > 2 ? "story long" : "story"});
  view.section = element("article", {className: "view", ariaLabel: view.model.name},
    answerCard(view), element("div", {className: "panels"}, ...view.columns));
  view.panels = PANELS.map(panel => makePanel(view, panel));
  return view;
}

function answerCard(view) {
  view.entryButtons = view.entries.map(([right, answer, isRight], at) => element("button", {
    type: "button", className: isRight ? "right" : "wrong", tabIndex: -1, // the arrow keys go there
    ariaLabel: `entry ${at + 1}: right ${right}, model ${answer}, ${isRight ? "right" : "wrong"}`,
    onclick: () => setStep(view.first_result_step + at),
  }, element("span", {textContent: right}), element("span", {textContent: answer})));
  const data = element("a", {textContent: "Save the numbers (npz)", href: "#", onclick: event => saveData(event, view)});
  return element("section", {className: "card answer"},
    element("div", {className: "answer-head"},
      element("h2", {textContent: titleOf(view.model)}),
      element("span", {className: "score", textContent: `${percent(view.score)} `}, element("small", {textContent: view.score_kind}))),
    ...describeModel(view).map(textContent => element("p", {className: "soft", textContent})),
    element("ul", {className: "entries"}, ...view.entryButtons.map(button => element("li", {}, button))),
    view.story, element("p", {className: "soft"}, data));
}

async function showStates(view) {
  const panel = view.panels.find(({name}) => name === "states");
  let why = "There is no path: the controller carries no state, or it is not finite.";
  const states = served ? await fetchJson("states", query(view)).catch(error => { why = error.message; }) : view.states;
  if (!views.includes(view)) return;
  panel.waiting.remove();
  if (!states) return remove(panel, why);
  if (views.length > 1) panel.words.textContent += " Each model has its own plane and scale: compare shapes, not places.";
  view.path = unpack(states.path);
  setFigure(panel, states.figure);
  if (isDrawn(panel)) await show(panel);
}
