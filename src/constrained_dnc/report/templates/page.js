"use strict";
const charts = JSON.parse(document.getElementById("data").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const hidden = new Set();
let rule = document.querySelector(".rule")?.dataset.rule;

function tone(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// The curves of the chosen selection rule, of the only one if there is no choice.
function series(chart) {
  return chart.rules[rule ?? Object.keys(chart.rules)[0]] ?? [];
}

// Plotly takes some HTML in names; ours are plain text.
function plain(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
}

function traces(chart) {
  return series(chart).flatMap(series => [
    { // the band: along the upper edge, back along the lower
      x: series.lengths.concat(series.lengths.slice().reverse()),
      y: series.high.concat(series.low.slice().reverse()),
      fill: "toself", fillcolor: series.colour + "2e", line: {width: 0}, mode: "lines",
      hoverinfo: "skip", visible: !hidden.has(series.approach),
    },
    {
      x: series.lengths, y: series.median, name: plain(series.approach), mode: "lines",
      line: {color: series.colour, width: 2, dash: series.dash},
      customdata: series.low.map((low, at) => [low, series.high[at]]),
      hovertemplate: "%{y:.1f} (%{customdata[0]:.1f} to %{customdata[1]:.1f})",
      visible: !hidden.has(series.approach),
    },
  ]);
}

function layout(chart) {
  const ink = tone("--ink"), faint = tone("--faint");
  const across = {type: "line", yref: "paper", y0: 0, y1: 1, line: {color: tone("--soft"), width: 1, dash: "dash"}};
  const axis = {color: ink, gridcolor: faint, zeroline: false, fixedrange: true};
  const ticks = chart.log ? {type: "log", tickvals: [2, 5, 10, 20, 50, 100, 200, 500]} : {};
  return {
    autosize: true, showlegend: false, hovermode: "x unified", dragmode: false,
    margin: {l: 40, r: 8, t: 8, b: 40}, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: {color: ink, family: "system-ui, sans-serif", size: 12},
    hoverlabel: {bgcolor: tone("--card"), bordercolor: faint, font: {color: ink}},
    xaxis: {...axis, ...ticks, title: {text: "length", standoff: 4}, showgrid: false},
    yaxis: {...axis, range: [-2, 103], tickvals: [0, 25, 50, 75, 100]},
    annotations: series(chart).length ? [] : [{text: "not evaluated with this rule", xref: "paper", yref: "paper", x: 0.5, y: 0.5, showarrow: false}],
    shapes: [
      ...(chart.training ? [{type: "rect", yref: "paper", y0: 0, y1: 1, x0: chart.training[0], x1: chart.training[1], fillcolor: ink, opacity: 0.07, line: {width: 0}}] : []),
      {type: "line", xref: "paper", x0: 0, x1: 1, y0: chart.threshold, y1: chart.threshold, line: {color: faint, width: 1}},
      ...chart.slots.map(slots => ({...across, x0: slots, x1: slots})),
    ],
  };
}

function draw() {
  for (const chart of charts) {
    Plotly.react(chart.id, traces(chart), layout(chart), {responsive: true, displayModeBar: false});
  }
}

for (const chosen of document.querySelectorAll(".rule")) {
  chosen.addEventListener("click", () => {
    rule = chosen.dataset.rule;
    for (const other of document.querySelectorAll(".rule")) {
      other.setAttribute("aria-pressed", String(other === chosen));
    }
    draw();
  });
}
for (const chip of document.querySelectorAll(".chip[data-approach]")) {
  chip.addEventListener("click", () => {
    const shown = chip.getAttribute("aria-pressed") === "false";
    chip.setAttribute("aria-pressed", String(shown));
    shown ? hidden.delete(chip.dataset.approach) : hidden.add(chip.dataset.approach);
    draw();
  });
}
dark.addEventListener("change", draw);
draw();
