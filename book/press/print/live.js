// The loader of live models. It fetches nothing until a reader touches one, and asks no other server.
// A page may have been opened from a folder, so everything comes by <script>: packs call rebuiltLive.add, the
// chapter's script calls rebuiltLive.start. Where anything is missing, the page's own words stay.
"use strict";
window.rebuiltLive ??= (() => {  // a page may name this file twice
  const packs = new Map();
  const starts = new Map();

  const wanted = () => {
    const lacking = [];
    if (typeof WebAssembly !== "object") lacking.push("WebAssembly");
    if (typeof DecompressionStream !== "function") lacking.push("DecompressionStream");
    if (typeof Worker !== "function") lacking.push("workers");
    return lacking;
  };

  const script = (address) => new Promise((resolve, reject) => {
    const made = Object.assign(document.createElement("script"), { src: address, async: true, onload: resolve });
    made.onerror = () => reject(new Error(`${address.split("/").pop().split("?")[0]} could not be loaded`));
    document.head.append(made);
  });

  const style = (address) => {
    if (document.querySelector(`link[href="${address}"]`)) return;
    document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: address }));
  };

  // What a pack holds is base64 of gzip. (Runs in the worker, too, so it uses no other name.)
  async function unpacked(text) {
    let packed = Uint8Array.fromBase64?.(text);
    if (!packed) {
      const raw = atob(text);
      packed = new Uint8Array(raw.length);
      for (let at = 0; at < raw.length; at += 1) packed[at] = raw.charCodeAt(at);
    }
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  function held(pack, file) {
    const text = packs.get(pack)[file];
    if (text === undefined) throw new Error(`${pack} has no ${file}`);
    return text;
  }

  const bytes = async (pack, file) => unpacked(held(pack, file));
  const text = async (pack, file) => new TextDecoder().decode(await bytes(pack, file));

  // A worker of classic scripts, which get `data` and say when they are `up`; it comes as a blob, so it works from a
  // folder, and the page is never held up.
  async function worker(scripts, data) {
    const address = URL.createObjectURL(new Blob(scripts.map((one) => `${one}\n`), { type: "text/javascript" }));
    const made = new Worker(address);
    await new Promise((resolve, reject) => {
      made.onmessage = ({ data: said }) => (said.up ? resolve() : reject(new Error(said.error)));
      made.onerror = (event) => reject(new Error(event.message || "the worker did not start"));
      made.postMessage(data);
    });
    made.onmessage = made.onerror = null;
    URL.revokeObjectURL(address);
    return made;
  }

  // A worker with ONNX Runtime Web in it as `ort`, one thread, and `body` (a function without free names) run after it.
  async function onnxWorker(runtime, body) {
    const ready = `onmessage = async ({ data }) => {
      const unpacked = ${unpacked};
      try {
        const glue = new Blob([await unpacked(data.glue)], { type: "text/javascript" });
        ort.env.wasm.wasmPaths = { mjs: URL.createObjectURL(glue) };
        ort.env.wasm.wasmBinary = await unpacked(data.wasm);
        ort.env.wasm.numThreads = 1;
        onmessage = null;
        (${body})();
        postMessage({ up: true });
      } catch (error) {
        postMessage({ error: String(error.message || error) });
      }
    };`;
    const [glue, wasm] = ["mjs", "wasm"].map((kind) => held(runtime, `ort-wasm-simd-threaded.${kind}`));
    return worker([await text(runtime, "ort.wasm.min.js"), ready], { glue, wasm });
  }

  // Packs by name and address, loaded where they are not there yet.
  const load = (wanted) => Promise.all(
    Object.entries(wanted).filter(([name]) => !packs.has(name)).map(([, address]) => script(address)),
  );

  async function begin(element) {
    const status = Object.assign(document.createElement("p"), { className: "rebuilt-live-status" });
    status.setAttribute("role", "status");
    const words = [...element.children]; // for readers without scripts
    element.append(status);
    const lacking = wanted();
    try {
      if (lacking.length) throw new Error(`this browser has no ${lacking.join(" and no ")}`);
      const { live, runtime, model, script: own, style: look, megabytes } = element.dataset;
      status.textContent = `The live model is loading: ${megabytes} MB …`;
      element.dataset.state = "loading";
      element.dataset.begun = String(performance.now());
      style(look);
      const name = runtime.split("/").pop().replace(/-[\d.]+\.js.*$/, "");
      await Promise.all([load({ [name]: runtime, [live]: model }), starts.has(live) ? null : script(own)]);
      await starts.get(live)(element, { runtime: name, model: live, bytes, text, onnxWorker, status });
      words.forEach((one) => one.classList.add("rebuilt-live-fallback"));
      element.dataset.state = "running";
    } catch (error) {
      element.dataset.state = "failed";
      status.textContent = `The live model cannot run here: ${error.message}.`;
    }
  }

  // A model is loaded only when its reader touches it: a button, and the picture where one stands.
  function offer(element) {
    const still = element.querySelector(".still") ?? element;
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "rebuilt-touch" });
    button.textContent = `Touch it: load the live model, ${element.dataset.megabytes} MB`;
    const go = () => {
      if (!button.isConnected) return;
      button.remove();
      still.removeEventListener("click", go);
      begin(element);
    };
    still.addEventListener("click", go);
    still.append(button);
  }

  const watch = () => document.querySelectorAll(".rebuilt-live[data-live]").forEach(offer);

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", watch);
  else watch();
  const [add, start] = [(name, files) => packs.set(name, files), (name, run) => starts.set(name, run)];
  return { add, start, load, wanted, worker, unpacked, text, files: (name) => packs.get(name) };
})();
