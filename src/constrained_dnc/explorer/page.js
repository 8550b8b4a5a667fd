"use strict";
// The page of the explorer. The server computes a trace once; each step is then drawn here, from the
// numbers that came with it.

const content = JSON.parse(document.getElementById("content").textContent);
const served = !content.views;
const $ = id => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");
const template = () => content.templates[dark.matches ? "dark" : "light"];
const isMatrix = panel => panel.over_slots && !panel.over_time;
const NOTICED = 0.1; // a weight below this is not worth a word
const KEY_STEP = 8; // link matrices kept, one for each so many steps

const FRESH = {model: "", compare: "", problem: "", memory: "", step: 0, slot: 0, hidden: ""}; // step 0: where the answer begins
let state = {...FRESH}; // what is requested; hidden: names of panels
let shown = {}; // model, compare, problem and memory on the screen
let views = [];
let requests = 0;

// --- numbers ---

function unpack({shape, bytes}) {
  const raw = Uint8Array.from(atob(bytes), c => c.charCodeAt(0));
  return {shape, values: new Float32Array(raw.buffer)};
}

function rows(values, count, width, start = 0) {
  return Array.from({length: count}, (_, row) => values.subarray(start + row * width, start + (row + 1) * width));
}

function element(tag, attributes = {}, ...children) {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...children);
  return made;
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
  const n = view.slots;
  if (name === "link") return rows(linkAt(view, step), n, n);
  return rows(view.memory.values, n, view.word, (step - 1) * n * view.word);
}

