// A walk on the line between two networks in the space of weights: loss and accuracy at each point, with a switch for
// where the batch norms' statistics come from. All values come with the page; nothing is computed but the drawing.
// The element's data: `walk`, JSON {t: {line: [share of the way]}, ends: {line: [name, name]}, kinds: {kind: words},
// rows: {line: {kind: [[training loss, training accuracy, test loss, test accuracy], …]}}}.
"use strict";
(() => {
  const element = document.querySelector(".walk-line:not([data-state])");
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  const SERIES = [{ words: "training", colour: "#3b7dd8", dash: [] }, { words: "test", colour: "#e8871e", dash: [7, 4] }];
  function start() {
    const told = JSON.parse(element.dataset.walk);
    const lines = Object.keys(told.rows);
    for (const line of lines) {
      for (const rows of Object.values(told.rows[line])) {
        if (rows.length !== told.t[line].length || !rows.length) throw new Error("the values did not come with the page");
      }
    }
    const options = (pairs) => pairs.map(([value, textContent]) => make("option", { value, textContent }));
    const chooseLine = make("select", {}, options(lines.map((line) => [line, told.ends[line].join(" to ")])));
    const chooseKind = make("select", {}, options(Object.entries(told.kinds)));
    const range = make("input", { type: "range", min: 0, step: 1 });
    const canvas = make("canvas", { role: "img" });
    canvas.style.cssText = "display:block; width:100%; height:270px; cursor:ew-resize; touch-action:pan-y";
    for (const control of [chooseLine, chooseKind, range]) {
      control.style.cssText = "display:block; width:100%; min-height:2.2rem; font:inherit";
    }
    const words = make("p", { role: "status", style: "min-height:4.5em; margin:.4rem 0" });
    const label = (text, control) => make("label", { style: "display:block; margin:.3rem 0" }, [text, control]);
    // what is moved and what it changes fit on one screen of a phone, so the words, which wrap there, come last
    const app = make("section", {}, [
      label("From one network to the other", chooseLine), label("Batch-norm statistics", chooseKind),
      canvas, label("Where on the line", range), words,
    ]);

    const bounds = (line) => { // the same for all kinds, so that the switch moves the curves and not the axes
      const all = Object.values(told.rows[line]).flat();
      const losses = all.flatMap((row) => [row[0], row[2]]).map((loss) => Math.log10(Math.max(loss, 1e-4)));
      const [low, high] = [Math.min(...losses), Math.max(...losses)];
      return { loss: [low - 0.05 * (high - low), high + 0.05 * (high - low)], accuracy: [0, 1] };
    };
    function panel(paint, box, title, [low, high], values, ticks) {
      const { x, top, bottom, ink, t } = box;
      const y = (value) => bottom - ((value - low) / (high - low || 1)) * (bottom - top);
      [paint.fillStyle, paint.strokeStyle, paint.lineWidth] = [ink, ink, 1];
      paint.setLineDash([]);
      paint.fillText(title, x(t[0]), top - 6);
      ticks.forEach(([value, text]) => {
        paint.globalAlpha = 0.25;
        paint.beginPath();
        paint.moveTo(x(t[0]), y(value));
        paint.lineTo(x(t.at(-1)), y(value));
        paint.stroke();
        paint.globalAlpha = 1;
        paint.textAlign = "right";
        paint.fillText(text, x(t[0]) - 5, y(value) + 4);
        paint.textAlign = "left";
      });
      values.forEach((series, which) => {
        paint.beginPath();
        series.forEach((value, i) => paint.lineTo(x(t[i]), y(value)));
        [paint.strokeStyle, paint.lineWidth] = [SERIES[which].colour, 2.2];
        paint.setLineDash(SERIES[which].dash);
        paint.stroke();
        paint.setLineDash([]);
        paint.beginPath();
        paint.arc(x(t[box.at]), y(series[box.at]), 5, 0, 7);
        paint.fillStyle = SERIES[which].colour;
        paint.fill();
      });
    }
    let frame = null; // of the drawing, for the pointer
    function draw(line, rows, at) {
      const ratio = Math.min(window.devicePixelRatio || 1, 2);
      const [paint, wide, high] = [canvas.getContext("2d"), canvas.clientWidth, canvas.clientHeight];
      [canvas.width, canvas.height] = [wide * ratio, high * ratio];
      paint.scale(ratio, ratio);
      paint.font = "13px sans-serif";
      const [t, ink] = [told.t[line], getComputedStyle(app).color];
      const [left, right] = [52, wide - 10];
      const x = (share) => left + ((share - t[0]) / (t.at(-1) - t[0])) * (right - left);
      frame = { t, left, right };
      paint.strokeStyle = ink;
      [[t[at], [], 0.8], [0, [2, 3], 0.6], [1, [2, 3], 0.6]].forEach(([share, dash, alpha]) => {
        [paint.globalAlpha, paint.lineWidth] = [alpha, 1];
        paint.setLineDash(dash);
        paint.beginPath();
        paint.moveTo(x(share), 20);
        paint.lineTo(x(share), high - 22);
        paint.stroke();
      });
      paint.globalAlpha = 1;
      const { loss, accuracy } = bounds(line);
      const span = loss[1] - loss[0]; // in decades: the fewer, the more ticks in each
      const parts = span < 1.2 ? [1, 2, 5] : span < 2.5 ? [1, 3] : [1];
      const decades = [-4, -3, -2, -1, 0, 1, 2, 3].flatMap((power) => parts.map((part) => Number(`${part}e${power}`)));
      const inside = decades.map((tick) => [Math.log10(tick), String(tick)]).filter(([value]) => value >= loss[0] && value <= loss[1]);
      const middle = high / 2;
      const column = (place) => rows.map((row) => row[place]);
      const logs = [0, 2].map((place) => column(place).map((value) => Math.log10(Math.max(value, 1e-4))));
      const box = { x, ink, t, at };
      panel(paint, { ...box, top: 20, bottom: middle - 12 }, "loss in nats", loss, logs, inside);
      const shares = [[0, "0 %"], [0.5, "50 %"], [1, "100 %"]];
      panel(paint, { ...box, top: middle + 14, bottom: high - 24 }, "accuracy", accuracy, [column(1), column(3)], shares);
      paint.fillStyle = ink;
      told.ends[line].forEach((name, share) => {
        paint.textAlign = "center";
        paint.fillText(name, Math.min(x(share), wide - 30), high - 7);
      });
      SERIES.forEach(({ words: name, colour }, which) => {
        [paint.fillStyle, paint.textAlign] = [colour, "right"];
        paint.fillText(which ? "- - test" : "— training", right - (which ? 0 : 70), 14);
      });
      paint.textAlign = "left";
    }
    let [waiting, before] = [null, null];
    function update() {
      try {
        const [line, kind] = [chooseLine.value, chooseKind.value];
        const [t, rows, ends] = [told.t[line], told.rows[line][kind], told.ends[line]];
        if (before !== line) { // a new line is entered at its beginning
          range.max = t.length - 1;
          range.value = t.findIndex((share) => Math.abs(share) < 1e-9);
          before = line;
        }
        const at = Number(range.value);
        draw(line, rows, at);
        const way = `${Math.round(100 * t[at])} % of the way from ${ends[0]} to ${ends[1]}`;
        const percent = (value) => `${(100 * value).toFixed(1)} %`;
        const [trainLoss, trainAccuracy, testLoss, testAccuracy] = rows[at];
        const text = `${way}, ${told.kinds[kind]}: training loss ${trainLoss.toPrecision(3)} and accuracy ${percent(trainAccuracy)}, `
          + `test loss ${testLoss.toPrecision(3)} and accuracy ${percent(testAccuracy)}.`;
        range.setAttribute("aria-valuetext", way);
        canvas.setAttribute("aria-label", text);
        element.dataset.state = "running";
        element.dataset.shown = rows[at].join(" ");
        clearTimeout(waiting);
        waiting = setTimeout(() => { words.textContent = text; }, 250); // spoken once the slider rests
      } catch (error) { failed(error); }
    }
    const drag = (event) => {
      if (event.type === "pointermove" && !event.buttons) return;
      const share = (event.offsetX - frame.left) / (frame.right - frame.left);
      range.value = Math.round(share * (frame.t.length - 1));
      update();
    };
    for (const kind of ["pointerdown", "pointermove"]) canvas.addEventListener(kind, drag);
    app.addEventListener("input", update);
    element.replaceChildren(app);
    new ResizeObserver(update).observe(canvas);
    new MutationObserver(update).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  }

  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The walk between two networks cannot run here: ${error.message}.` }));
  }
  try { start(); } catch (error) { failed(error); }
})();
