// The live model of the chapter on CO2 storage: sliders, an ensemble of neural operators, pictures of the plume and of
// the pressure. The members run in a worker; this script asks for one member at a time and draws what has come.
"use strict";
rebuiltLive.start("storage", async (element, tools) => {
  const meta = JSON.parse(await tools.text(tools.model, "meta.json"));
  const numbers = async (file) => new Float32Array((await tools.bytes(tools.model, file)).buffer);
  const [patterns, expected] = await Promise.all([numbers("patterns.f32"), numbers("check.f32")]);
  const { edges_m: edges, row_m: rowM, rows, times_days: times } = meta.grid;
  const rings = edges.length - 1;
  const cells = rows * rings;
  const members = meta.members;

  // The worker -------------------------------------------------------------------------------------------------------

  const starting = tools.onnxWorker(tools.runtime, function work() {
    const sessions = [];
    addEventListener("message", async ({ data }) => {
      try {
        if (data.model) {
          sessions.push(await ort.InferenceSession.create(data.model, { executionProviders: ["wasm"] }));
          return postMessage({ id: data.id });
        }
        const started = performance.now();
        const found = await sessions[data.member].run({
          pattern: new ort.Tensor("float32", data.pattern, data.shape),
          knobs: new ort.Tensor("float32", data.knobs, [data.knobs.length]),
        });
        const [saturation, pressure] = [found.saturation.data.slice(), found.pressure.data.slice()];
        const [ms, pressed] = [performance.now() - started, found.pressed.data[0]];
        postMessage({ id: data.id, saturation, pressure, pressed, ms }, [saturation.buffer, pressure.buffer]);
      } catch (error) {
        postMessage({ id: data.id, error: String(error.message || error) });
      }
    });
  }.toString());
  const waiting = new Map();
  let asked = 0;
  const hear = ({ data }) => {
    const { resolve, reject } = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.error) reject(new Error(data.error));
    else resolve(data);
  };
  const crashed = (event) => {
    waiting.forEach(({ reject }) => reject(new Error(event.message || "its worker ended")));
    waiting.clear();
  };
  const ask = async (message, transfer = []) => {
    const worker = await starting;
    [worker.onmessage, worker.onerror] = [hear, crashed];
    return new Promise((resolve, reject) => {
      asked += 1;
      waiting.set(asked, { resolve, reject });
      worker.postMessage({ ...message, id: asked }, transfer);
    });
  };
  const loaded = []; // one promise a member; a member is loaded when it is first needed, so that the first comes soon
  const load = (member) => {
    loaded[member] ??= tools.bytes(tools.model, members[member]).then((model) => ask({ model }, [model.buffer]));
    return loaded[member];
  };
  load(0).catch(() => {}); // the page is laid out meanwhile; `compute` hears of an error

  // The controls -----------------------------------------------------------------------------------------------------

  const make = (name, properties = {}, children = []) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const short = (value, digits = 3) => Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 3 });
  const metres = (value) => (value < 1000 ? `${short(value)} m` : `${short(value / 1000)} km`);
  const years = (days) => (days < 365 ? `${short(days, 2)} days` : `${short(days / 365, 3)} years`);
  const knobs = meta.knobs.map((knob) => ({ ...knob, id: `storage-${knob.name}` }));
  const value = (name) => Number(knobs.find((knob) => knob.name === name).input.value);
  const told = (knob, at) => {
    if (knob.scale === "log10") return `${short(10 ** at, 3)} ${knob.unit}`;
    if (knob.scale === "share") return `${short((at * value("thickness")), 3)} ${knob.unit}`;
    return `${short(at, 4)} ${knob.unit}`;
  };
  const slider = (knob) => {
    const { min, max, step } = knob;
    knob.input = make("input", { type: "range", id: knob.id, min, max, step, value: knob.value });
    knob.output = make("output", { htmlFor: knob.id });
    const label = make("label", { htmlFor: knob.id, textContent: knob.label });
    return make("div", { className: "storage-knob" }, [label, knob.output, knob.input]);
  };
  const group = (title, made) =>
    make("fieldset", {}, [make("legend", { textContent: title }), ...made]);
  const rock = make("select", { id: "storage-rock" }, meta.rocks.map((one, at) => new Option(one, String(at))));
  const rockBox = make("div", { className: "storage-knob" }, [
    make("label", { htmlFor: "storage-rock", textContent: "Rock" }), rock,
  ]);
  const site = knobs.filter((knob) => knob.group === "Site").map(slider);
  const well = knobs.filter((knob) => knob.group === "Well").map(slider);
  const reset = make("button", { type: "reset", textContent: "Reset" });
  const form = make("form", { className: "storage-knobs" }, [
    group("Site", [...site, rockBox]), group("Well", [...well, reset]),
  ]);
  form.setAttribute("aria-label", "What is injected, and where");

  const clock = make("input", {
    type: "range", id: "storage-time", min: 0, max: times.length - 1, step: 1, value: times.length - 1,
  });
  const clockTold = make("output", { htmlFor: "storage-time" });
  const play = make("button", { type: "button", textContent: "Play" });
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const clockBox = make("div", { className: "storage-clock" }, [
    make("label", { htmlFor: "storage-time", textContent: "Time since injection began" }), clockTold, clock, play,
  ]);

  // The pictures -----------------------------------------------------------------------------------------------------

  const panel = (title, key, kind) => {
    const canvas = make("canvas");
    canvas.setAttribute("role", "img");
    const caption = make("figcaption", { textContent: title });
    const point = make("p", { className: "storage-point" });
    point.setAttribute("aria-hidden", "true"); // the table below says more to who cannot point
    const figure = make("figure", { className: `storage-${kind}` }, [caption, canvas, point]);
    return { title, key, kind, canvas, figure, point };
  };
  const panels = [
    panel("CO₂ saturation: mean; lines: each member’s edge", "saturation", "mean"),
    panel("Pressure build-up: mean of the members", "pressure", "mean"),
    panel("CO₂ saturation: spread of the members", "saturation", "spread"),
    panel("Pressure build-up: spread of the members", "pressure", "spread"),
  ];
  const pictures = make("div", { className: "storage-pictures" }, panels.map((one) => one.figure));
  const summary = make("p", { className: "storage-summary" });
  summary.setAttribute("role", "status");
  const note = make("p", { className: "storage-note" });
  const table = make("table");
  const tableBox = make("div", { className: "storage-table", tabIndex: 0 }, [table]);
  tableBox.setAttribute("role", "region");
  tableBox.setAttribute("aria-label", "Plume and pressure at each report time");
  const details = make("details", {}, [make("summary", { textContent: "The numbers as a table" }), tableBox]);
  const app = make("section", { className: "storage-app" }, [form, clockBox, summary, pictures, details, note]);
  app.setAttribute("aria-label", "Live model of CO₂ storage");

  const answers = new Map(); // member -> its answer to the knobs as they stand
  let mean = null;

  function combined() {
    const found = [...answers.values()];
    const result = {};
    for (const key of ["saturation", "pressure"]) {
      const [average, spread] = [new Float32Array(cells * times.length), new Float32Array(cells * times.length)];
      for (let at = 0; at < average.length; at += 1) {
        let sum = 0;
        for (const one of found) sum += one[key][at];
        average[at] = sum / found.length;
        let squares = 0;
        for (const one of found) squares += (one[key][at] - average[at]) ** 2;
        spread[at] = found.length > 1 ? Math.sqrt(squares / (found.length - 1)) : 0;
      }
      let [top, wide] = [0, 0];
      for (let at = 0; at < average.length; at += 1) {
        top = Math.max(top, average[at]);
        wide = Math.max(wide, spread[at]);
      }
      const most = key === "saturation" ? 1 : nice(usual(average));
      result[key] = { mean: average, spread, top: { mean: most, spread: nice(wide) }, beyond: top > most };
    }
    return result;
  }

  // A few cells beside the well rise far above all others at first; on their scale the rest would be one dark colour.
  function usual(values) {
    const drawn = values.filter((_, at) => edges[(at % rings) + 1] > nearest && Math.floor((at % cells) / rings) < active());
    return drawn.sort()[Math.floor(0.98 * (drawn.length - 1))];
  }

  const nice = (top) => {
    if (!(top > 0)) return 1;
    const power = 10 ** Math.floor(Math.log10(top));
    return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= top * 0.999) * power;
  };
  const active = () => Math.round(value("thickness") / rowM);
  // How far the plume reaches (outer edge of the last ring above the threshold) and the largest build-up, at a time.
  function reach(one, time) {
    let [outer, top] = [-1, 0];
    for (let at = time * cells; at < (time + 1) * cells; at += 1) {
      if (one.saturation[at] > meta.threshold) outer = Math.max(outer, at % rings);
      top = Math.max(top, one.pressure[at]);
    }
    return { radius: outer < 0 ? 0 : edges[outer + 1], top };
  }

  const nearest = meta.axis_from_m;
  const farthest = edges[rings];
  const along = (r) => Math.log(Math.max(r, nearest) / nearest) / Math.log(farthest / nearest);

  function draw(one) {
    const { canvas, key, kind } = one;
    const wide = canvas.clientWidth;
    if (!wide) return;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const high = canvas.clientHeight;
    if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
      [canvas.width, canvas.height] = [Math.round(wide * ratio), Math.round(high * ratio)];
    }
    const paint = canvas.getContext("2d");
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.clearRect(0, 0, wide, high);
    const style = getComputedStyle(app);
    const [ink, faint] = [style.color, style.getPropertyValue("--storage-faint")];
    const box = { x: 46, y: 8, w: wide - 46 - 62, h: high - 8 - 42 };
    one.box = box;
    const x = (r) => box.x + box.w * along(r);
    const y = (row) => box.y + (box.h * row) / rows;
    const colours = meta.colours[kind === "mean" ? key : "spread"];
    const colour = (share) => colours[Math.min(colours.length - 1, Math.max(0, Math.floor(share * colours.length)))];
    paint.fillStyle = faint;
    paint.fillRect(box.x, box.y, box.w, box.h);
    if (mean) {
      const { [kind]: values, top } = mean[key];
      const first = Number(clock.value) * cells;
      for (let row = 0; row < active(); row += 1) {
        for (let ring = 0; ring < rings; ring += 1) {
          const [left, right] = [x(edges[ring]), x(edges[ring + 1])];
          if (right <= box.x) continue;
          paint.fillStyle = colour(values[first + row * rings + ring] / top[kind]);
          paint.fillRect(left, y(row), right - left + 0.6, box.h / rows + 0.6);
        }
      }
      if (key === "saturation" && kind === "mean") outlines(paint, x, y);
      const more = kind === "mean" && mean[key].beyond ? "≥ " : "";
      bar(paint, box, colour, more + short(top[kind]), key === "saturation" ? "" : "bar", ink);
    }
    axes(paint, box, x, y, ink);
  }

  // The edge of each member's plume inside the aquifer, as steps along the cells.
  function outlines(paint, x, y) {
    const first = Number(clock.value) * cells;
    const styles = [[], [5, 3], [2, 2], [7, 2, 2, 2], [1, 3]];
    [...answers].forEach(([member, one]) => {
      const wet = (row, ring) => one.saturation[first + row * rings + ring] > meta.threshold;
      const path = new Path2D();
      for (let row = 0; row < active(); row += 1) {
        for (let ring = 0; ring < rings; ring += 1) {
          if (row && wet(row, ring) !== wet(row - 1, ring)) {
            path.moveTo(x(edges[ring]), y(row));
            path.lineTo(x(edges[ring + 1]), y(row));
          }
          if (ring + 1 < rings && wet(row, ring) !== wet(row, ring + 1)) {
            path.moveTo(x(edges[ring + 1]), y(row));
            path.lineTo(x(edges[ring + 1]), y(row + 1));
          }
        }
      }
      paint.setLineDash(styles[member % styles.length]);
      paint.lineWidth = 2.2;
      paint.strokeStyle = "#000";
      paint.stroke(path);
      paint.lineWidth = 1.2;
      paint.strokeStyle = "#fff";
      paint.stroke(path);
    });
    paint.setLineDash([]);
  }

  function bar(paint, box, colour, top, unit, ink) {
    const [left, width] = [box.x + box.w + 10, 10];
    for (let step = 0; step < box.h; step += 1) {
      paint.fillStyle = colour(1 - step / box.h);
      paint.fillRect(left, box.y + step, width, 1.5);
    }
    paint.fillStyle = ink;
    paint.font = "12px sans-serif";
    paint.textAlign = "left";
    paint.textBaseline = "top";
    paint.fillText(top, left + width + 4, box.y);
    if (unit) paint.fillText(unit, left + width + 4, box.y + 14);
    paint.textBaseline = "bottom";
    paint.fillText("0", left + width + 4, box.y + box.h + 2);
  }

  function axes(paint, box, x, y, ink) {
    paint.strokeStyle = paint.fillStyle = ink;
    paint.lineWidth = 1;
    paint.strokeRect(box.x, box.y, box.w, box.h);
    paint.font = "12px sans-serif";
    paint.textAlign = "center";
    paint.textBaseline = "top";
    for (let r = 10 ** Math.ceil(Math.log10(nearest)); r <= farthest * 1.001; r *= 10) {
      const text = r < 1000 ? `${r} m` : `${r / 1000} km`;
      paint.fillRect(x(r) - 0.5, box.y + box.h, 1, 4);
      paint.fillText(text, Math.min(x(r), box.x + box.w - 12), box.y + box.h + 6);
    }
    paint.fillText("distance from the well", box.x + box.w / 2, box.y + box.h + 23);
    paint.textAlign = "right";
    paint.textBaseline = "middle";
    const step = rowM * rows > 120 ? 50 : 25;
    for (let z = 0; z <= rowM * rows; z += step) {
      paint.fillRect(box.x - 4, y(z / rowM) - 0.5, 4, 1);
      paint.fillText(`${z}${z ? "" : " m"}`, box.x - 6, Math.max(y(z / rowM), box.y + 5));
    }
    const thick = value("thickness");
    paint.fillRect(box.x - 3, y((value("top") * thick) / rowM), 6, (box.h * (value("bottom") - value("top")) * thick) / rowM / rows);
  }

  function point(one, event) {
    if (!mean || !one.box) return;
    const area = one.canvas.getBoundingClientRect();
    const across = (event.clientX - area.left - one.box.x) / one.box.w;
    const down = ((event.clientY - area.top - one.box.y) / one.box.h) * rows;
    if (across < 0 || across > 1 || down < 0 || down >= active()) return void (one.point.textContent = "");
    const r = nearest * (farthest / nearest) ** across;
    const ring = edges.findIndex((edge) => edge > r) - 1;
    const at = Number(clock.value) * cells + Math.floor(down) * rings + Math.max(ring, 0);
    const unit = one.key === "pressure" ? " bar" : "";
    const { mean: middle, spread } = mean[one.key];
    one.point.textContent =
      `${metres(r)} out, ${short(down * rowM, 3)} m down: ${short(middle[at], 2)} ± ${short(spread[at], 1)}${unit}`;
  }

  // What is said -----------------------------------------------------------------------------------------------------

  const between = (found, tell) => {
    const [low, high] = [Math.min(...found), Math.max(...found)];
    return tell(low) === tell(high) ? "the members agree" : `members: ${tell(low)} to ${tell(high)}`;
  };
  // The members' average, not the average picture's: where they disagree, its peaks are lower than any of theirs.
  const average = (found) => Object.fromEntries(["radius", "top"].map(
    (key) => [key, found.reduce((sum, one) => sum + one[key], 0) / found.length],
  ));
  const bars = (top) => `${short(top, 3)} bar`;
  let quiet = null;
  function say() {
    if (!mean) return;
    const time = Number(clock.value);
    const found = [...answers.values()].map((one) => reach(one, time));
    const { radius, top } = average(found);
    const words = `After ${years(times[time])} the plume reaches ${metres(radius)} `
      + `(${between(found.map((one) => one.radius), metres)}); the pressure rises by up to ${bars(top)} `
      + `(${between(found.map((one) => one.top), bars)}).`;
    speak(words, false);
    if (details.open) tell();
  }

  // A live region is spoken whenever it changes, so it waits until the knobs rest.
  function speak(words, refusal) {
    summary.classList.toggle("storage-refused", refusal);
    for (const one of panels) one.canvas.setAttribute("aria-label", `${one.title}. ${words}`);
    clearTimeout(quiet);
    quiet = setTimeout(() => {
      if (summary.textContent !== words) summary.textContent = words;
      if (!busy) element.dataset.rests = "yes"; // for whoever waits: all is answered, drawn and said
    }, 350);
  }

  function tell() {
    const head = ["time", "plume reaches", "members", "largest build-up", "members"];
    const row = (kind, texts) => make("tr", {}, texts.map((text, at) => {
      const cell = make(at && kind === "td" ? "td" : "th", { textContent: text });
      if (cell.tagName === "TH") cell.scope = kind === "td" ? "row" : "col";
      return cell;
    }));
    const body = times.map((days, time) => {
      const found = [...answers.values()].map((one) => reach(one, time));
      const { radius, top } = average(found);
      const range = (key, form) => between(found.map((one) => one[key]), form).replace("members: ", "");
      return row("td", [years(days), metres(radius), range("radius", metres), bars(top), range("top", bars)]);
    });
    table.replaceChildren(make("thead", {}, [row("th", head)]), make("tbody", {}, body));
  }

  const drawAll = () => panels.forEach(draw);

  // The loop: one member at a time; the first again as soon as a knob has moved. --------------------------------------

  let turn = 0; // goes up whenever a knob moves
  let busy = false;
  let checked = 0;
  let worst = 0;
  const input = () => ({
    knobs: Float32Array.from(knobs, (knob) => Number(knob.input.value)),
    pattern: patterns.slice(Number(rock.value) * 2 * cells, (Number(rock.value) + 1) * 2 * cells),
    shape: [2, rows, rings],
  });

  async function compute() {
    if (busy) return;
    busy = true;
    let [mine, next, fresh] = [turn, 0, new Map()];
    while (next < members.length) {
      await load(next);
      const given = input();
      const answer = await ask({ member: next, ...given });
      element.dispatchEvent(new CustomEvent("live-answer", { detail: { member: next, ...given, ...answer } }));
      if (checked < members.length && mine === 0 && turn === 0) compare(answer, next);
      if (next > 0 && mine !== turn) { // too late: begin again with what the knobs say now
        [mine, next, fresh] = [turn, 0, new Map()];
        continue;
      }
      if (answer.pressed > meta.most_pressed) { // no training case is like this, so no picture either
        answers.clear();
        mean = null;
        shown(answer);
        if (mine === turn) break;
        [mine, next, fresh] = [turn, 0, new Map()];
        continue;
      }
      fresh.set(next, answer);
      answers.clear();
      fresh.forEach((one, member) => answers.set(member, one));
      mean = combined();
      shown(answer);
      next += 1;
      if (mine !== turn) [mine, next, fresh] = [turn, 0, new Map()];
    }
    busy = false;
    say();
  }

  function refused(answer) {
    const [share, most] = [answer.pressed, meta.most_pressed].map((part) => `${short(100 * part, 2)} %`);
    speak(`Refused: by a simple estimate this well would raise the pressure by ${share} of what it is at the start. `
      + `The models have seen ${most} at most. Inject less, or choose a thicker or more permeable aquifer, or open `
      + "more of the well.", true);
  }

  function shown(answer) {
    drawAll();
    if (!mean) return void refused(answer);
    element.dataset.frames = String(Number(element.dataset.frames || 0) + (answers.size === 1));
    element.dataset.members = String(answers.size);
    element.dataset.runMs = answer.ms.toFixed(1);
    element.dataset.firstMs ??= (performance.now() - Number(element.dataset.begun)).toFixed(0);
    note.textContent = `A cell belongs to the plume from a saturation of ${meta.threshold} on. ${answers.size} of ${members.length} members drawn; one member takes `
      + `${short(answer.ms, 2)} ms here.${checked === members.length ? ` Checked in this browser: the largest difference `
      + `from PyTorch is ${worst.toExponential(1)} of each picture's scale.` : ""}`;
  }

  // The knobs start at the case whose numbers PyTorch left in the pack: every so many cells of both fields, by member.
  function compare(answer, member) {
    const each = Math.ceil((cells * times.length) / meta.check_every);
    for (const [place, key] of ["saturation", "pressure"].entries()) {
      const wanted = expected.subarray((2 * member + place) * each, (2 * member + place + 1) * each);
      const scale = Math.max(1, ...wanted.map(Math.abs));
      wanted.forEach((number, at) => {
        const apart = Math.abs(answer[key][at * meta.check_every] - number) / scale;
        worst = apart <= worst ? worst : apart; // a number that is none counts as the worst
      });
    }
    checked += 1;
    element.dataset.worst = String(worst);
  }

  // Events -----------------------------------------------------------------------------------------------------------

  function labels() {
    element.dataset.rests = "no";
    for (const knob of knobs) {
      const words = told(knob, Number(knob.input.value));
      knob.output.textContent = words;
      knob.input.setAttribute("aria-valuetext", words);
    }
    const words = years(times[Number(clock.value)]);
    clockTold.textContent = words;
    clock.setAttribute("aria-valuetext", words);
  }

  function moved(event) {
    const [top, bottom] = ["top", "bottom"].map((name) => knobs.find((knob) => knob.name === name));
    // The well stays open over a few rows. What was moved stays if it can, and pushes the other end.
    const step = Number(top.step);
    const gap = Math.min(1, Math.ceil((meta.narrowest_rows * rowM) / value("thickness") / step - 1e-6) * step);
    const [upper, lower] = [value("top"), value("bottom")];
    if (lower - upper < gap - 1e-6) {
      const from = event?.target === bottom.input ? Math.max(0, lower - gap) : Math.min(upper, 1 - gap);
      [top.input.value, bottom.input.value] = [from, from + gap];
    }
    labels();
    turn += 1;
    compute().catch(failed);
  }

  // After the start as well an error is told where the answer would stand, and no old picture stays beside it.
  function failed(error) {
    busy = false;
    answers.clear();
    mean = null;
    drawAll();
    note.textContent = "";
    speak(`The live model stopped: ${error.message}. Move a slider to try again.`, true);
  }

  function later() {
    labels();
    if (!mean) return;
    drawAll();
    say();
  }

  let playing = null;
  const stop = () => {
    clearInterval(playing);
    playing = null;
    play.textContent = "Play";
  };
  play.addEventListener("click", () => {
    if (playing) return stop();
    if (Number(clock.value) === times.length - 1) clock.value = 0;
    later();
    play.textContent = "Pause";
    playing = setInterval(() => {
      clock.value = Number(clock.value) + 1;
      later();
      if (Number(clock.value) === times.length - 1) stop();
    }, 500);
    return undefined;
  });
  const calm = () => {
    play.hidden = still.matches;
    if (still.matches) stop();
  };
  still.addEventListener("change", calm);
  calm();
  clock.addEventListener("input", () => { stop(); later(); });
  form.addEventListener("input", moved);
  form.addEventListener("reset", () => setTimeout(moved));
  form.addEventListener("submit", (event) => event.preventDefault());
  details.addEventListener("toggle", () => { if (details.open && mean) tell(); });
  for (const one of panels) {
    one.canvas.addEventListener("pointermove", (event) => point(one, event));
    one.canvas.addEventListener("pointerleave", () => { one.point.textContent = ""; });
  }
  for (const knob of knobs) knob.input.defaultValue = String(knob.value);

  labels();
  element.append(app);
  new ResizeObserver(drawAll).observe(pictures);
  new MutationObserver(drawAll).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  try {
    await compute();
  } catch (error) {
    app.remove(); // so that the page's own words come back
    throw error;
  }
  tools.status.remove();
});
