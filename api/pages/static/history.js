"use strict";
// Adds a plot with zoom to the history of a series, below the plot that the server drew.
(() => {
  const data = JSON.parse(document.getElementById("history-data").textContent);
  const place = document.getElementById("history-zoom");
  const height = 340;
  const width = () => Math.max(280, Math.min(1160, place.clientWidth));

  const draw = () => {
    const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const [mark, line, text, step, ground] = ["--mark", "--line", "--soft", "--slower", "--ground"].map(colour);
    const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    const rate = (_, value) => (value == null ? "–" : `${value.toPrecision(4)} ${data.unit}`);
    const dots = (label, fill) => ({
      label, stroke: mark, paths: () => null, value: rate, points: { show: true, size: 7, fill, stroke: mark, width: 2 },
    });
    const steps = uPlot.paths.stepped({ align: 1 });
    const edge = (label) => ({ label, stroke: "transparent", paths: steps, points: { show: false }, value: rate });
    const byStart = new Map(data.runs.map((run) => [run.start, run.label]));
    const drawSteps = (plot) => {
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.strokeStyle = step;
      ctx.lineWidth = 2;
      ctx.setLineDash([6, 4]);
      for (const run of data.runs.filter((it) => it.step)) {
        const x = plot.valToPos(run.start - 0.5, "x", true);
        if (x < bbox.left || x > bbox.left + bbox.width) continue;
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
      }
      ctx.restore();
    };
    const options = {
      width: width(), height, scales: { x: { time: false } },
      axes: [
        { ...axis, splits: (plot, _, low, high) => {
          const within = data.runs.map((run) => run.start).filter((it) => it >= low && it <= high);
          const every = Math.ceil(within.length / Math.max(1, plot.width / 110));
          return within.filter((_, index) => index % every === 0);
        }, values: (_, splits) => splits.map((it) => byStart.get(it) ?? "") },
        { ...axis, label: data.unit, size: 64 },
      ],
      series: [
        { label: "Job", value: (_, index) => (index == null ? "–" : data.labels[index]) },
        dots("Rate", mark), dots("Left out", ground), edge("Upper quartile"), edge("Lower quartile"),
      ],
      bands: [{ series: [3, 4], fill: `${mark}30` }],
      hooks: { draw: [drawSteps] },
    };
    const numbers = data.labels.map((_, index) => index);
    const plot = new uPlot(options, [numbers, data.rates, data.left_out, data.high, data.low], place);
    let pressed = 0;
    plot.over.addEventListener("mousedown", (event) => { pressed = event.clientX; });
    plot.over.addEventListener("click", (event) => {
      const index = plot.cursor.idx;
      // A drag zooms, and ends with a click, too.
      if (index != null && Math.abs(event.clientX - pressed) < 4) location.assign(data.urls[index]);
    });
    addEventListener("resize", () => plot.setSize({ width: width(), height }));
  };

  place.hidden = false;
  place.addEventListener("toggle", draw, { once: true });
})();
