// Sets that fill: request by request, at the threshold that the reader chooses. All values come with the page.
// facts: thresholds, slots (of a set), and for each threshold rates, waited, defaults (one a request), fill (sets a request).
(root, facts) => {
  "use strict";
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const [threshold, request, told, grid] = ["threshold", "request", "told", "grid"].map(part);
  const percent = (share) => `${(100 * share).toFixed(0)} %`;
  const words = (value) => (value > 1 ? "above 100 %: always wait" : percent(value));

  function draw(run, at, limit) {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const [wide, high] = [grid.clientWidth, 250];
    [grid.width, grid.height] = [wide * ratio, high * ratio];
    const paint = grid.getContext("2d");
    paint.scale(ratio, ratio);
    paint.font = "13px sans-serif";
    const ink = getComputedStyle(root).color;
    const [left, top, middle, bottom] = [42, 22, 125, 235];
    const right = wide - 8;
    paint.fillStyle = ink;
    paint.fillText("hit rate, request by request", left, 14);
    const x = (n) => left + ((right - left) * (n + 0.5)) / run.rates.length;
    const y = (rate) => middle - (middle - top - 4) * rate;
    [0, 0.5, 1].forEach((rate) => {
      paint.globalAlpha = 0.25;
      paint.fillRect(left, y(rate), right - left, 1);
      paint.globalAlpha = 1;
      paint.fillText(percent(rate), 2, y(rate) + 4);
    });
    run.rates.slice(0, at + 1).forEach((rate, n) => { // a filled square waits, an open circle does not
      paint.fillStyle = paint.strokeStyle = run.waited[n] ? "#c25400" : "#2f7fc1";
      paint.beginPath();
      if (run.waited[n]) paint.fillRect(x(n) - 3.5, y(rate) - 3.5, 7, 7);
      else paint.arc(x(n), y(rate), 3.5, 0, 7);
      paint.lineWidth = 1.8;
      paint.stroke();
    });
    if (limit <= 1) {
      paint.strokeStyle = ink;
      paint.setLineDash([5, 4]);
      paint.beginPath();
      paint.moveTo(left, y(limit));
      paint.lineTo(right, y(limit));
      paint.stroke();
      paint.setLineDash([]);
    }
    paint.fillStyle = ink;
    paint.fillText(`the ${run.fill[at].length} sets`, left, middle + 20);
    const step = (right - left) / run.fill[at].length;
    run.fill[at].forEach((held, set) => {
      const tall = bottom - middle - 28;
      paint.globalAlpha = 0.2;
      paint.fillStyle = ink;
      paint.fillRect(left + set * step, bottom - tall, step - 3, tall);
      paint.globalAlpha = 1;
      paint.fillStyle = "#2f7fc1";
      paint.fillRect(left + set * step, bottom - (tall * held) / facts.slots, step - 3, (tall * held) / facts.slots);
    });
  }

  function show() {
    const [which, at] = [Number(threshold.value), Number(request.value)];
    const [run, limit] = [facts.runs[which], facts.thresholds[which]];
    const before = run.waited.slice(0, at + 1);
    const waits = before.reduce((sum, one) => sum + one, 0);
    const defaults = run.defaults.slice(0, at + 1).reduce((sum, one) => sum + one, 0);
    const held = run.fill[at].reduce((sum, one) => sum + one, 0);
    threshold.setAttribute("aria-valuetext", words(limit));
    request.setAttribute("aria-valuetext", `request ${at + 1}`);
    part("limit").textContent = words(limit);
    part("number").textContent = String(at + 1);
    const text = `After ${at + 1} requests ${waits} have waited, and ${defaults} vectors were the default. `
      + `The last one found ${percent(run.rates[at])} of its keys; ${held} of ${facts.slots * run.fill[at].length} slots are full.`;
    told.textContent = text;
    grid.setAttribute("aria-label", text);
    draw(run, at, limit);
    root.dataset.shown = [which, at, waits, defaults, held].join(" ");
  }

  // a label with an output in it names the output
  threshold.setAttribute("aria-label", "Threshold");
  request.setAttribute("aria-label", "Request");
  threshold.addEventListener("input", show);
  request.addEventListener("input", show);
  part("controls").hidden = false;
  grid.hidden = false;
  show();
  new ResizeObserver(show).observe(grid);
  new MutationObserver(show).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
}
