"use strict";
// What a person does: choose, type, draw, scrub, play, save, share; and what the page asks its server.

const POLL = 5000; // milliseconds between two looks at a run that is still training
const MAX_CHARACTERS = 100000; // of a problem: it travels in an address

function query(view) {
  return new URLSearchParams({model: view.model.name, problem: view.problem, memory: view.memory_size});
}

async function request(what, parameters) {
  let answer;
  try {
    answer = await fetch(`${what}?${parameters}`);
  } catch {
    throw new Error("The explorer does not answer any more; start it again with cdnc explore.");
  }
  if (answer.ok) return answer;
  const {error} = await answer.json().catch(() => ({error: `The explorer refused with status ${answer.status}.`}));
  throw new Error(error);
}

async function fetchJson(what, parameters) { return (await request(what, parameters)).json(); }

function showError(error) {
  $("error").textContent = error ? error.message : "";
  $("error").hidden = !error;
}

// What was refused before is no news while something else is computed.
function setBusy() {
  showError(null);
  $("busy").textContent = "computing…";
  $("views").setAttribute("aria-busy", "true");
}

function setIdle() {
  $("busy").textContent = "";
  $("views").removeAttribute("aria-busy");
}

// Says what was refused. The form goes back to what is shown, but for the text, which is to be corrected.
function restoreShown(error) {
  showError(error);
  setIdle();
  if (!views.length) return;
  Object.assign(state, shown, {step: Number($("step").value), slot: Number($("slot").value)});
  fillFormKeeping($("problem").value);
  scheduleLink();
}

function fillFormKeeping(typed) {
  fillForm();
  if (typed) $("problem").value = typed;
}

async function load() {
  const mine = ++requests, {model, compare, problem, memory} = state;
  setBusy();
  try {
    if (problem.length > MAX_CHARACTERS) throw new Error(`The problem has ${problem.length} characters; at most ${MAX_CHARACTERS} fit into an address.`);
    const answers = await Promise.all([model, compare].filter(Boolean).map(name =>
      fetchJson("trace", new URLSearchParams({model: name, problem, memory}))));
    if (mine !== requests) return; // a later question has overtaken this one
    shown = {model, compare, problem, memory};
    content.models = content.models.map(each => (answers.find(view => view.model.name === each.name) || {model: each}).model);
    await showViews(answers);
    if (mine === requests) fillFormKeeping(document.activeElement === $("problem") && $("problem").value); // may be typing
  } catch (error) {
    if (mine === requests) restoreShown(error);
  } finally {
    if (mine === requests) setIdle();
  }
}

async function drawProblem(length, seed) {
  const mine = ++requests;
  setBusy();
  try {
    const {problem} = await fetchJson("draw", new URLSearchParams({model: state.model, length, seed}));
    if (mine !== requests) return;
    $("problem").value = problem;
    if (state.problem) state.step = 0; // a link may name a step, and no problem
    state.problem = problem;
    await load();
  } catch (error) {
    if (mine === requests) restoreShown(error);
  }
}

// --- the form ---

const model = name => content.models.find(each => each.name === name);

function options(models) {
  return models.map(({name, task, approach, error}) => element("option", {
    value: name, textContent: error ? `${name} (${error})` : `${task}, ${approach}: ${name}`, disabled: Boolean(error),
  }));
}

function stops() {
  const {memory_size: trained, max_slots: most} = model(state.model);
  return [0.5, 1, 1.5, 2, 3, 4, 6, 8, 10].map(times => Math.round(times * trained)).filter(size => size >= 1 && size <= most);
}

function fillForm() {
  const chosen = model(state.model), sizes = stops();
  $("model").value = state.model;
  const others = content.models.filter(each => each.task === chosen.task && each.name !== state.model);
  if (!others.some(({name}) => name === state.compare)) state.compare = "";
  $("compare").replaceChildren(element("option", {value: "", textContent: "nothing"}), ...options(others));
  $("compare").value = state.compare;
  $("compare").disabled = !others.length;
  const size = Number(state.memory) || chosen.memory_size;
  Object.assign($("slots"), {min: 0, max: sizes.length - 1, step: 1});
  const nearest = sizes.reduce((best, each, at) => Math.abs(each - size) < Math.abs(sizes[best] - size) ? at : best, 0);
  $("slots").value = nearest;
  $("memory").value = size;
  $("growing").checked = state.memory === "growing";
  $("slots").disabled = $("memory").disabled = $("growing").checked;
  $("memory").max = chosen.max_slots;
  $("memory-note").textContent = `slots, trained with ${chosen.memory_size}`;
  $("problem").value = state.problem;
  $("length").max = chosen.max_length;
  $("lead").textContent = `${chosen.task}: ${chosen.summary}`;
  fillExamples(chosen);
  showNews();
}

