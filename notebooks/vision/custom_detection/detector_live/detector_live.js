// The live model of the chapter on custom detection: a reader's photo, turned and shrunk as careless pipelines do, and the
// mends. The photo is decoded, resized and searched in this browser; nothing is sent anywhere.
"use strict";
rebuiltLive.start("cells", async (element, tools) => {
  const meta = JSON.parse(await tools.text(tools.model, "meta.json"));
  const { side: SIDE, stride: STRIDE, classes, floor, shown, overlap, most } = meta;

  // The worker -------------------------------------------------------------------------------------------------------

  const worker = await tools.onnxWorker(tools.runtime, function work() {
    let session = null;
    addEventListener("message", async ({ data }) => {
      try {
        if (data.model) {
          session = await ort.InferenceSession.create(data.model, { executionProviders: ["wasm"] });
          return postMessage({ id: data.id });
        }
        const found = await session.run({ photo: new ort.Tensor("float32", data.pixels, data.shape) });
        const [heat, sides] = [found.heat.data.slice(), found.sides.data.slice()];
        postMessage({ id: data.id, heat, sides, shape: [...found.heat.dims] }, [heat.buffer, sides.buffer]);
      } catch (error) {
        postMessage({ id: data.id, error: String(error.message || error) });
      }
    });
  }.toString());
  const waiting = new Map();
  let asked = 0;
  worker.onmessage = ({ data }) => {
    const { resolve, reject } = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.error) reject(new Error(data.error));
    else resolve(data);
  };
  worker.onerror = (event) => {
    waiting.forEach(({ reject }) => reject(new Error(event.message || "its worker ended")));
    waiting.clear();
  };
  const ask = (message, transfer = []) => new Promise((resolve, reject) => {
    asked += 1;
    waiting.set(asked, { resolve, reject });
    worker.postMessage({ ...message, id: asked }, transfer);
  });
  const model = await tools.bytes(tools.model, "detector.onnx");
  await ask({ model }, [model.buffer]);

  // Photos as { width, height, data }, three floats a pixel, 0 to 1 -------------------------------------------------

  function turned(photo, quarters) { // by right angles against the clock
    let made = photo;
    for (let turn = 0; turn < (quarters + 4) % 4; turn += 1) {
      const { width, height, data } = made;
      const next = { width: height, height: width, data: new Float32Array(data.length) };
      for (let y = 0; y < height; y += 1) {
        for (let x = 0; x < width; x += 1) {
          const to = 3 * ((width - 1 - x) * height + y);
          const from = 3 * (y * width + x);
          for (let c = 0; c < 3; c += 1) next.data[to + c] = data[from + c];
        }
      }
      made = next;
    }
    return made;
  }

  // Weights of one axis: a mean where it shrinks, else linear between the middles of the old pixels.
  function weights(from, to) {
    const ratio = from / to;
    return Array.from({ length: to }, (_, at) => {
      if (ratio <= 1) {
        const middle = Math.min(Math.max((at + 0.5) * ratio - 0.5, 0), from - 1);
        const first = Math.min(Math.floor(middle), Math.max(from - 2, 0));
        return [[first, 1 - middle + first], [Math.min(first + 1, from - 1), middle - first]];
      }
      const middle = (at + 0.5) * ratio; // Pillow's BOX: the mean of the pixels whose middles lie in the new one
      const found = [];
      for (let one = Math.max(Math.floor(middle - ratio / 2) - 1, 0); one < Math.min(middle + ratio / 2 + 1, from); one += 1) {
        const off = (one + 0.5 - middle) / ratio;
        if (off > -0.5 && off <= 0.5) found.push([one, 1]);
      }
      return found.map(([one, share]) => [one, share / found.length]);
    });
  }

  function resized(photo, width, height) {
    if (width === photo.width && height === photo.height) return photo;
    const across = weights(photo.width, width);
    const rows = new Float32Array(3 * width * photo.height);
    for (let y = 0; y < photo.height; y += 1) {
      for (let x = 0; x < width; x += 1) {
        for (const [from, share] of across[x]) {
          for (let c = 0; c < 3; c += 1) rows[3 * (y * width + x) + c] += share * photo.data[3 * (y * photo.width + from) + c];
        }
      }
    }
    const made = { width, height, data: new Float32Array(3 * width * height) };
    weights(photo.height, height).forEach((parts, y) => {
      for (const [from, share] of parts) {
        for (let at = 0; at < 3 * width; at += 1) made.data[3 * y * width + at] += share * rows[3 * from * width + at];
      }
    });
    return made;
  }

  const longest = (photo, length) => {
    const scale = length / Math.max(photo.width, photo.height);
    return resized(photo, Math.max(1, Math.round(photo.width * scale)), Math.max(1, Math.round(photo.height * scale)));
  };

  async function decoded(blob) { // upright, as browsers show it; a photo of many megapixels is drawn smaller at once
    const bitmap = await createImageBitmap(blob);
    if (!bitmap.width || !bitmap.height) throw new Error("it has no pixels");
    const scale = Math.min(1, 1600 / Math.max(bitmap.width, bitmap.height));
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(bitmap.width * scale));
    canvas.height = Math.max(1, Math.round(bitmap.height * scale));
    const paint = canvas.getContext("2d", { willReadFrequently: true });
    paint.fillStyle = "#fff";
    paint.fillRect(0, 0, canvas.width, canvas.height);
    paint.imageSmoothingQuality = "high";
    paint.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    bitmap.close();
    const raw = paint.getImageData(0, 0, canvas.width, canvas.height).data;
    const data = new Float32Array(raw.length / 4 * 3);
    for (let at = 0; at < raw.length / 4; at += 1) for (let c = 0; c < 3; c += 1) data[3 * at + c] = raw[4 * at + c] / 255;
    return { width: canvas.width, height: canvas.height, data, canvas };
  }

  // EXIF's orientation of a JPEG; 1 where none is told.
  function orientation(bytes) {
    const view = new DataView(bytes);
    try {
      if (view.getUint16(0) !== 0xffd8) return 1;
      for (let at = 2; view.getUint8(at) === 0xff && view.getUint8(at + 1) !== 0xda; at += 2 + view.getUint16(at + 2)) {
        if (view.getUint8(at + 1) !== 0xe1 || view.getUint32(at + 4) !== 0x45786966) continue;
        const start = at + 10;
        const little = view.getUint16(start) === 0x4949;
        const table = start + view.getUint32(start + 4, little);
        for (let entry = 0; entry < view.getUint16(table, little); entry += 1) {
          const place = table + 2 + 12 * entry;
          if (view.getUint16(place, little) === 274) return view.getUint16(place + 8, little);
        }
      }
    } catch { /* the file ends early: it tells nothing */ }
    return 1;
  }

  // Detection --------------------------------------------------------------------------------------------------------

  async function network(photo) {
    const { width, height } = photo;
    const [wide, high] = [width, height].map((length) => Math.ceil(length / 16) * 16);
    const pixels = new Float32Array(3 * wide * high).fill(0.8);
    for (let c = 0; c < 3; c += 1) {
      for (let y = 0; y < height; y += 1) {
        for (let x = 0; x < width; x += 1) pixels[(c * high + y) * wide + x] = Math.round(255 * photo.data[3 * (y * width + x) + c]) / 255;
      }
    }
    return ask({ pixels, shape: [1, 3, high, wide] }, [pixels.buffer]);
  }

  const iou = (a, b) => {
    const both = Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0])) * Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
    const area = (one) => (one[2] - one[0]) * (one[3] - one[1]);
    return both / Math.max(area(a) + area(b) - both, 1e-9);
  };

  function decodedBoxes({ heat, sides, shape }, photo) {
    const [, count, high, wide] = shape;
    const found = [];
    const logit = Math.log(floor / (1 - floor));
    for (let label = 0; label < count; label += 1) {
      for (let y = 0; y < high; y += 1) {
        for (let x = 0; x < wide; x += 1) {
          const value = heat[(label * high + y) * wide + x];
          if (value <= logit) continue;
          let peak = true;
          for (let v = Math.max(0, y - 1); v <= Math.min(high - 1, y + 1); v += 1) {
            for (let u = Math.max(0, x - 1); u <= Math.min(wide - 1, x + 1); u += 1) {
              if (heat[(label * high + v) * wide + u] > value) peak = false;
            }
          }
          if (!peak) continue;
          const reach = [0, 1, 2, 3].map((one) => sides[(one * high + y) * wide + x]);
          const [px, py] = [STRIDE * (x + 0.5), STRIDE * (y + 0.5)];
          found.push({ label, score: 1 / (1 + Math.exp(-value)), box: [px - reach[0], py - reach[1], px + reach[2], py + reach[3]] });
        }
      }
    }
    found.sort((a, b) => b.score - a.score);
    const kept = [];
    for (const one of found.slice(0, most)) {
      if (!kept.some((other) => other.label === one.label && iou(other.box, one.box) > overlap)) kept.push(one);
    }
    const limits = [photo.width, photo.height, photo.width, photo.height]; // cut last, as the module does: overlaps are of whole boxes
    return kept.map((one) => ({ ...one, box: one.box.map((value, at) => Math.min(Math.max(value, 0), limits[at])) }));
  }

  // The controls -----------------------------------------------------------------------------------------------------

  const make = (name, properties = {}, children = []) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const field = (id, label, input, output = []) =>
    make("div", { className: "cells-field" }, [make("label", { htmlFor: id, textContent: label }), ...output, input]);
  const tick = (id, label) => {
    const input = make("input", { type: "checkbox", id });
    return { input, box: make("div", { className: "cells-tick" }, [input, make("label", { htmlFor: id, textContent: label })]) };
  };
  const which = make("select", { id: "cells-which" }, meta.samples.map((one, at) => new Option(one.name, String(at))));
  const own = make("input", { type: "file", id: "cells-own", accept: "image/*" });
  const turn = make("select", { id: "cells-turn" }, [["0", "as it is"], ["1", "a quarter turn"], ["2", "upside down"], ["3", "three quarters"]]
    .map(([value, text]) => new Option(text, value)));
  const size = make("input", { type: "range", id: "cells-size", min: 48, max: 480, step: 16, defaultValue: String(SIDE) });
  const sizeTold = make("output", { htmlFor: "cells-size" });
  const byTag = tick("cells-tag", "Turn the pixels as the tag says");
  const bySize = tick("cells-scale", "Enlarge to the size that the network knows");
  const reset = make("button", { type: "reset", textContent: "Reset" });
  const group = (title, made) => make("fieldset", {}, [make("legend", { textContent: title }), ...made]);
  const form = make("form", { className: "cells-form" }, [
    group("Photo", [field("cells-which", "A blood smear", which), field("cells-own", "Or your own photo", own)]),
    group("Break it", [field("cells-turn", "The camera was held", turn), field("cells-size", "Longer side resized to", size, [sizeTold])]),
    group("Mend it", [byTag.box, bySize.box, reset]),
  ]);
  form.setAttribute("aria-label", "Photo, faults and mends");
  const canvas = make("canvas");
  canvas.setAttribute("role", "img");
  const summary = make("p", { className: "cells-summary" });
  summary.setAttribute("role", "status");
  const note = make("p", { className: "cells-note" });
  const legend = make("p", { className: "cells-legend" }, classes.map((name, at) => make("span", { className: `cells-${at}`, textContent: name })));
  const app = make("section", { className: "cells-app" }, [form, summary, canvas, legend, note]);
  app.setAttribute("aria-label", "Live detector of blood cells");

  let photo = null; // upright; with labels where it is one of ours, and the tag of its file
  const colours = ["#d55e00", "#0072b2", "#009e73"];

  function draw(found) {
    const wide = Math.min(photo.width, 1000);
    canvas.width = wide;
    canvas.height = Math.round(photo.height * wide / photo.width);
    const paint = canvas.getContext("2d");
    const scale = wide / photo.width;
    paint.drawImage(photo.canvas, 0, 0, canvas.width, canvas.height);
    for (const { label, box } of found) {
      const [x0, y0, x1, y1] = box.map((value) => value * scale);
      for (const [colour, width] of [["#fff", 5], [colours[label], 2.5]]) {
        paint.strokeStyle = colour;
        paint.lineWidth = width;
        paint.setLineDash(width < 4 ? [[], [8, 3], [3, 3]][label] : []);
        paint.strokeRect(x0, y0, x1 - x0, y1 - y0);
      }
    }
    paint.setLineDash([]);
  }

  const counted = (found) => classes.map((name, at) => `${found.filter((one) => one.label === at).length} ${name}`).join(", ");

  function told(found, quarters) {
    const right = new Set();
    if (photo.labels) {
      for (const one of found) {
        const at = photo.labels.findIndex((wanted, place) =>
          !right.has(place) && wanted.label === one.label && iou(wanted.box, one.box) >= 0.5);
        if (at >= 0) right.add(at);
      }
    }
    const doctor = [];
    if (quarters && !byTag.input.checked) doctor.push("The doctor: its tag says that the pixels lie turned, and the boxes are drawn as if they did not.");
    if (Number(size.value) < 0.75 * SIDE && !bySize.input.checked) doctor.push("The doctor: objects are smaller than those that the network learnt from.");
    const score = photo.labels
      ? `${right.size} of ${photo.labels.length} marked cells found; other boxes: ${found.length - right.size}.`
      : `Boxes: ${counted(found)}. The network knows blood cells alone: elsewhere it takes round things for them.`;
    summary.textContent = [score, ...doctor].join(" ");
    element.dataset.right = String(right.size);
    element.dataset.boxes = String(found.length);
  }

  let turnOf = 0;
  async function look() {
    turnOf += 1;
    const mine = turnOf;
    element.dataset.rests = "no";
    sizeTold.textContent = `${size.value} pixels`;
    // how far the stored pixels are turned against the clock: by the control, else by the photo's own tag
    const quarters = Number(turn.value) || { 3: 2, 6: 1, 8: 3 }[photo.tag] || 0;
    const stored = turned(photo, byTag.input.checked ? 0 : quarters);
    let given = longest(stored, Number(size.value));
    if (bySize.input.checked && Number(size.value) < SIDE) given = longest(given, SIDE);
    const answer = await network(given);
    if (mine !== turnOf) return;
    const scale = Math.max(stored.width, stored.height) / Math.max(given.width, given.height);
    const found = decodedBoxes(answer, given).filter((one) => one.score >= shown);
    found.forEach((one) => (one.box = one.box.map((value) => value * scale)));
    draw(found);
    told(found, quarters);
    canvas.setAttribute("aria-label", `The photo with its boxes. ${summary.textContent}`);
    element.dataset.rests = "yes";
  }
  const fail = (error) => {
    summary.textContent = `This photo cannot be searched: ${error.message || error}.`;
    element.dataset.rests = "yes";
  };
  const again = () => look().catch(fail);

  async function sample(at) {
    const one = meta.samples[at];
    const bytes = await tools.bytes(tools.model, one.file);
    photo = await decoded(new Blob([bytes], { type: "image/jpeg" }));
    photo.tag = 1;
    photo.labels = one.boxes.map((box, place) => ({ box, label: one.labels[place] }));
  }
  which.addEventListener("change", () => sample(Number(which.value)).then(again, fail));
  own.addEventListener("change", async () => {
    const [file] = own.files;
    if (!file) return;
    try {
      const made = await decoded(file);
      made.tag = orientation(await file.slice(0, 2 ** 18).arrayBuffer());
      photo = made;
      await look();
    } catch (error) {
      fail(new Error(`${file.name} is no picture that this browser can open`, { cause: error }));
    }
  });
  for (const one of [turn, size, byTag.input, bySize.input]) one.addEventListener("input", again);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => sample(0).then(again, fail)));

  // The same numbers as PyTorch's? -----------------------------------------------------------------------------------

  const check = await tools.bytes(tools.model, "check.u8");
  const expected = new Float32Array((await tools.bytes(tools.model, "check.f32")).buffer);
  const [checkWide, checkHigh] = meta.check;
  const answer = await network({ width: checkWide, height: checkHigh, data: Float32Array.from(check, (value) => value / 255) });
  const numbers = [...answer.heat, ...answer.sides];
  const worst = numbers.reduce((most, value, at) => Math.max(most, Math.abs(value - expected[at]) / Math.max(1, Math.abs(expected[at]))), 0);
  element.dataset.worst = String(worst);
  if (numbers.length !== expected.length || !(worst < 1e-3)) throw new Error(`it does not give PyTorch's numbers (${worst})`);
  note.textContent = "Checked in this browser: the network gives PyTorch’s numbers. Your photo stays in this browser.";
  await sample(0);
  element.append(app);
  await look();
  tools.status.textContent = "";
});
