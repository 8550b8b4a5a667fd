// What a person does: choose, type, draw, scrub, play, save, share; and what the page asks its server.

const POLL = 5000; // milliseconds between two looks at a run that is still training
let shown = {}; // the models, problem and memory on the screen
let requests = 0;

function query({model, problem, memory_size}) {
  return {model: model.name, rule: model.rule, inference: model.inference, problem, memory: memory_size};
}

async function request(what, parameters = {}) {
  const answer = await fetch(`${what}?${new URLSearchParams(parameters)}`).catch(() => {
    throw new Error("The explorer no longer responds; start it again with cdnc explore.");
  });
  if (answer.ok) return answer;
  const {error} = await answer.json().catch(() => ({error: `The explorer failed (${answer.status}); its terminal says why.`}));
  throw new Error(error);
}

async function fetchJson(what, parameters) { return (await request(what, parameters)).json(); }

function setBusy(busy) {
  $("busy").textContent = busy ? "computing…" : "";
  $("views").ariaBusy = String(busy);
}

// Shows what `state` requests. If that is refused, the page stays as it was, except for the text to be corrected.
async function load() {
  const mine = ++requests, {model: name, rule, inference, compare, compare_rule, compare_inference, memory} = state;
  showError(null);
  setBusy(true);
  try {
    const {problem} = state.problem ? state : await drawn(firstLength(), 0);
    const sides = [{model: name, rule, inference}, {model: compare, rule: compare_rule, inference: compare_inference}].filter(({model}) => model);
    const answers = await Promise.all(sides.map(side => fetchJson("trace", {...side, problem, memory})));
    if (mine !== requests) return; // a later request has overtaken this one
    Object.assign(state, {problem});
    shown = {model: name, rule, inference, compare, compare_rule, compare_inference, problem, memory};
    await showViews(answers);
    fillForm();
  } catch (error) {
    if (mine === requests) await restore(error);
  }
  if (mine === requests) setBusy(false);
}

async function restore(error) {
  const typed = $("problem").value;
  if (views.length) {
    Object.assign(state, shown);
    fillForm();
    $("problem").value = typed;
  } else if (location.hash) { // a link that is refused: show something else
    history.replaceState(null, "", location.pathname);
    Object.assign(state, FRESH, {model: usable()[0].name});
    await load();
  }
  showError(error);
}

const drawn = (length, seed) => fetchJson("draw", {model: state.model, length, seed});

async function drawProblem(length, seed) {
  try {
    Object.assign(state, await drawn(length, seed), {step: 0});
  } catch (error) {
    return showError(error);
  }
  await load();
}

// --- the form ---

const model = name => content.models.find(each => each.name === name);
const usable = () => content.models.filter(({error}) => !error);

// Longer than in training for two models, which differ there.
function firstLength() {
  const {first_length, first_compared_length} = model(state.model) || usable()[0];
  return state.compare ? first_compared_length : first_length;
}

function fillSelect(id, value, options) {
  $(id).replaceChildren(...options.map(([value, textContent, disabled = false]) => element("option", {value, textContent, disabled})));
  $(id).value = value;
}

function options(models) {
  return models.map(({name, task, approach, error}) => [name, error ? `${name} (${error})` : `${task}, ${approach}: ${name}`, Boolean(error)]);
}

function fillForm() {
  const chosen = model(state.model), other = model(state.compare);
  fillSelect("model", state.model, options(content.models));
  fillSelect("compare", state.compare, [["", "nothing"], ...options(usable().filter(({task}) => task === chosen.task))]);
  for (const [prefix, each] of [["", chosen], ["compare_", other]]) for (const what of ["rule", "inference"]) {
    const id = prefix + what, choices = each ? each[`${what}s`] : [];
    fillSelect(id, state[id] || (each ? each[what] : ""), choices.map(choice => [choice, choice]));
    $(id).disabled = choices.length < 2;
  }
  $("growing").checked = state.memory === "growing";
  Object.assign($("memory"), {value: Number(state.memory) || chosen.memory_size, max: chosen.max_slots, disabled: $("growing").checked});
  $("memory-note").textContent = `slots, trained with ${chosen.memory_size}`;
  $("problem").value = state.problem;
  $("length").max = chosen.max_length;
  $("lead").textContent = `${chosen.task}: ${chosen.summary}`;
  $("examples").replaceChildren(...chosen.examples.map(length => element("button", {
    type: "button", textContent: String(length), title: `an example of length ${length}`, onclick: () => drawProblem(length, 0),
  })));
  showNews();
}

// How far the runs on the screen are by now, and whether they have newer parameters.
function showNews() {
  const pairs = views.map(view => [view.model, model(view.model.name)]).filter(([, now]) => now && !now.error);
  $("news").textContent = pairs.filter(([, now]) => now.is_training).map(([, {name, state}]) => `${name}: ${state}. `).join("");
  $("newer").hidden = pairs.every(([then, now]) => then.rule !== now.rule || then.iteration === now.iteration);
}

