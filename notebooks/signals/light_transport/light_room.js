// A room whose lamp a reader drags: the picture is a sum of pictures made once, one for each tile of the ceiling. The
// element's data: `about` (JSON: tiles across, pixels, the first tile's middle and width, the lamp) and, in base64,
// `values`: a picture whose rows are direct light, first bounce and later ones, its columns the tiles.
"use strict";
(() => {
  const element = document.querySelector(".light-room:not([data-state])");
  const [EYE, HALF, CEILING] = [2.4, Math.tan((39.3 / 2) * (Math.PI / 180)), 0.998]; // as the chapter's camera
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
  async function unpacked({ across, height, width, mean }) { // values by kind, tile, row, column and colour
    const sheet = Object.assign(new Image(), { src: `data:image/jpeg;base64,${element.dataset.values}` });
    const lacking = new Error("the pictures did not come with the page");
    await sheet.decode().catch(() => { throw lacking; });
    const tiles = across * across;
    if (sheet.naturalWidth !== tiles * width || sheet.naturalHeight !== 3 * height) throw lacking;
    const paint = make("canvas", { width: sheet.naturalWidth, height: sheet.naturalHeight }).getContext("2d", { willReadFrequently: true });
    paint.drawImage(sheet, 0, 0);
    const all = new Uint8Array(9 * tiles * height * width);
    for (let [kind, to] = [0, 0]; kind < 3; kind++) {
      for (let number = 0; number < tiles; number++) {
        const { data } = paint.getImageData(number * width, kind * height, width, height);
        for (let i = 0; i < data.length; i++) if (i % 4 < 3) all[to++] = data[i];
      }
    }
    const told = all.reduce((sum, one) => sum + one, 0) / all.length / 255;
    if (Math.abs(told - mean) > 0.01) throw new Error("this browser keeps the pictures from scripts");
    return all;
  }
  async function start() {
    const about = JSON.parse(element.dataset.about);
    const { across, height, width, tile, lamp } = about;
    const bytes = await unpacked(about);
    const each = height * width * 3; // numbers of one picture
    const low = about.first - tile / 2 + lamp / 2;
    const at = { x: 0.5, z: 0.5 };
    const canvas = make("canvas", { tabIndex: 0 });
    canvas.setAttribute("role", "img");
    canvas.style.cssText = "display:block; width:100%; max-width:400px; aspect-ratio:1; cursor:grab; touch-action:pan-y";
    const slider = (value, least, most, step) => {
      const made = make("input", { type: "range", min: least, max: most, step, value });
      made.style.cssText = "display:block; width:100%; max-width:400px; min-height:2.2rem; margin:0";
      return made;
    };
    const label = (words, control) => make("label", { style: "display:block; margin:.3rem 0" }, [words, control]);
    const kinds = ["direct light", "first bounce", "later bounces"].map((words) => {
      const box = make("input", { type: "checkbox", checked: true, style: "min-width:1.4rem; min-height:1.4rem; vertical-align:middle" });
      return { box, label: make("label", { style: "display:inline-block; margin:.3rem 1rem .3rem 0; min-height:2.2rem" }, [box, ` ${words}`]) };
    });
    const sides = { x: slider(0.5, low, 1 - low, 0.01), z: slider(0.5, low, 1 - low, 0.01) };
    const balance = slider(0.5, 0, 1, 0.05);
    const told = make("p", { role: "status", style: "margin:.4rem 0; min-height:3.2em" });

    function sums() { // linear radiance of each kind under the lamp
      const share = (middle, number) => clamp((lamp + tile) / 2 - Math.abs(about.first + tile * number - middle), 0, Math.min(lamp, tile)) / tile;
      const found = [0, 1, 2].map(() => new Float64Array(each));
      for (let number = 0; number < across * across; number++) {
        const weight = share(at.x, Math.floor(number / across)) * share(at.z, number % across);
        if (!weight) continue;
        found.forEach((sum, kind) => {
          const [from, scale] = [(kind * across * across + number) * each, (about.largest[kind] * weight) / 65025];
          for (let i = 0; i < each; i++) sum[i] += scale * bytes[from + i] ** 2 * about.radiance[i % 3];
        });
      }
      return found;
    }
    function show() {
      const [parts, share] = [sums(), Number(balance.value)];
      const times = kinds.map(({ box }, kind) => (box.checked ? 2 * (kind ? share : 1 - share) : 0));
      const small = new ImageData(width, height);
      let [shown, whole, amiss] = [0, 0, 0];
      for (let i = 0; i < each; i++) {
        const light = times.reduce((sum, one, kind) => sum + one * parts[kind][i], 0);
        const truth = parts[0][i] + parts[1][i] + parts[2][i];
        [shown, whole, amiss] = [shown + light, whole + truth, amiss + Math.abs(light - truth)];
        const scaled = light * about.exposure; // the tone curve comes after the sum
        small.data[Math.floor(i / 3) * 4 + (i % 3)] = 255 * (scaled / (1 + scaled)) ** (1 / 2.2);
      }
      for (let i = 3; i < small.data.length; i += 4) small.data[i] = 255;
      const stage = make("canvas", { width, height });
      stage.getContext("2d").putImageData(small, 0, 0);
      [canvas.width, canvas.height] = [400, 400];
      const paint = canvas.getContext("2d");
      paint.drawImage(stage, 0, 0, 400, 400);
      paint.beginPath(); // the lamp seen straight
      for (const [dx, dz] of [[-1, -1], [1, -1], [1, 1], [-1, 1]]) {
        const away = EYE - at.z - (dz * lamp) / 2;
        const [right, up] = [(at.x + (dx * lamp) / 2 - 0.5) / (away * HALF), (CEILING - 0.5) / (away * HALF)];
        paint.lineTo(200 + 200 * right, 200 - 200 * up);
      }
      paint.closePath();
      paint.fillStyle = "#fff4d0";
      paint.fill();
      const energy = shown / whole;
      [element.dataset.energy, element.dataset.amiss] = [String(energy), String(amiss / whole)];
      element.dataset.lamp = `${at.x.toFixed(2)} ${at.z.toFixed(2)}`;
      const rest = times.every((one) => one === 1) ? "This is the light that was sent." : `Amiss is ${((100 * amiss) / whole).toFixed(0)} % of it.`;
      told.textContent = `Direct light counts ${times[0].toFixed(1)} times, bounces ${times[1].toFixed(1)} and ${times[2].toFixed(1)} times: ${energy.toFixed(2)} of the scattered light. ${rest}`;
      canvas.setAttribute("aria-label", `A room with two blocks, its lamp at ${at.x.toFixed(2)} from the left and ${at.z.toFixed(2)} from the back. Arrow keys move it.`);
    }
    const safely = (act) => (event) => {
      try {
        act(event);
      } catch (error) {
        failed(error);
      }
    };
    const move = (x, z) => {
      [at.x, at.z] = [clamp(x, low, 1 - low), clamp(z, low, 1 - low)];
      [sides.x.value, sides.z.value] = [at.x, at.z];
      show();
    };
    const keys = { ArrowLeft: [-0.03, 0], ArrowRight: [0.03, 0], ArrowUp: [0, 0.03], ArrowDown: [0, -0.03] }; // up: nearer
    canvas.addEventListener("keydown", safely((event) => {
      if (!keys[event.key]) return;
      event.preventDefault();
      move(at.x + keys[event.key][0], at.z + keys[event.key][1]);
    }));
    const pointed = safely((event) => { // where the ray under the pointer meets the ceiling
      const side = canvas.clientWidth / 2;
      const away = clamp((CEILING - 0.5) / (Math.max(1e-3, 1 - event.offsetY / side) * HALF), EYE - 1, EYE);
      move(0.5 + (event.offsetX / side - 1) * HALF * away, EYE - away);
    });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointed(event);
    });
    canvas.addEventListener("pointermove", (event) => event.buttons && pointed(event));
    for (const one of [...kinds.map(({ box }) => box), balance]) one.addEventListener("input", safely(show));
    for (const one of Object.values(sides)) one.addEventListener("input", safely(() => move(Number(sides.x.value), Number(sides.z.value))));
    const app = make("section", {}, [canvas, told, make("div", {}, kinds.map((one) => one.label)),
      label("Balance, from direct light alone to indirect alone", balance),
      label("Lamp, left to right", sides.x), label("Lamp, back to front", sides.z)]);
    element.replaceChildren(app);
    show();
    element.dataset.state = "ready";
  }
  function failed(error) {
    element.replaceChildren(make("p", { textContent: `The room cannot be shown here: ${error.message}.` }));
    element.dataset.state = "failed";
  }
  element.dataset.state = "begun";
  start().catch(failed);
})();