function fillExamples({name, examples}) {
  if ($("examples").dataset.of === name) return; // a new button would lose the focus of the old one
  $("examples").dataset.of = name;
  $("examples").replaceChildren(...examples.map(length => element("button", {
    type: "button", textContent: String(length), title: `an example of length ${length}`, onclick: () => drawProblem(length, 0),
  })));
}

// How far the runs on the screen are by now, and whether they have newer parameters.
function showNews() {
  const items = [];
  for (const view of views) {
    const now = model(view.model.name);
    if (!now || now.error) continue;
    Object.assign(view.model, {state: now.state, is_training: now.is_training});
    showOrigin(view);
    const newer = now.iteration !== view.model.iteration;
    if (now.is_training || newer) items.push(`${now.name}: ${now.state}. `);
    if (newer) items.push(now.iteration);
  }
  const text = JSON.stringify(items), hadFocus = $("news").contains(document.activeElement);
  if ($("news").dataset.of === text) return;
  $("news").dataset.of = text;
  $("news").replaceChildren(...items.flatMap(part => typeof part === "string" ? [part] : [element("button", {
    type: "button", textContent: `Show the parameters of iteration ${part}`, onclick: load,
  }), " "]));
  if (hadFocus) $("news").querySelector("button")?.focus();
}

async function chooseModel(name) {
  const before = model(state.model), after = model(name);
  state.model = name;
  const sameTask = before && before.task === after.task;
  if (!sameTask) Object.assign(state, {problem: "", memory: "", step: 0, slot: 0});
  fillForm();
  await showProblem();
}

// The problem of the link, or a drawn one: longer than in training for two models, which differ there.
function showProblem() {
  const {first_length, first_compared_length} = model(state.model);
  return state.problem ? load() : drawProblem(state.compare ? first_compared_length : first_length, 0);
}

async function poll() {
  if (views.some(view => view.model.is_training)) {
    const models = await fetchJson("models", "").catch(() => content.models);
    content.models = models.map(each => each.error ? model(each.name) || each : each);
    showNews();
  }
  setTimeout(poll, POLL);
}

function listen() {
  $("ask").onsubmit = event => {
    event.preventDefault();
    if (state.problem !== $("problem").value) Object.assign(state, {problem: $("problem").value, step: 0});
    load();
  };
  $("model").onchange = () => chooseModel($("model").value);
  $("compare").onchange = () => { state.compare = $("compare").value; load(); };
  $("slots").oninput = () => { $("memory").value = stops()[$("slots").value]; };
  $("slots").onchange = $("memory").onchange = () => {
    state.memory = $("memory").value;
    load();
  };
  $("growing").onchange = () => {
    state.memory = $("growing").checked ? "growing" : "";
    fillForm();
    load();
  };
  $("draw").onclick = () => drawProblem($("length").value, Math.floor(1e9 * Math.random()));
}

// --- time ---

let playing = 0;
function play() {
  const stop = () => { clearInterval(playing); playing = 0; };
  if (playing) stop();
  else {
    if (state.step >= views[0].steps) setStep(1);
    playing = setInterval(() => {
      setStep(state.step + 1);
      if (state.step >= views[0].steps) { stop(); label(); }
    }, 150);
  }
  label();
}

function label() {
  $("play").textContent = playing ? "❚❚" : "▶";
  $("play").ariaLabel = playing ? "Pause" : "Play";
}

const KEYS = {
  ArrowLeft: () => setStep(state.step - 1),
  ArrowRight: () => setStep(state.step + 1),
  Home: () => setStep(1),
  End: () => setStep(views[0].steps),
  " ": play,
};

document.addEventListener("keydown", event => {
  const typing = event.target.closest("input, select, textarea");
  const pressing = event.target.closest("button, a") && event.key === " ";
  if (!views.length || typing || pressing || event.ctrlKey || event.altKey || event.metaKey || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});
$("step").oninput = () => setStep(Number($("step").value));
$("back").onclick = () => setStep(state.step - 1);
$("forth").onclick = () => setStep(state.step + 1);
$("play").onclick = play;
$("slot").onchange = () => followSlot(Number($("slot").value));
dark.addEventListener("change", redraw);
let resizing = 0;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(redraw, 150); });

