// A measured grid of a server under load that a reader walks over: numbers of clients × delay of batching. The element's data:
// `grid` (JSON: rows of clients, delay in µs or -1 for none, patches in a second, median and 95th percentile in ms, mean batch).
"use strict";
(() => {
  const element = document.querySelector(".load-grid:not([data-state])");
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  function start() {
    const grid = JSON.parse(element.dataset.grid);
    const [counts, delays] = [0, 1].map((at) => [...new Set(grid.map((row) => row[at]))].sort((a, b) => a - b));
    if (!grid.length || grid.length !== counts.length * delays.length) throw new Error("the grid did not come with the page");
    const row = (clients, delay) => grid.find((one) => one[0] === counts[clients] && one[1] === delays[delay]);
    const most = Math.max(...grid.map((one) => one[2]));
    const step = 2 * 10 ** Math.floor(Math.log10(most));
    const top = Math.ceil(most / step) * step; // of the axis, so that its half is a round number, too
    const waits = (ms) => (ms ? `batches, up to ${ms} ms` : "batches without waiting");
    const name = (delay) => (delays[delay] < 0 ? "no batching" : waits(delays[delay] / 1000));

    // the knee: the fewest clients with nine tenths of what the best delay reaches
    const best = delays.map((_, delay) => Math.max(...counts.map((_, clients) => row(clients, delay)[2])));
    const begin = best.indexOf(Math.max(...best));
    const knee = counts.findIndex((_, clients) => row(clients, begin)[2] >= 0.9 * best[begin]);

    const slider = (max, value) => make("input", { type: "range", min: 0, max, value, style: "display:block; width:100%; min-height:2.2rem" });
    const [many, wait] = [slider(counts.length - 1, knee), slider(delays.length - 1, begin)];
    const canvas = make("canvas", { role: "img" });
    canvas.style.cssText = "display:block; width:100%; height:240px";
    const told = make("p", { role: "status", style: "min-height:4.5em; margin:.3rem 0" });
    const label = (words, control) => make("label", { style: "display:block; margin:.2rem 0" }, [words, control]);
    const app = make("section", {}, [canvas, label("Clients", many), label("Delay", wait), told]);

    function draw(clients, delay) {
      const ratio = Math.min(window.devicePixelRatio || 1, 2);
      const [wide, high] = [canvas.clientWidth, canvas.clientHeight];
      [canvas.width, canvas.height] = [wide * ratio, high * ratio];
      const paint = canvas.getContext("2d");
      paint.scale(ratio, ratio);
      paint.font = "13px sans-serif";
      const ink = getComputedStyle(element).color;
      const x = (at) => 52 + (at / (counts.length - 1)) * (wide - 72);
      const y = (rate) => high - 42 - (rate / top) * (high - 74);
      const curve = (which, colour, dash) => {
        paint.setLineDash(dash);
        paint.strokeStyle = colour;
        paint.lineWidth = 2.5;
        paint.beginPath();
        counts.forEach((_, at) => paint.lineTo(x(at), y(row(at, which)[2])));
        paint.stroke();
      };
      paint.fillStyle = ink;
      counts.forEach((count, at) => paint.fillText(count, x(at) - 6, high - 24));
      for (const part of [0, 0.5, 1]) paint.fillText(part * top, 4, y(part * top) + 4);
      paint.fillText("clients", wide / 2 - 20, high - 6);
      paint.fillText("patches per s; dashed: without batching", 4, 12);
      curve(delays.indexOf(-1) < 0 ? delay : delays.indexOf(-1), "#808080", [6, 4]);
      curve(delay, "#0066A6", []);
      paint.setLineDash([]);
      paint.fillStyle = "#C8500A";
      paint.beginPath();
      paint.arc(x(clients), y(row(clients, delay)[2]), 7, 0, 7);
      paint.fill();
    }
    let waiting = null;
    function update() {
      try {
        const [clients, delay] = [Number(many.value), Number(wait.value)];
        const [, , rate, median, slow, batch] = row(clients, delay);
        draw(clients, delay);
        const words = `${counts[clients]} clients, ${name(delay)}: ${Math.round(rate)} patches per s, median `
          + `${median.toFixed(0)} ms, p95 ${slow.toFixed(0)} ms, ${batch.toFixed(1)} patches in a batch.`;
        Object.assign(element.dataset, { state: "running", clients: counts[clients], delay: delays[delay] });
        canvas.setAttribute("aria-label", words);
        many.setAttribute("aria-valuetext", `${counts[clients]} clients`);
        wait.setAttribute("aria-valuetext", name(delay));
        clearTimeout(waiting);
        waiting = setTimeout(() => { told.textContent = words; }, 250);
      } catch (error) { failed(error); }
    }
    app.addEventListener("input", update);
    element.replaceChildren(app);
    new ResizeObserver(update).observe(canvas);
    new MutationObserver(update).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  }

  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The grid to walk over cannot run here: ${error.message}.` }));
  }
  try { start(); } catch (error) { failed(error); }
})();
