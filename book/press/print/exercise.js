// An exercise in the page: an editor in the place of its stub. The answer runs here, in Python, before the notebook's
// own checker. Python is loaded at the first check and asks no server; it runs in a worker, which is ended when an
// answer takes too long. Without scripts, and in print, the stub stands.
"use strict";
window.rebuiltExercise ??= (() => {
  const SECONDS = 10;
  const SLOW = `Your code was stopped after ${SECONDS} seconds. Does one of its loops never end?`;

  // Runs in the worker, with `unpacked` of live.js: Python from the packs alone, then one attempt after another.
  async function python({ data: { files, sources } }) {
    onmessage = null;
    self.fetch = async (address) => {
      const name = String(address).split("/").pop();
      if (!files[name]) throw new Error(`${name} is not in the pack`);
      return new Response(await unpacked(files[name]), { headers: { "Content-Type": "application/wasm" } });
    };
    const written = await Promise.all(Object.entries(sources).map(async ([name, one]) => [name, await unpacked(one)]));
    const home = (FS) => written.forEach(([name, content]) => {
      FS.mkdirTree(`/home/pyodide/${name}`.replace(/\/[^/]*$/, ""));
      FS.writeFile(`/home/pyodide/${name}`, content);
    });
    try {
      const { tried } = (await loadPyodide({ indexURL: "https://pack.invalid/", fsInit: home })).pyimport("attempt");
      onmessage = ({ data }) => postMessage(JSON.parse(tried(...data)));
      postMessage({ up: true });
    } catch (error) {
      postMessage({ error: String(error.message || error) });
    }
  }

  async function begun(packs) {
    const live = window.rebuiltLive;
    const lacking = live.wanted();
    if (lacking.length) throw new Error(`this browser has no ${lacking.join(" and no ")}`);
    await live.load(packs);
    const parts = await Promise.all(["pyodide.asm.js", "pyodide.js"].map((name) => live.text("pyodide", name)));
    const data = { files: live.files("pyodide"), sources: live.files("checking") };
    return live.worker([...parts, `${live.unpacked}; onmessage = ${python};`], data);
  }

  // What an attempt is told; its worker is ended, and the next attempt begins another, where it does not answer.
  function answer(worker, asked) {
    return new Promise((resolve, reject) => {
      const end = (settle, word) => { clearTimeout(timer); worker.onmessage = worker.onerror = null; settle(word); };
      const timer = setTimeout(() => end(reject, new Error(SLOW)), SECONDS * 1000);
      worker.onmessage = ({ data }) => end(resolve, data);
      worker.onerror = (event) => { event.preventDefault(); end(reject, new Error(event.message)); };
      worker.postMessage(asked);
    }).catch((error) => { worker.terminate(); throw error; });
  }

  const kept = { // a browser may refuse to keep anything
    get: (key) => { try { return localStorage.getItem(key); } catch { return null; } },
    set: (key, text) => { try { localStorage.setItem(key, text); } catch { /* then it is not kept */ } },
  };

  const made = (name, properties, ...inside) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...inside);
    return element;
  };

  // Typing in code: a new line begins below the last, Tab indents once something was typed, and Esc gives Tab back.
  function typing(area) {
    let leave = true;
    const put = (text) => document.execCommand("insertText", false, text) || area.setRangeText(text);
    area.addEventListener("focus", () => { leave = true; });
    area.addEventListener("input", () => { leave = false; });
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") leave = true;
      if (event.key !== "Tab" || event.shiftKey || leave) return;
      event.preventDefault();
      put("    ");
    });
    area.addEventListener("beforeinput", (event) => {
      if (event.inputType !== "insertLineBreak") return;
      const line = area.value.slice(0, area.selectionStart).split("\n").pop();
      const indent = line.match(/^ */)[0] + (/:\s*$/.test(line) ? "    " : "");
      if (!indent) return;
      event.preventDefault();
      put(`\n${indent}`);
    });
    return put;
  }

  function offer(element) {
    const { id, title, stub, checker, call, packs, megabytes } = JSON.parse(element.dataset.exercise);
    const [key, label, help] = [`exercise:${location.pathname}#${id}`, `exercise-${id}`, `exercise-${id}-help`];
    const area = made("textarea", { id: label, value: kept.get(key) ?? stub, spellcheck: false, autocapitalize: "off" });
    area.setAttribute("aria-describedby", help);
    const grow = () => { area.rows = Math.max(6, area.value.split("\n").length + 1); };
    const put = typing(area);
    area.addEventListener("input", () => { kept.set(key, area.value); grow(); });
    const [check, reset] = ["Check", "Reset"].map((textContent) => made("button", { type: "button", textContent }));
    const status = made("p", { className: "rebuilt-exercise-said" });
    status.setAttribute("role", "status");
    const printed = made("pre", { hidden: true, tabIndex: 0 });
    printed.setAttribute("role", "region");
    printed.setAttribute("aria-label", "What your code printed");
    const words = `It runs in this page; the first check loads Python, ${megabytes} MB. Once you have typed, Tab indents;`;
    element.append(
      made("label", { htmlFor: label, textContent: `Your answer: ${title}` }),
      area,
      made("p", { id: help, className: "rebuilt-exercise-help", textContent: `${words} press Esc before Tab to leave.` }),
      made("div", { className: "rebuilt-exercise-do" }, check, reset),
      status,
      printed,
    );
    element.closest(".cell")?.querySelector(".cell_input")?.classList.add("rebuilt-exercise-stub");
    grow();

    let worker = null;
    const say = (state, text, out = "") => {
      Object.assign(element.dataset, { state });
      [status.textContent, printed.textContent, printed.hidden] = [text, out, !out];
    };
    check.addEventListener("click", async () => {
      if (["loading", "running"].includes(element.dataset.state)) return;
      try {
        if (!worker) say("loading", `Python is loading: ${megabytes} MB …`);
        worker ??= await begun(packs);
        say("running", "Your code is running …");
        const found = await answer(worker, [area.value, checker, call]);
        say(found.right ? "right" : "wrong", found.right ? "✓ Right." : `✗ Not yet. ${found.said}`, found.printed);
      } catch (error) {
        const slow = error.message === SLOW;
        worker = null;
        say(slow ? "wrong" : "failed", slow ? `✗ Not yet. ${SLOW}` : `This cannot run here: ${error.message}.`);
      }
    });
    reset.addEventListener("click", () => { // typed, so that the browser's undo brings the answer back
      area.focus();
      area.select();
      put(stub);
      say("", "");
    });
  }

  const watch = () => document.querySelectorAll(".rebuilt-exercise[data-exercise]").forEach(offer);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", watch);
  else watch();
  return true;
})();