function largest(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

// --- words ---

function percent(share) { return `${(100 * share).toFixed(share === 1 || share === 0 ? 0 : 1)} %`; }

// "Head 2", "Heads 1 and 3", "Heads 1 to 4"
function several(what, numbers) {
  const last = numbers.at(-1), row = numbers.length > 2 && last - numbers[0] === numbers.length - 1;
  if (numbers.length === 1) return `${what} ${last}`;
  return `${what}s ${row ? `${numbers[0]} to ${last}` : `${numbers.slice(0, -1).join(", ")} and ${last}`}`;
}

function describeStep(view, step) {
  const n = view.slots, t = step - 1, parts = [], idle = [];
  const write = view.write_weights.values.subarray(t * n, (t + 1) * n);
  const slot = largest(write), gate = view.write_gate.values[t];
  if (write[slot] >= NOTICED) {
    const how = view.allocation_gate.values[t] >= 0.5 ? "new slot" : "by content";
    parts.push(`Writes slot ${slot + 1} (${write[slot].toFixed(2)}, ${how}).`);
  } else parts.push(gate >= 0.5 ? "Writes a little to many slots." : "Writes nothing.");
  for (let head = 0; head < view.heads; head++) {
    const at = (t * view.heads + head) * n, read = view.read_weights.values.subarray(at, at + n);
    const best = largest(read), from = (t * view.heads + head) * 3;
    const mode = ["backward", "forward", "by content"][largest(view.read_modes.values.subarray(from, from + 3))];
    if (read[best] >= NOTICED) parts.push(`Head ${head + 1} reads slot ${best + 1} (${read[best].toFixed(2)}, ${mode}).`);
    else idle.push(head + 1);
  }
  if (idle.length) parts.push(`${several("Head", idle)} ${idle.length > 1 ? "read" : "reads"} no slot in particular.`);
  return parts.join(" ");
}

function describeSlot(view, slot) {
  if (slot > view.all_slots) return `This memory has no slot ${slot}.`;
  if (slot > view.slots) return `Slot ${slot}. Never written, never read: no weight reaches it by ${view.touched}.`;
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

function phase(view, step) { return step <= view.encoding_steps ? "encoding" : "decoding"; }

// --- drawing ---

function margins(figure) { return {...template().layout.margin, ...figure.layout.margin}; }

function plotArea(panel) {
  const m = margins(panel.figure), width = panel.frame.clientWidth, height = panel.figure.layout.height;
  return {left: m.l, top: m.t, width: Math.max(width - m.l - m.r, 1), height: height - m.t - m.b};
}

function place(mark, left, top, width, height) {
  Object.assign(mark.style, {left: `${left}px`, top: `${top}px`, width: width === null ? "" : `${width}px`, height: height === null ? "" : `${height}px`});
}

function draw(panel) {
  const layout = {...panel.figure.layout, template: template(), autosize: true};
  showScale(panel);
  return Plotly.react(panel.plot, panel.figure.data, layout, {displayModeBar: false, responsive: false});
}

function makePanel(view, spec) {
  const {name, title, note, column} = spec;
  const plot = element("div", {className: "plot"}), frame = element("div", {className: "frame"}, plot);
  const save = element("span", {className: "save"}, ...["PNG", "SVG"].map(format => element("button", {
    type: "button", textContent: format, ariaLabel: `Save ${title} as ${format}`, onclick: () => savePicture(panel, format.toLowerCase()),
  })));
  const scale = element("span", {className: "scale"}), words = element("span", {className: "soft", textContent: name === "scores" ? view.scores_note : note});
  const toggle = element("button", {type: "button", className: "toggle", onclick: () => togglePanel(name)});
  const section = element("section", {className: "panel", id: `${name}-${view.place}`}, element("header", {}, element("h3", {textContent: title}), scale, save, toggle, words), frame);
  const panel = {...spec, view, frame, plot, section, words, scale, save, toggle, marks: {}};
  setFigure(panel, view.figures[name]);
  fold(panel);
  if (name === "slot") section.hidden = true;
  if (!panel.figure) save.remove();
  if (!panel.figure && name !== "states") frame.remove();
  view.columns[column].append(section);
  return panel;
}

const hiddenPanels = () => state.hidden.split(",").filter(Boolean);

function fold(panel) {
  const hidden = hiddenPanels().includes(panel.name);
  panel.section.classList.toggle("folded", hidden);
  Object.assign(panel.toggle, {textContent: hidden ? "Show" : "Hide", ariaLabel: `${hidden ? "Show" : "Hide"} ${panel.title}`});
}

function togglePanel(name) {
  const hidden = hiddenPanels();
  state.hidden = (hidden.includes(name) ? hidden.filter(each => each !== name) : [...hidden, name]).join();
  views.flatMap(view => view.panels).filter(panel => panel.name === name).forEach(fold);
  redraw();
  scheduleLink();
}

const isVisible = panel => !panel.section.hidden && !panel.section.classList.contains("folded");

function mark(panel, name, kind = "div") {
  if (!panel.marks[name]) {
    panel.marks[name] = element(kind, {className: `mark ${name}`});
    panel.frame.append(panel.marks[name]);
  }
  return panel.marks[name];
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
  return table;
}

// Plotly takes too long for each step of a quick hand: paint now, give Plotly the numbers later.
function paint(panel, matrix) {
  const {zmin, zmax} = panel.figure.data[0], canvas = mark(panel, "matrix", "canvas");
  const table = colourTable(template().layout.colorscale[zmin < 0 ? "diverging" : "sequential"]);
  const height = matrix.length, width = matrix[0].length;
  const picture = new ImageData(width, height), pixels = new Uint32Array(picture.data.buffer), colours = new Uint32Array(table.buffer);
  for (let i = 0; i < height; i++) for (let j = 0; j < width; j++) {
    const share = (matrix[i][j] - zmin) / (zmax - zmin);
    pixels[i * width + j] = colours[Math.max(0, Math.min(255, Math.round(255 * share)))];
  }
  Object.assign(canvas, {width, height});
  canvas.getContext("2d").putImageData(picture, 0, 0);
  const area = plotArea(panel);
  place(canvas, area.left, area.top, area.width, area.height);
}

let updateTimer = 0;
function updatePlots() {
  for (const panel of views.flatMap(view => view.panels)) {
    if (panel.matrix && isVisible(panel)) {
      panel.figure.data[0] = {...panel.figure.data[0], z: panel.matrix};
      draw(panel);
    }
  }
  scheduleLink();
}

function domains(figure) {
  return Object.entries(figure.layout).filter(([key]) => key.startsWith("yaxis")).map(([, axis]) => axis.domain || [0, 1]);
}

function placeMarks(panel) {
  const {view, figure, name} = panel;
  if (!figure || !isVisible(panel)) return;
  const area = plotArea(panel), across = area.width / view.steps;
  if (panel.over_time) {
    place(mark(panel, "cursor"), area.left + (state.step - 1) * across, area.top, across, area.height);
    place(mark(panel, "phase"), area.left + view.encoding_steps * across, area.top, null, area.height);
    panel.marks.phase.classList.add("cursor");
  }
  if (name === "states" && view.path) {
    const [x, y] = view.path.values.subarray(2 * state.step - 2, 2 * state.step);
    const share = (value, [low, high]) => (value - low) / (high - low);
    const left = area.left + area.width * share(x, figure.layout.xaxis.range);
    place(mark(panel, "dot"), left, area.top + area.height * (1 - share(y, figure.layout.yaxis.range)), null, null);
  }
  if (panel.over_slots) {
    domains(figure).forEach(([low, high], at) => {
      const band = mark(panel, `band band-${at}`), tall = area.height * (high - low) / view.slots;
      band.hidden = !state.slot || state.slot > view.slots;
      place(band, area.left, area.top + area.height * (1 - high) + (state.slot - 1) * tall - 1.5, area.width, tall + 3);
    });
  }
}

// One stop of the tab key for all entries; the arrows continue from there.
function showEntry({entryButtons}, now) {
  const at = entryButtons[now] ? now : 0, walking = entryButtons.includes(document.activeElement);
  entryButtons.forEach((button, place) => {
    button.classList.toggle("now", place === now);
    button.tabIndex = place === at ? 0 : -1;
  });
  if (walking) entryButtons[at].focus();
}

function showStep() {
  for (const view of views) {
    for (const panel of view.panels) {
      if (isMatrix(panel) && isVisible(panel)) {
        panel.matrix = matrixAt(view, panel.name, state.step);
        paint(panel, panel.matrix);
      }
      placeMarks(panel);
    }
    view.story.textContent = describeStep(view, state.step);
    showEntry(view, state.step - view.first_result_step);
  }
  $("step").value = state.step;
  $("where").textContent = `step ${state.step} of ${views[0].steps}, ${phase(views[0], state.step)}`;
  clearTimeout(updateTimer);
  updateTimer = setTimeout(updatePlots, 160);
}

function requestedStep() { return state.step || views[0].first_result_step; }

function setStep(step) {
  if (!views.length) return;
  state.step = Math.min(Math.max(Math.round(step) || 1, 1), views[0].steps);
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
  show(panel);
}

function followSlot(slot) {
  const most = Math.max(...views.map(view => view.all_slots));
  const exists = Number.isInteger(slot) && slot >= 0 && slot <= most; // 0: none
  if (exists) state.slot = slot;
  else if (!(state.slot <= most)) state.slot = 0;
  showError(exists ? null : new Error(`There is no slot ${slot}: slots are numbered from 1 to ${most}.`));
  $("slot").value = state.slot || "";
  for (const view of views) {
    showSlot(view, state.slot);
    view.panels.forEach(placeMarks);
  }
  scheduleLink();
}

// Draws a panel, and listens to its clicks from the first time on.
async function show(panel) {
  const isNew = !panel.plot.data;
  await draw(panel);
  placeMarks(panel);
  if (isNew) panel.plot.on("plotly_click", ({points: [point]}) => {
    if (panel.over_time) setStep(point.x);
    if (panel.name === "states" && point.customdata) setStep(point.customdata);
    if (panel.over_slots) followSlot(point.y);
  });
}

// Two models are compared on one scale; their cell states cannot be.
function shareScales(answers) {
  const axes = answers.map(({figures}) => figures.strengths.layout.yaxis);
  const low = Math.min(...axes.map(({range}) => range[0])), high = Math.max(...axes.map(({range}) => range[1]));
  for (const axis of axes) axis.range = [low, high];
  for (const {name} of content.panels.filter(panel => panel.over_slots)) {
    const maps = answers.flatMap(({figures}) => figures[name].data), largest = Math.max(...maps.map(({zmax}) => zmax));
    for (const map of maps) Object.assign(map, {zmin: map.zmin < 0 ? -largest : 0, zmax: largest});
  }
}

async function showViews(answers) {
  shareScales(answers);
  views = answers.map((view, place) => prepare(view, place));
  $("views").replaceChildren(...views.map(view => view.section));
  $("views").classList.toggle("two", views.length > 1);
  $("scrub").hidden = false;
  $("step").max = views[0].steps;
  $("slot").max = Math.max(...views.map(view => view.all_slots));
  setStep(requestedStep());
  for (const panel of views.flatMap(view => view.panels)) {
    if (!panel.figure || !isVisible(panel)) continue;
    await show(panel);
  }
  followSlot(state.slot);
  views.forEach(showStates);
}

function prepare(view, place) {
  for (const [name, packed] of Object.entries(view.arrays)) view[name] = unpack(packed);
  Object.assign(view, {place, links: [], columns: [element("div"), element("div")]});
  const panels = element("div", {className: "panels"}, ...view.columns);
  view.from = element("p", {className: "soft"});
  showOrigin(view);
  view.story = element("p", {className: view.heads > 2 ? "story long" : "story"});
  view.section = element("article", {className: "view", ariaLabel: view.model.name}, answerCard(view), panels);
  view.panels = content.panels.map(panel => makePanel(view, panel));
  return view;
}

function memoryWords({memory_size, all_slots, model}) {
  const slots = memory_size === "growing" ? `a growing memory, ${all_slots} slots at the end` : `${all_slots} slots`;
  return `${slots} (trained with ${model.memory_size})`;
}

function showOrigin({from, model}) {
  from.textContent = model.rule ? `${model.name}: parameters of iteration ${model.iteration}, chosen by rule ${model.rule}; ${model.state}.` : "";
}

function answerCard(view) {
  const {model} = view, wrong = view.entries.filter(([, , right]) => !right).length;
  view.entryButtons = view.entries.map(([right, answer, isRight], at) => element("button", {
    type: "button", className: isRight ? "right" : "wrong",
    ariaLabel: `entry ${at + 1}: right ${right}, model ${answer}, ${isRight ? "right" : "wrong"}`,
    onclick: () => setStep(view.first_result_step + at),
  }, element("span", {textContent: right}), element("span", {textContent: answer})));
  const data = element("a", {textContent: "Save the numbers (npz)", href: "#", onclick: event => saveData(event, view)});
  return element("section", {className: "card answer"},
    element("div", {className: "answer-head"},
      element("h2", {textContent: `${model.task}, ${model.approach}`}),
      element("span", {className: "score", textContent: `${percent(view.score)} `}, element("small", {textContent: view.score_kind}))),
    view.from,
    element("p", {className: "soft", textContent: `Length ${view.length} (trained on ${model.training_lengths.join(" to ")}), ${memoryWords(view)}. Right answer above, model below; ${wrong ? `${wrong} of ${view.entries.length} wrong` : "all right"}. ${view.answer_note}`.trimEnd()}),
    element("ul", {className: "entries"}, ...view.entryButtons.map(button => element("li", {}, button))),
    view.story, element("p", {className: "soft"}, data));
}

async function showStates(view) {
  const panel = view.panels.find(({name}) => name === "states");
  let states = view.states, why = "There is no path: the controller carries no state, or not a finite one.";
  if (served) states = await fetchJson("states", query(view)).catch(error => { why = `no state is shown: ${error.message}`; });
  if (!views.includes(view)) return;
  if (!states) {
    panel.words.textContent = why;
    panel.frame.remove();
    return;
  }
  if (views.length > 1) panel.words.textContent += " Each model has its own plane and scale: compare shapes, not places.";
  setFigure(panel, states.figure);
  panel.toggle.before(panel.save);
  view.path = unpack(states.path);
  if (isVisible(panel)) await show(panel);
}

function redraw() {
  for (const panel of views.flatMap(view => view.panels)) {
    if (panel.figure && isVisible(panel)) show(panel);
  }
  if (views.length) showStep();
}
