// A column and its layers: the reader moves the numbers of run-length and delta layers, the browser packs one chunk by the
// same rules as `cascaded_chunks.encode`, to the last byte. The element's data: `columns` (JSON: name to base64 of
// little-endian int32). The reader's own column comes from a CSV file, which never leaves the browser.
"use strict";
(() => {
  const element = document.querySelector(".cascaded-layers:not([data-state])");
  const MOST = 16384; // values of a chunk
  const WORDS = [[8, Uint8Array], [16, Int16Array], [32, Int32Array]]; // bits of a word: the fewest that hold the width
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  const decoded = (text) => new Int32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

  function runLengths(values) {
    const [kept, counts] = [[], []];
    values.forEach((value, i) => {
      if (i && value === values[i - 1]) counts[counts.length - 1] += 1;
      else { kept.push(value); counts.push(1); }
    });
    return [Int32Array.from(kept), Int32Array.from(counts)];
  }
  function differences(values) {
    const found = values.map((value, i) => (i ? value - values[i - 1] : 0)); // an Int32Array wraps
    if (found.length > 1) found[0] = found.reduce((least, step, i) => (i ? Math.min(least, step) : found[1]), found[1]);
    return [found, (values[0] - found[0]) | 0];
  }
  function range(values) { // the narrower of the signed and the unsigned reading
    const width = (low, high) => 32 - Math.clz32((high - low) >>> 0);
    let [low, high, least, most] = [values[0], values[0], values[0] >>> 0, values[0] >>> 0];
    for (const value of values) {
      [low, high] = [Math.min(low, value), Math.max(high, value)];
      [least, most] = [Math.min(least, value >>> 0), Math.max(most, value >>> 0)];
    }
    const [signed, unsigned] = [width(low, high), width(least, most)];
    return unsigned < signed ? [least | 0, unsigned] : [low, signed];
  }
  function pack(values, lowest, width) {
    const [rows, Words] = WORDS.find(([bits]) => bits >= width);
    const lanes = Math.ceil(values.length / rows);
    const words = new Words(width * lanes);
    values.forEach((value, i) => {
      const [row, lane] = [Math.floor(i / lanes), i % lanes];
      const [at, shift] = [Math.floor((row * width) / rows), (row * width) % rows];
      const left = (value - lowest) | 0;
      if (width) words[at * lanes + lane] |= left << shift;
      if (shift + width > rows) words[(at + 1) * lanes + lane] |= left >>> (rows - shift);
    });
    return words;
  }
  function encode(values, rles, deltas) {
    const [streams, bases] = [[], []];
    let flowing = values;
    for (let layer = 0; layer < Math.max(rles, deltas); layer += 1) {
      if (layer < rles) {
        const [kept, counts] = runLengths(flowing);
        streams.push(counts);
        flowing = kept;
      }
      if (layer < deltas) {
        const [found, base] = differences(flowing);
        bases.push(base);
        flowing = found;
      }
    }
    streams.push(flowing);
    const found = streams.map((stream) => range(stream));
    const packed = streams.map((stream, s) => pack(stream, ...found[s]));
    const head = 16 * streams.length + 8 * bases.length;
    const view = new DataView(new ArrayBuffer(head + packed.reduce((sum, words) => sum + words.byteLength, 0)));
    streams.forEach((stream, s) => {
      view.setUint32(16 * s, stream.length, true);
      view.setUint32(16 * s + 4, found[s][1], true);
      view.setBigInt64(16 * s + 8, BigInt(found[s][0]), true);
    });
    bases.forEach((base, d) => view.setBigInt64(16 * streams.length + 8 * d, BigInt(base), true));
    let at = head;
    const whole = new Uint8Array(view.buffer);
    for (const words of packed) { whole.set(new Uint8Array(words.buffer), at); at += words.byteLength; }
    const parts = streams.map((stream, s) => ({ count: stream.length, width: found[s][1], bytes: packed[s].byteLength }));
    return { bytes: whole, head, parts };
  }

  function start() {
    const columns = Object.fromEntries(
      Object.entries(JSON.parse(element.dataset.columns)).map(([name, text]) => [name, decoded(text)]));
    if (!Object.values(columns).some((column) => column.length)) throw new Error("the columns did not come with the page");
    const option = (name) => make("option", { value: name, textContent: name });
    const choose = make("select", {}, Object.keys(columns).map(option));
    const slider = () => make("input", { type: "range", min: 0, max: 4, step: 1, value: 1 });
    const [rles, deltas, file] = [slider(), slider(), make("input", { type: "file", accept: ".csv,.txt,text/csv" })];
    const bar = make("div", { role: "img", style: "display:flex; height:2.2rem; border:1px solid currentColor; margin:.5rem 0" });
    const legend = make("p", { style: "display:flex; flex-wrap:wrap; gap:.1rem 1rem; margin:.2rem 0; font-size:.85rem" });
    legend.setAttribute("aria-hidden", "true"); // the bar's name and the words below say it
    let left = ""; // what of the reader's own file is not in the column
    const told = make("p", { role: "status", style: "min-height:6em; margin:.4rem 0" });
    const label = (words, control) => make("label", { style: "display:block; margin:.3rem 0" }, [words, control]);
    for (const control of [choose, rles, deltas, file]) control.style.cssText = "display:block; width:100%; min-height:2.2rem; font:inherit";
    const own = label("Or your own: the first whole number of each line of a CSV file", file);
    const app = make("section", {}, [label("Column", choose), label("Run-length layers", rles), label("Delta layers", deltas), bar, legend, told, own]);

    function update() {
      try {
        const values = columns[choose.value];
        const [r, d] = [Number(rles.value), Number(deltas.value)];
        rles.previousSibling.textContent = `Run-length layers: ${r}`;
        deltas.previousSibling.textContent = `Delta layers: ${d}`;
        const { bytes, head, parts } = encode(values, r, d);
        const [before, after] = [4 * values.length, bytes.length];
        const names = parts.map((_, s) => (s < r ? `counts ${s + 1}` : "values"));
        const colours = ["#6b7178", "#b34700", "#9c4580", "#007553", "#8a6100", "#0066a6"];
        const piece = (size, colour, title) =>
          make("div", { title, style: `width:${(100 * size) / Math.max(before, after)}%; background:${colour}` });
        const last = colours.length - 1;
        const shown = [[head, colours[0], "header"], ...parts.map((part, s) => [part.bytes, colours[s < r ? s + 1 : last], names[s]])];
        bar.replaceChildren(...shown.map((one) => piece(...one)));
        legend.replaceChildren(...shown.map(([, colour, name]) => make("span", {}, [
          make("span", { style: `display:inline-block; width:.8em; height:.8em; margin-right:.35em; background:${colour}` }), name])));
        const list = parts.map((part, s) => `${names[s]}: ${part.count.toLocaleString("en")} of ${part.width} bits`);
        const words = `${values.length.toLocaleString("en")} values, ${before.toLocaleString("en")} bytes become ` +
          `${after.toLocaleString("en")}, ratio ${(before / after).toFixed(2)}. ${list.join("; ")}; header ${head} bytes.${choose.value === "yours" ? left : ""}`;
        [told.textContent, element.dataset.state] = [words, "running"];
        bar.setAttribute("aria-label", words);
        element.dataset.packed = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
      } catch (error) { failed(error); }
    }
    file.addEventListener("change", async () => {
      const all = (await file.files[0].text()).split(/\r?\n/).filter((line) => line.trim());
      const found = all.slice(0, 20 * MOST).map((line) => Number(line.match(/(?<![\d.])-?\d+(?![\d.])/)?.[0] ?? NaN));
      const values = Int32Array.from(found.filter((value) => value === (value | 0)).slice(0, MOST));
      if (!values.length) { told.textContent = "That file has no whole numbers of 32 bits."; return; }
      const lacking = all.length - values.length;
      left = lacking ? ` Left out: ${lacking.toLocaleString("en")} of ${all.length.toLocaleString("en")} lines, for want of a `
        + `whole number of 32 bits, or beyond the first ${MOST.toLocaleString("en")} values.` : "";
      if (!columns.yours) choose.append(option("yours"));
      [columns.yours, choose.value] = [values, "yours"];
      update();
    });
    app.addEventListener("input", (event) => { if (event.target !== file) update(); });
    element.replaceChildren(app);
    update();
  }

  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The layers to move cannot run here: ${error.message}.` }));
  }
  try { start(); } catch (error) { failed(error); }
})();
