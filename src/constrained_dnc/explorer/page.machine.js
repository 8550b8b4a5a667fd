// The machine inside a model: its states on a circle, the current one lit.

const CENTRE = [320, 160], RADIUS = 125;

function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Extraction takes about a minute, so it waits for a click.
function offerMachine(panel) {
  const {view, frame} = panel, button = element("button", {type: "button", textContent: "Extract the machine (about a minute)"});
  const extract = async () => {
    Object.assign(button, {disabled: true, textContent: "extracting…"});
    showMachine(panel, await fetchJson("machine", query(view)).catch(error => ({words: error.message})));
  };
  button.onclick = extract;
  if (served) frame.replaceChildren(button);
  else if (view.machine) showMachine(panel, view.machine);
  else panel.section.hidden = true;
}

function showMachine({view, frame, words, note}, machine) {
  words.textContent = machine.states ? `${note} ${machine.words}` : machine.words;
  frame.replaceChildren();
  if (!machine.states) return;
  const count = machine.states.length, angle = at => 2 * Math.PI * at / count;
  const on = (at, radius) => [CENTRE[0] + radius * Math.sin(angle(at)), CENTRE[1] - radius * Math.cos(angle(at))];
  const edges = machine.edges.map(([from, to, inputs]) => {
    const [x, y] = on(from, RADIUS - 8), [u, v] = on(to, RADIUS - 8), [a, b] = on((from + to) / 2, 20);
    const [[c, d], [e, f]] = [on(from - 0.35, RADIUS - 45), on(from + 0.35, RADIUS - 45)]; // of a loop
    const path = from === to ? `M${x} ${y} C${c} ${d} ${e} ${f} ${x} ${y}` : `M${x} ${y} Q${a} ${b} ${u} ${v}`;
    return svg("path", {d: path, class: "edge", "marker-end": "url(#arrow)"}, svg("title", {}, inputs));
  });
  const nodes = machine.states.map((name, at) => {
    const [x, y] = on(at, RADIUS), [u, v] = on(at, RADIUS + 14), side = Math.sin(angle(at));
    const anchor = Math.abs(side) < 0.1 ? "middle" : side > 0 ? "start" : "end";
    return svg("g", {class: "node"}, svg("circle", {cx: x, cy: y, r: 7}), svg("text", {x: u, y: v + 4, "text-anchor": anchor}, name));
  });
  const arrow = svg("marker", {id: "arrow", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto"},
    svg("path", {d: "M0 0 L8 4 L0 8 Z"}));
  frame.append(svg("svg", {viewBox: "0 0 640 320", class: "machine", role: "img"}, svg("defs", {}, arrow), ...edges, ...nodes));
  view.graph = {...machine, svgEdges: edges, svgNodes: nodes};
  lightState(view);
}

function lightState({graph}) {
  if (!graph) return;
  const to = graph.path[state.step - 1], from = state.step > 1 ? graph.path[state.step - 2] : graph.start;
  graph.svgNodes.forEach((node, at) => node.classList.toggle("lit", at === to));
  graph.svgEdges.forEach((edge, at) => edge.classList.toggle("lit", graph.edges[at][0] === from && graph.edges[at][1] === to));
}