async function poll() {
  if (views.some(view => !(model(view.model.name) || view.model).has_ended)) { // one that was stopped may be resumed
    const models = await fetchJson("models").catch(() => content.models);
    content.models = models.map(each => each.error ? model(each.name) || each : each); // it may be written just now
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
  const change = (id, apply) => { $(id).onchange = () => { apply($(id).value); load(); }; };
  change("model", name => {
    const isSameTask = model(state.model).task === model(name).task;
    Object.assign(state, isSameTask ? {} : {...FRESH, hidden: state.hidden}, {model: name, rule: "", inference: ""});
  });
  change("compare", name => Object.assign(state, {compare: name, compare_rule: "", compare_inference: ""}));
  for (const id of ["rule", "inference", "compare_rule", "compare_inference", "memory"]) change(id, value => { state[id] = value; });
  change("growing", () => { state.memory = $("growing").checked ? "growing" : ""; });
  $("draw").onclick = () => drawProblem($("length").value, Math.floor(1e9 * Math.random()));
  $("newer").onclick = load;
}

// --- time ---

let playing = 0;
function play() {
  if (playing) clearInterval(playing);
  else if (state.step >= views[0].steps) setStep(1);
  playing = playing ? 0 : setInterval(() => {
    setStep(state.step + 1);
    if (state.step >= views[0].steps) play();
  }, 150);
  Object.assign($("play"), {textContent: playing ? "❚❚" : "▶", ariaLabel: playing ? "Pause" : "Play"});
}

const KEYS = {
  ArrowLeft: () => setStep(Math.max(state.step - 1, 1)),
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
$("back").onclick = KEYS.ArrowLeft;
$("forth").onclick = KEYS.ArrowRight;
$("play").onclick = play;
$("slot").onchange = () => followSlot(Number($("slot").value));
dark.addEventListener("change", redraw);
let resizing = 0;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(redraw, 150); });

// --- saving and sharing ---

const fileName = view => titleOf(view.model).replaceAll(", ", "-");

// A picture has nothing beside it: it gets its legend, the cursor and a colour bar.
function savePicture({view, name, figure, legend, frame, over_time}, format) {
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
  const layout = {...figure.layout, ...legend, template: template(), paper_bgcolor: colour("card")};
  const [first, ...others] = figure.data.map(trace => ({...trace})), bar = {showscale: true, colorbar: {thickness: 12, outlinewidth: 0, nticks: 5}};
  if (over_time) layout.shapes = [...layout.shapes || [], {
    type: "rect", yref: "paper", y0: 0, y1: 1, x0: state.step - 0.5, x1: state.step + 0.5, line: {color: colour("cursor"), width: 1.5},
  }];
  if (first.type === "heatmap") layout.margin = {...template().layout.margin, r: 64};
  if (first.coloraxis) layout.coloraxis = {...layout.coloraxis, ...bar};
  else if (first.type === "heatmap") Object.assign(first, bar);
  const size = {width: frame.clientWidth, height: layout.height};
  const filename = `${fileName(view)}-${name}-step-${state.step}`;
  return Plotly.downloadImage({data: [first, ...others], layout}, {format, scale: 2, filename, ...size});
}

async function saveData(event, view) {
  event.preventDefault();
  const download = `${fileName(view)}.npz`;
  if (!served) return element("a", {href: `data:application/octet-stream;base64,${view.file}`, download}).click();
  try {
    const file = await (await request("data", {...query(view), step: state.step})).blob();
    element("a", {href: URL.createObjectURL(file), download}).click();
  } catch (error) {
    showError(error);
  }
}

function writeLink() {
  const known = Object.entries({...state, ...shown}).filter(([, value]) => value);
  history.replaceState(null, "", `#${new URLSearchParams(known)}`);
}

function readLink() {
  const known = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  for (const [name, fresh] of Object.entries(FRESH)) {
    const value = known[name] ?? fresh;
    state[name] = typeof fresh === "number" ? Number(value) || 0 : value;
  }
}

// --- the beginning ---

async function start() {
  readLink();
  clearTimeout(updateTimer); // what was shown until now is not to replace the new link
  if (!served) return views.length ? (setStep(state.step), followSlot(state.slot)) : showFile();
  if (!usable().length) return showError(new Error(content.models[0].error));
  state.model ||= usable()[0].name;
  await load();
}

function showFile() {
  const [{model: {task, summary}, problem}] = content.views;
  $("ask").hidden = true;
  $("lead").textContent = `${task}: ${summary}. Problem: ${problem}`;
  return showViews(content.views);
}

addEventListener("hashchange", start);
listen();
if (served) setTimeout(poll, POLL);
start();