// --- saving and sharing ---

function savePicture(panel, format) {
  const {view} = panel, page = getComputedStyle(document.documentElement), colour = name => page.getPropertyValue(`--${name}`);
  const layout = {...panel.figure.layout, ...panel.legend, template: template(), paper_bgcolor: colour("card")};
  const line = {type: "rect", yref: "paper", y0: 0, y1: 1, x0: state.step - 0.5, x1: state.step + 0.5, line: {color: colour("cursor"), width: 1.5}};
  if (panel.over_time) layout.shapes = [...layout.shapes || [], line];
  if (isMatrix(panel)) panel.figure.data[0].z = matrixAt(view, panel.name, state.step);
  const size = {width: panel.frame.clientWidth, height: layout.height};
  const name = `${view.model.task}-${view.model.approach}-${panel.name}-step-${state.step}`;
  return Plotly.downloadImage(withColourBar({data: panel.figure.data, layout}), {format, scale: 2, filename: name, ...size});
}

async function saveData(event, view) {
  event.preventDefault();
  const download = `${view.model.task}-${view.model.approach}.npz`;
  if (!served) return element("a", {href: `data:application/octet-stream;base64,${view.file}`, download}).click();
  try {
    const file = await (await request("data", `${query(view)}&step=${state.step}`)).blob();
    const href = URL.createObjectURL(file);
    element("a", {href, download}).click();
    setTimeout(() => URL.revokeObjectURL(href), 60000);
  } catch (error) {
    showError(error);
  }
}

function writeLink() {
  clearTimeout(linkTimer);
  if (!views.length) return; // what was refused is in no link
  const known = Object.entries({...shown, step: state.step, slot: state.slot, hidden: state.hidden}).filter(([, value]) => value);
  history.replaceState(null, "", `#${new URLSearchParams(known)}`);
}

let linkTimer = 0;
function scheduleLink() {
  clearTimeout(linkTimer);
  linkTimer = setTimeout(writeLink, 250);
}

function readLink(link = location.href) {
  const known = Object.fromEntries(new URLSearchParams(new URL(link).hash.slice(1)));
  if (served) Object.assign(state, FRESH); // a link says all of it, and leaves out what is fresh
  for (const name of Object.keys(FRESH)) {
    if (name in known) state[name] = typeof FRESH[name] === "number" ? Number(known[name]) || 0 : known[name];
  }
}

$("share").onclick = async () => {
  writeLink();
  try {
    await navigator.clipboard.writeText(location.href);
    $("share").textContent = "Copied";
  } catch {
    $("share").textContent = "It is in the address bar";
  }
  setTimeout(() => { $("share").textContent = "Copy link"; }, 2000);
};

// --- the beginning ---

function unknownModel(name) { return new Error(`This explorer has no model ${name || "without a name"}.`); }

async function start() {
  readLink();
  document.body.classList.toggle("whole", !served);
  if (!served) {
    const [{model: {task, summary, name}, problem}] = content.views;
    $("ask").hidden = true;
    $("lead").textContent = `${task}: ${summary}. Problem: ${problem}`;
    Object.assign(state, {model: name, compare: "", problem: "", memory: ""});
    await showViews(content.views);
    return;
  }
  const usable = content.models.filter(({error}) => !error);
  $("model").replaceChildren(...options(content.models));
  if (!usable.length) return showError(new Error(content.models[0].error));
  listen();
  setTimeout(poll, POLL);
  const isKnown = usable.some(({name}) => name === state.model);
  const missing = isKnown ? "" : state.model;
  if (!isKnown) Object.assign(state, FRESH, {model: usable[0].name});
  fillForm();
  await showProblem();
  if (!views.length) await openDefault();
  if (missing) showError(unknownModel(missing));
}

// After a link to what is refused: still something to look at.
async function openDefault() {
  const message = $("error").textContent;
  Object.assign(state, {...FRESH, model: state.model});
  fillForm();
  await showProblem();
  if (message) showError(new Error(message));
}

addEventListener("hashchange", ({newURL}) => {
  clearTimeout(linkTimer); // what was shown until now is not to replace the new link
  const before = {...state};
  readLink(newURL);
  if (!served) {
    setStep(requestedStep());
    followSlot(state.slot);
    return;
  }
  const {error} = model(state.model) || {error: unknownModel(state.model).message};
  if (error) {
    showError(new Error(error));
    Object.assign(state, before);
    scheduleLink();
    return;
  }
  fillForm();
  showProblem();
});
start();
