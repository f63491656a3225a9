// Slices of a scan with what a network says laid over: up and down through the body, overlap on and off. The element's
// data: `shape` and `names` (JSON); `scan`, `truth` and `layers` as zlib in base64, a byte a voxel; `credit`.
"use strict";
(() => {
  const element = document.querySelector(".slice-viewer:not([data-state])");
  const COLOURS = [null, [0, 158, 225], [255, 150, 40]]; // kidney, tumour: blue and orange, told apart without red
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  async function bytes(name, wanted) {
    const packed = Uint8Array.from(atob(element.dataset[name] || ""), (letter) => letter.charCodeAt(0));
    if (!packed.length) throw new Error("the slices did not come with the page");
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    const found = new Uint8Array(await new Response(stream).arrayBuffer());
    if (found.length !== wanted) throw new Error("the slices are not of the size that was told");
    return found;
  }
  async function start() {
    const [[deep, high, wide], names] = [JSON.parse(element.dataset.shape), JSON.parse(element.dataset.names)];
    const size = deep * high * wide;
    const [scan, truth] = [await bytes("scan", size), await bytes("truth", size)];
    const layers = await bytes("layers", size * names.length);
    const canvas = make("canvas", { width: wide, height: high, tabIndex: 0 });
    canvas.setAttribute("role", "img");
    canvas.style.cssText = "display:block; width:100%; max-width:560px; image-rendering:pixelated; background:#000";
    const range = make("input", { type: "range", min: 0, max: deep - 1, step: 1, value: Math.floor(deep / 2) });
    const choose = make("select", {}, [
      ...names.map((name, at) => make("option", { value: String(at), textContent: name })),
      make("option", { value: "truth", textContent: "the true labels" }),
      make("option", { value: "none", textContent: "the scan alone" }),
    ]);
    range.style.cssText = choose.style.cssText = "display:block; width:100%; max-width:560px; min-height:2.2rem; font:inherit";
    const wrong = make("input", { type: "checkbox", style: "width:1.3rem; height:1.3rem; margin-right:.5rem" });
    const told = make("p", { role: "status", style: "margin:.4rem 0; min-height:3.2em" });
    const label = (words, control) => make("label", { style: "display:block; margin:.3rem 0" }, [words, control]);
    const mark = make("label", { style: "display:flex; align-items:center; min-height:2.2rem" }, [wrong, "mark only what is wrong"]);

    function chosen() {
      if (choose.value === "none") return null;
      if (choose.value === "truth") return truth;
      const at = Number(choose.value) * size;
      return layers.subarray(at, at + size);
    }
    function show() {
      const [slice, layer] = [Number(range.value), chosen()];
      const [from, to, picture] = [slice * high * wide, (slice + 1) * high * wide, new ImageData(wide, high)];
      const counts = [0, 0, 0]; // kidney, tumour, wrong
      for (let i = from; i < to; i++) {
        const at = 4 * (i - from);
        const label = layer ? layer[i] : 0;
        const differs = layer && layer[i] !== truth[i];
        if (label) counts[label - 1]++;
        if (differs) counts[2]++;
        let colour = COLOURS[label];
        if (wrong.checked) colour = differs ? [255, 70, 150] : null;
        for (let k = 0; k < 3; k++) {
          picture.data[at + k] = colour ? Math.round(0.45 * scan[i] + 0.55 * colour[k]) : scan[i];
        }
        picture.data[at + 3] = 255;
      }
      canvas.getContext("2d").putImageData(picture, 0, 0);
      const name = choose.options[choose.selectedIndex].textContent;
      const here = layer ? `${counts[0]} voxels kidney, ${counts[1]} tumour, ${counts[2]} not as the true labels` : "no labels shown";
      const words = `Slice ${slice + 1} of ${deep}, ${name}: ${here}.`;
      element.dataset.slice = String(slice);
      canvas.setAttribute("aria-label", `A slice through the body. ${words} Up and down keys change the slice.`);
      told.textContent = words;
    }
    const safely = (act) => (event) => {
      try {
        act(event);
      } catch (error) {
        failed(error);
      }
    };
    canvas.addEventListener("keydown", safely((event) => {
      const by = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      range.value = String(Number(range.value) + by);
      show();
    }));
    for (const one of [range, choose, wrong]) one.addEventListener("input", safely(show));
    const credit = make("p", { textContent: element.dataset.credit, style: "font-size:.85em; margin:.2rem 0" });
    const app = make("section", {}, [canvas, label("Slice", range), label("Laid over", choose), mark, told, credit]);
    element.replaceChildren(app);
    show();
    element.dataset.state = "ready";
  }
  function failed(error) {
    element.replaceChildren(make("p", { textContent: `The viewer cannot run here: ${error.message}.` }));
    element.dataset.state = "failed";
  }
  element.dataset.state = "starting";
  start().catch(failed);
})();
