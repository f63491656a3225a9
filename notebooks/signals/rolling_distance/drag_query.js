// Half a minute of ECG with a query that a reader drags over it: its distance to every window is computed here, by the
// naive sum, and the nearest windows are marked. The element's data: `ecg` (16-bit counts as base64), `perMv` (counts
// in a millivolt), `rate` (points in a second), `beats` (JSON: pairs of a point and a cardiologist's letter).
"use strict";
(() => {
  const element = document.querySelector(".drag-query:not([data-state])");
  const [ROWS, KEEP] = [3, 5]; // rows of the recording; matches that are marked
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  function start() {
    const bytes = Uint8Array.from(atob(element.dataset.ecg), (letter) => letter.charCodeAt(0));
    const ecg = Float64Array.from(new Int16Array(bytes.buffer), (count) => count / Number(element.dataset.perMv));
    const [rate, beats] = [Number(element.dataset.rate), JSON.parse(element.dataset.beats)];
    if (ecg.length < rate) throw new Error("the recording did not come with the page");
    const [length, perRow] = [Math.round(0.6 * rate), Math.ceil(ecg.length / ROWS)];
    const last = ecg.length - length;

    const range = make("input", { type: "range", min: 0, max: last, step: 4, value: Number(element.dataset.begin) });
    const choose = make("select", {}, [
      make("option", { value: "zdist", textContent: "zdist: offset and amplitude do not count" }),
      make("option", { value: "mdist", textContent: "mdist: the offset does not count" }),
      make("option", { value: "sdist", textContent: "sdist: raw values" }),
    ]);
    const [strip, overlay] = [make("canvas", { role: "img" }), make("canvas", { role: "img" })];
    strip.style.cssText = "display:block; width:100%; height:270px; cursor:grab; touch-action:pan-y";
    overlay.style.cssText = "display:block; width:100%; max-width:420px; height:130px";
    overlay.setAttribute("aria-label", "The query, blue, over the windows found, orange, as the distance compares them");
    const told = make("p", { role: "status", style: "min-height:4.5em; margin:.4rem 0" });
    const label = (words, control) => make("label", { style: "display:block; margin:.3rem 0" }, [words, control]);
    range.style.cssText = choose.style.cssText = "display:block; width:100%; min-height:2.2rem; font:inherit";
    // what is moved and what it changes fit on one screen of a phone, so the words, which wrap there, come last
    const app = make("section", {}, [label("Distance", choose), strip, label("The query begins at", range), overlay, told]);

    // One window as a measure compares it: raw, less its mean, or of deviation one as well. A flat one has no shape.
    function normalised(from) {
      const window = ecg.slice(from, from + length);
      if (choose.value === "sdist") return window;
      const mean = window.reduce((sum, value) => sum + value, 0) / length;
      const centred = window.map((value) => value - mean);
      if (choose.value === "mdist") return centred;
      const deviation = Math.sqrt(centred.reduce((sum, value) => sum + value * value, 0) / length);
      return centred.map((value) => (deviation > 1e-9 ? value / deviation : 0));
    }

    const ready = new Map(); // all windows as each measure compares them, so that a drag costs the sums alone
    function windows() {
      if (!ready.has(choose.value)) ready.set(choose.value, Array.from({ length: last + 1 }, (_, at) => normalised(at)));
      return ready.get(choose.value);
    }
    function matches(from) {
      const query = windows()[from];
      const distances = Float64Array.from(windows(), (window) => {
        let sum = 0;
        for (let i = 0; i < length; i += 1) sum += (query[i] - window[i]) ** 2;
        return sum;
      });
      const close = (at) => distances.fill(Infinity, Math.max(0, at - length + 1), at + length); // what overlaps it
      const found = [];
      close(from);
      while (found.length < KEEP) {
        const at = distances.reduce((least, distance, one) => (distance < distances[least] ? one : least), 0);
        if (distances[at] === Infinity) break;
        found.push({ at, distance: distances[at] });
        close(at);
      }
      return found;
    }

    const letter = (at) => {
      const middle = at + length / 2;
      return beats.find(([point]) => Math.abs(point - middle) <= length / 2)?.[1] ?? "no beat";
    };

    function surface(canvas) {
      const ratio = Math.min(window.devicePixelRatio || 1, 2);
      const [paint, wide, high] = [canvas.getContext("2d"), canvas.clientWidth, canvas.clientHeight];
      [canvas.width, canvas.height] = [wide * ratio, high * ratio];
      paint.scale(ratio, ratio);
      paint.font = "13px sans-serif";
      const line = (values, from, x, y, colour, width) => {
        paint.beginPath();
        values.forEach((value, i) => paint.lineTo(x(from + i), y(value)));
        [paint.strokeStyle, paint.lineWidth] = [colour, width];
        paint.stroke();
      };
      return { paint, wide, high, line, ink: getComputedStyle(app).color };
    }
    function draw(from, found) {
      const { paint, wide, high, line, ink } = surface(strip);
      for (let row = 0; row < ROWS; row += 1) {
        const x = (at) => ((at - row * perRow) / perRow) * wide;
        const y = (mv) => (row + 0.58) * (high / ROWS) - mv * (high / ROWS) * 0.13;
        const mark = (at, colour, words) => {
          if (at + length < row * perRow || at >= (row + 1) * perRow) return;
          [paint.fillStyle, paint.globalAlpha] = [colour, 0.3];
          paint.fillRect(x(at), row * (high / ROWS) + 2, (length / perRow) * wide, (high / ROWS) - 4);
          [paint.fillStyle, paint.globalAlpha] = [ink, 1];
          paint.fillText(words, Math.max(2, x(at) + 3), row * (high / ROWS) + 15);
        };
        found.forEach(({ at }, rank) => mark(at, "#e8871e", String(rank + 1)));
        mark(from, "#3b7dd8", "query");
        line(ecg.subarray(row * perRow, (row + 1) * perRow), row * perRow, x, y, ink, 1);
        const here = beats.filter(([at]) => at >= row * perRow && at < (row + 1) * perRow);
        paint.fillStyle = ink;
        here.forEach(([at, name]) => paint.fillText(name, x(at) - 4, (row + 1) * (high / ROWS) - 3));
      }
      const below = surface(overlay);
      const shapes = [...found.map(({ at }) => windows()[at]), windows()[from]];
      const [top, bottom] = [Math.max(...shapes.flatMap((s) => [...s])), Math.min(...shapes.flatMap((s) => [...s]))];
      const y = (value) => 8 + ((top - value) / (top - bottom || 1)) * (below.high - 16);
      shapes.forEach((shape, i) => {
        const query = i === found.length;
        below.line(shape, 0, (at) => (at / length) * below.wide, y, query ? "#3b7dd8" : "#e8871e", query ? 2.5 : 1.2);
      });
    }
    let waiting = null;
    function update() {
      try {
        const from = Number(range.value);
        const found = matches(from);
        draw(from, found);
        const place = (at) => `${(at / rate).toFixed(1)} s (${letter(at)})`;
        range.setAttribute("aria-valuetext", place(from));
        const list = found.map(({ at, distance }) => `${place(at)} at distance ${distance.toPrecision(3)}`);
        const words = `The query begins at ${place(from)}. Nearest by ${choose.value}: ${list.join("; ")}.`;
        element.dataset.state = "running";
        element.dataset.found = found.map(({ at }) => at).join(" ");
        strip.setAttribute("aria-label", words);
        clearTimeout(waiting);
        waiting = setTimeout(() => { told.textContent = words; }, 250); // spoken once the query rests
      } catch (error) { failed(error); }
    }
    const drag = (event) => {
      if (event.type === "pointermove" && !event.buttons) return;
      const row = Math.min(ROWS - 1, Math.max(0, Math.floor((event.offsetY / strip.clientHeight) * ROWS)));
      range.value = Math.round((row + event.offsetX / strip.clientWidth) * perRow - length / 2);
      update();
    };
    for (const kind of ["pointerdown", "pointermove"]) strip.addEventListener(kind, drag);
    app.addEventListener("input", update);
    element.replaceChildren(app);
    new ResizeObserver(update).observe(strip);
    new MutationObserver(update).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  }

  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The ECG to drag over cannot run here: ${error.message}.` }));
  }
  try { start(); } catch (error) { failed(error); }
})();
