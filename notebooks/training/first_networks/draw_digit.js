// A field to draw a digit in. The drawing is reduced as the data were, and a small network answers: its 64 inputs, its
// hidden units and its ten chances are shown at every stroke. The element's data: `weights` (base64 of float32: hidden
// weights by input, hidden biases, output weights by hidden unit, output biases), `hidden` (how many units).
"use strict";
(() => {
  const element = document.querySelector(".draw-digit:not([data-state])");
  const [SIDE, FRAME, WIDE, BLOCK, INPUTS, CLASSES, PEN] = [64, 32, 20, 4, 64, 10, 4]; // pixels, bits, bits, bits, …, radius in pixels
  const EXAMPLES = { // strokes in hundredths of the field: what a hand might draw
    0: "50 15 30 25 25 50 30 75 50 85 70 75 75 50 70 25 50 15", 1: "38 30 52 15 52 85",
    2: "28 30 38 16 60 16 70 30 66 46 28 84 74 84", 3: "30 18 66 18 46 44 68 56 66 76 48 85 28 78",
    4: "58 85 58 15 26 62 76 62", 5: "70 16 34 16 31 46 58 44 70 60 60 82 28 82",
    6: "64 16 40 34 29 62 38 82 58 84 70 68 58 52 36 56", 7: "30 17 72 17 58 50 36 50 74 50 58 50 46 85",
    8: "50 48 32 34 36 18 62 18 68 34 50 48 30 66 36 84 64 84 70 66 50 48", 9: "68 34 52 48 34 40 34 22 52 15 68 26 66 58 52 85",
  };
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };

  // The box around the ink, as high as the frame and at most WIDE bits wide, centred; each bit takes the pixel at its middle.
  function framed(ink) {
    const rows = [], cols = [];
    ink.forEach((on, at) => { if (on) { rows.push(Math.floor(at / SIDE)); cols.push(at % SIDE); } });
    const bits = new Uint8Array(FRAME * FRAME);
    if (!rows.length) return bits;
    const [top, left] = [Math.min(...rows), Math.min(...cols)];
    const had = [Math.max(...rows) - top + 1, Math.max(...cols) - left + 1];
    const wide = Math.min(WIDE, Math.max(1, Math.floor((had[1] * FRAME) / had[0] + 0.5)));
    const right = Math.floor((FRAME - wide) / 2);
    for (let y = 0; y < FRAME; y += 1) for (let x = 0; x < wide; x += 1) {
      const from = (top + Math.floor(((y + 0.5) * had[0]) / FRAME)) * SIDE + left + Math.floor(((x + 0.5) * had[1]) / wide);
      bits[y * FRAME + right + x] = ink[from];
    }
    return bits;
  }
  function reduced(bits) {
    const counts = new Float64Array(INPUTS);
    bits.forEach((on, at) => {
      counts[Math.floor(at / FRAME / BLOCK) * (FRAME / BLOCK) + Math.floor((at % FRAME) / BLOCK)] += on;
    });
    return counts;
  }

  function start() {
    const bytes = Uint8Array.from(atob(element.dataset.weights), (letter) => letter.charCodeAt(0));
    const [all, units] = [new Float32Array(bytes.buffer), Number(element.dataset.hidden)];
    if (!(units > 0) || all.length !== (INPUTS + 1) * units + (units + 1) * CLASSES) throw new Error("the network did not come with the page");
    const layer = (from, inputs, outputs) => (given) => Float64Array.from({ length: outputs }, (_, out) => {
      let sum = all[from + inputs * outputs + out];
      for (let i = 0; i < inputs; i += 1) sum += given[i] * all[from + i * outputs + out];
      return sum;
    });
    const first = layer(0, INPUTS, units), second = layer((INPUTS + 1) * units, units, CLASSES);
    function answer(counts) {
      const hidden = first(counts.map((count) => count / (BLOCK * BLOCK))).map((z) => Math.max(z, 0));
      const scores = second(hidden), largest = Math.max(...scores);
      const parts = scores.map((score) => Math.exp(score - largest));
      const sum = parts.reduce((a, b) => a + b, 0);
      return { hidden, chances: parts.map((part) => part / sum) };
    }

    const ink = new Uint8Array(SIDE * SIDE);
    let [pen, down, last] = [[32, 32], false, null];
    const field = make("canvas", { tabIndex: 0 });
    field.setAttribute("role", "application");
    field.style.cssText = "display:block; width:min(100%,256px); aspect-ratio:1; touch-action:none; border:2px solid currentColor; cursor:crosshair";
    const small = make("canvas", { role: "img" });
    small.style.cssText = "display:block; width:min(100%,128px); aspect-ratio:1; border:1px solid currentColor";
    const inside = make("canvas", { role: "img" });
    inside.style.cssText = "display:block; width:100%; max-width:420px; height:60px";
    const chances = make("canvas", { role: "img" });
    chances.style.cssText = "display:block; width:100%; max-width:420px; height:120px";
    const told = make("p", { role: "status", style: "min-height:3.2em; margin:.4rem 0" });
    const clear = make("button", { type: "button", textContent: "Clear", style: "min-height:2.2rem; font:inherit; margin-right:1rem" });
    const choose = make("select", { style: "min-height:2.2rem; font:inherit" }, [make("option", { value: "", textContent: "nothing" }),
      ...Object.keys(EXAMPLES).map((digit) => make("option", { value: digit, textContent: `a ${digit}` }))]);
    const named = (words, thing, wide) => make("div", { style: `margin:.4rem 0; min-width:0; ${wide ? `flex:0 1 ${wide}px` : ""}` }, [make("div", { textContent: words }), thing]);
    const row = make("div", { style: "display:flex; flex-wrap:wrap; gap:0 1.5rem" }, [
      named("Draw here", field, 256), named("Its 64 counts", small, 128)]);
    const help = "With keys: choose the field, move with the arrows, and put the pen down or lift it with the space bar.";
    const app = make("section", {}, [make("div", { style: "margin:.3rem 0" }, [clear, make("label", {}, ["Begin with ", choose])]), row,
      named("The hidden units", inside), named("The chances of 0 to 9", chances), told, make("p", { textContent: help, style: "margin:.3rem 0" })]);

    function dot(x, y) {
      for (let v = Math.max(0, Math.ceil(y - PEN)); v <= Math.min(SIDE - 1, y + PEN); v += 1)
        for (let u = Math.max(0, Math.ceil(x - PEN)); u <= Math.min(SIDE - 1, x + PEN); u += 1)
          if ((u - x) ** 2 + (v - y) ** 2 <= PEN ** 2) ink[v * SIDE + u] = 1;
    }
    function stroke([fromX, fromY], [toX, toY]) {
      const steps = Math.ceil(2 * Math.hypot(toX - fromX, toY - fromY)) || 1;
      for (let i = 0; i <= steps; i += 1) dot(fromX + ((toX - fromX) * i) / steps, fromY + ((toY - fromY) * i) / steps);
    }

    function surface(canvas) {
      const ratio = Math.min(window.devicePixelRatio || 1, 2);
      const [paint, wide, high] = [canvas.getContext("2d"), canvas.clientWidth, canvas.clientHeight];
      [canvas.width, canvas.height] = [wide * ratio, high * ratio];
      paint.scale(ratio, ratio);
      paint.font = "14px sans-serif";
      paint.fillStyle = getComputedStyle(app).color;
      return { paint, wide, high };
    }
    function squares(canvas, values, side) { // ink of 0 to 1 as the strength of the text's colour
      const { paint, wide } = surface(canvas);
      const size = wide / side;
      values.forEach((value, at) => {
        paint.globalAlpha = value;
        paint.fillRect((at % side) * size, Math.floor(at / side) * size, size + 0.5, size + 0.5);
      });
      paint.globalAlpha = 1;
      return { paint, size };
    }
    function bars(canvas, values, most, names) {
      const { paint, wide, high } = surface(canvas);
      const [step, room] = [wide / values.length, high - (names ? 18 : 2)];
      const best = values.indexOf(Math.max(...values));
      values.forEach((value, at) => {
        const tall = most ? (value / most) * room : 0;
        paint.fillStyle = names && at === best ? "#e8871e" : "#3b7dd8";
        paint.fillRect(at * step + 1, room - tall, Math.max(1, step - 3), tall);
        paint.fillStyle = getComputedStyle(app).color;
        paint.fillRect(at * step + 1, room, Math.max(1, step - 3), 1);
        if (names) paint.fillText(String(at), at * step + step / 2 - 4, high - 3);
      });
    }
    let waiting = null;
    function update() {
      try {
        const bits = framed(ink), counts = reduced(bits), drawn = ink.includes(1);
        const found = drawn ? answer(counts) : { hidden: new Float64Array(units), chances: new Float64Array(CLASSES) };
        const { paint, size } = squares(field, ink, SIDE);
        if (document.activeElement === field) {
          paint.strokeStyle = down ? "#e8871e" : "#3b7dd8";
          paint.lineWidth = 2;
          paint.strokeRect((pen[0] - 3) * size, (pen[1] - 3) * size, 6 * size, 6 * size);
        }
        squares(small, counts.map((count) => count / (BLOCK * BLOCK)), FRAME / BLOCK);
        bars(inside, [...found.hidden], Math.max(...found.hidden), false);
        bars(chances, [...found.chances], 1, true);
        const order = [...found.chances.keys()].sort((a, b) => found.chances[b] - found.chances[a]);
        const say = (digit) => `${digit} with ${(100 * found.chances[digit]).toFixed(1)} %`;
        const live = found.hidden.filter((value) => value > 0).length;
        const words = drawn ? `The network says ${say(order[0])}, then ${say(order[1])}. ${live} of ${units} hidden units are active.` : "Nothing is drawn yet.";
        Object.assign(element.dataset, { state: "running", ink: ink.join(""), bits: bits.join(""), counts: counts.join(" "),
          active: [...found.hidden].join(" "), chances: [...found.chances].join(" ") });
        field.setAttribute("aria-label", `A field to draw in. The pen is ${down ? "down" : "up"}, at column ${pen[0]} and row ${pen[1]} of ${SIDE}.`);
        small.setAttribute("aria-label", `The ink in 8 by 8 blocks: ${counts.join(" ")}`);
        inside.setAttribute("aria-label", `${live} of ${units} hidden units are active`);
        chances.setAttribute("aria-label", words);
        clearTimeout(waiting);
        waiting = setTimeout(() => { told.textContent = words; }, 250); // spoken once the pen rests
      } catch (error) { failed(error); }
    }
    const at = (event) => [event.offsetX, event.offsetY].map((p, i) => (p / [field.clientWidth, field.clientHeight][i]) * SIDE);
    field.addEventListener("pointerdown", (event) => {
      field.setPointerCapture(event.pointerId);
      last = at(event);
      dot(...last);
      update();
    });
    field.addEventListener("pointermove", (event) => {
      if (!last || !event.buttons) return;
      stroke(last, at(event));
      last = at(event);
      update();
    });
    for (const kind of ["pointerup", "pointercancel"]) field.addEventListener(kind, () => { last = null; });
    field.addEventListener("keydown", (event) => {
      const [x, y] = { ArrowLeft: [-2, 0], ArrowRight: [2, 0], ArrowUp: [0, -2], ArrowDown: [0, 2] }[event.key] ?? [0, 0];
      if (event.key === " ") down = !down;
      else if (!x && !y) return;
      event.preventDefault();
      const before = pen;
      pen = [pen[0] + x, pen[1] + y].map((p) => Math.min(SIDE - 1, Math.max(0, p)));
      if (down) stroke(before, pen);
      update();
    });
    for (const kind of ["focus", "blur"]) field.addEventListener(kind, update);
    clear.addEventListener("click", () => { [choose.value, down] = ["", false]; ink.fill(0); update(); });
    choose.addEventListener("input", () => {
      ink.fill(0);
      const points = (EXAMPLES[choose.value] ?? "").split(" ").map((p) => (Number(p) / 100) * SIDE);
      for (let i = 2; i + 1 < points.length; i += 2) stroke(points.slice(i - 2, i), points.slice(i, i + 2));
      update();
    });
    element.replaceChildren(app);
    new ResizeObserver(update).observe(field);
    new MutationObserver(update).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  }

  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The field to draw in cannot run here: ${error.message}.` }));
  }
  try { start(); } catch (error) { failed(error); }
})();
