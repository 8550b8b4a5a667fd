"use strict";
// What a person does: choose, type, draw, scrub, play; and what the page asks its server.

const POLL = 5000; // milliseconds between two looks at a run that is still training

function query(view) {
  return new URLSearchParams({model: view.model.name, problem: view.problem, memory: view.memory_size});
}

async function ask(what, parameters) {
  let answer;
  try {
    answer = await fetch(`${what}?${parameters}`);
  } catch {
    throw new Error("The explorer does not answer any more; start it again with cdnc explore.");
  }
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

function complain(error) {
  $("error").textContent = error ? error.message : "";
  $("error").hidden = !error;
}

async function load() {
  const mine = ++asking;
  $("views").setAttribute("aria-busy", "true");
  try {
    const names = [state.model, state.compare].filter(Boolean);
    const found = await Promise.all(names.map(name =>
      ask("attempt", new URLSearchParams({model: name, problem: state.problem, memory: state.memory}))));
    if (mine !== asking) return; // a later question has overtaken this one
    complain(null);
    await showViews(found);
    remember();
  } catch (error) {
    if (mine === asking) complain(error);
  } finally {
    if (mine === asking) $("views").removeAttribute("aria-busy");
  }
}

async function drawProblem(length, seed) {
  try {
    const {problem} = await ask("draw", new URLSearchParams({model: state.model, length, seed}));
    $("problem").value = state.problem = problem;
    await load();
  } catch (error) {
    complain(error);
  }
}

// --- the form ---

const model = name => about.models.find(each => each.name === name);

function options(models) {
  return models.map(({name, task, approach, problem}) => element("option", {
    value: name, textContent: problem ? `${name} (${problem})` : `${task}, ${approach}: ${name}`, disabled: Boolean(problem),
  }));
}

function stops() {
  const {memory_size: trained, most_slots: most} = model(state.model);
  return [0.5, 1, 1.5, 2, 3, 4, 6, 8, 10].map(times => Math.round(times * trained)).filter(size => size >= 1 && size <= most);
}

function fillForm() {
  const chosen = model(state.model), sizes = stops();
  $("model").value = state.model;
  const others = about.models.filter(each => each.task === chosen.task && each.name !== state.model);
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
  $("memory").max = chosen.most_slots;
  $("memory-note").textContent = `slots, trained with ${chosen.memory_size}`;
  $("problem").value = state.problem;
  $("length").max = chosen.longest;
  $("lead").textContent = `${chosen.task}: ${chosen.summary}`;
  $("examples").replaceChildren(...chosen.examples.map(length => element("button", {
    type: "button", textContent: String(length), title: `an example of length ${length}`, onclick: () => drawProblem(length, 0),
  })));
  news(chosen);
}

function news(chosen) {
  const [shown] = views, newer = shown && shown.model.name === chosen.name && shown.model.iteration !== chosen.iteration;
  $("news").replaceChildren();
  if (chosen.is_training || newer) $("news").append(`${chosen.name}: ${chosen.state}. `);
  if (newer) $("news").append(element("button", {type: "button", textContent: `Show the parameters of iteration ${chosen.iteration}`, onclick: load}));
}

async function choose(name) {
  const before = model(state.model), after = model(name);
  state.model = name;
  const sameTask = before && before.task === after.task;
  if (!sameTask) Object.assign(state, {problem: "", memory: "", slot: 0});
  fillForm();
  if (state.problem) await load();
  else await drawProblem(after.training_lengths[1], 0);
}

async function poll() {
  if (views.some(view => view.model.is_training)) {
    about.models = await ask("models", "").catch(() => about.models);
    const now = model(state.model);
    if (now && !now.problem) news(now);
    if (views.every(view => !(model(view.model.name) || {}).is_training)) {
      views.forEach(view => { view.model.is_training = false; });
    }
  }
  setTimeout(poll, POLL);
}

function listen() {
  $("ask").onsubmit = event => {
    event.preventDefault();
    state.problem = $("problem").value;
    load();
  };
  $("model").onchange = () => choose($("model").value);
  $("compare").onchange = () => { state.compare = $("compare").value; load(); };
  $("slots").oninput = () => { $("memory").value = stops()[$("slots").value]; };
  $("slots").onchange = $("memory").onchange = () => {
    state.memory = $("memory").value;
    load().then(() => fillForm());
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
$("slot").onchange = () => follow(Number($("slot").value));
dark.addEventListener("change", redraw);
let resizing = 0;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(redraw, 150); });

async function begin() {
  recall();
  document.body.classList.toggle("whole", !served);
  if (!served) {
    const [{model: {task, summary, name}, problem}] = about.views;
    $("ask").hidden = true;
    $("lead").textContent = `${task}: ${summary}. Problem: ${problem}`;
    Object.assign(state, {model: name, compare: "", problem: "", memory: ""});
    await showViews(about.views);
    return;
  }
  const usable = about.models.filter(({problem}) => !problem);
  $("model").replaceChildren(...options(about.models));
  if (!usable.length) return complain(new Error(about.models[0].problem));
  listen();
  setTimeout(poll, POLL);
  const wanted = usable.some(({name}) => name === state.model);
  if (!wanted) Object.assign(state, {model: usable[0].name, problem: ""});
  fillForm();
  if (state.problem) await load();
  else await drawProblem(model(state.model).training_lengths[1], 0);
}

addEventListener("hashchange", () => {
  const before = {...state};
  recall();
  if (!served) return;
  if (!model(state.model)) {
    complain(new Error(`This explorer has no model ${state.model || "without a name"}.`));
    Object.assign(state, before);
    return;
  }
  fillForm();
  load();
});
begin();
