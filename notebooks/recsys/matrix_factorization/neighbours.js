// A page's nearest pages by their vectors: type a title, get its neighbours, go on from one of them, turn a knob.
// All comes with the page. The element's data: `pages`, base64 of gzip of JSON {titles: [title], first: number,
// kinds: [[a setting of the knobs, its recall]], near: for each page and each setting the numbers of its nearest pages}.
"use strict";
(() => {
  const element = document.querySelector(".page-neighbours:not([data-state])");
  if (!element) return;
  const make = (tag, more = {}, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase().trim();

  async function start() {
    const packed = Uint8Array.from(atob(element.dataset.pages), (one) => one.charCodeAt(0));
    const opened = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const { titles, near, first, kinds } = await new Response(opened).json();
    const whole = near.length === titles.length && near.every((lists) => lists.length === kinds.length);
    if (!titles.length || !whole) throw new Error("the pages did not come with it");
    let shown = first;
    const keys = titles.map(plain);
    const suggestions = make("datalist", { id: "page-neighbours-titles" });
    const input = make("input", { type: "search", autocomplete: "off", maxLength: 80 });
    input.setAttribute("list", suggestions.id);
    input.style.cssText = "display:block; width:100%; box-sizing:border-box; min-height:2.6rem; font:inherit; padding:0 .5rem";
    const knobs = make("select", {}, kinds.map(([name], at) => make("option", { value: at, textContent: name })));
    knobs.style.cssText = input.style.cssText;
    const words = make("p", { role: "status", tabIndex: -1, style: "margin:.5rem 0" });
    const list = make("ol", { style: "margin:0; padding-left:1.6rem" });

    function show(at) {
      const kind = Number(knobs.value), usual = near[at][0];
      words.textContent = `Nearest to “${titles[at]}”, recall@20 ${kinds[kind][1]}:`;
      list.replaceChildren(...near[at][kind].map((other) => {
        const button = make("button", { type: "button", textContent: titles[other] });
        button.style.cssText = "min-height:2rem; margin:.15rem 0; padding:.1rem .6rem; font:inherit; color:inherit; "
          + "background:none; border:1px solid currentColor; border-radius:.4rem; cursor:pointer; text-align:left; overflow-wrap:anywhere";
        button.addEventListener("click", () => { input.value = titles[other]; show(other); words.focus(); });
        return make("li", {}, usual.includes(other) ? [button] : [button, " not with the chosen knobs"]);
      }));
      shown = at;
      element.dataset.shown = String(at);
    }

    function asked(done) {
      const wanted = plain(input.value);
      if (!wanted) { words.textContent = "Type the title of a page."; return; }
      const starts = keys.flatMap((key, at) => (key.startsWith(wanted) ? [at] : []));
      const found = [...starts, ...keys.flatMap((key, at) => (key.indexOf(wanted) > 0 ? [at] : []))];
      suggestions.replaceChildren(...found.slice(0, 12).map((at) => make("option", { value: titles[at] })));
      const exact = keys.indexOf(wanted);
      if (exact >= 0) { if (!done || element.dataset.shown !== String(exact)) show(exact); } // a list that is clicked stays
      else if (found.length && done) show(found[0]);
      else if (found.length) words.textContent = `${found.length} titles hold this; Enter takes the first.`;
      else {
        words.textContent = `No page here has “${input.value.trim()}” in its title.`;
        list.replaceChildren();
        shown = first;
        element.dataset.shown = "";
      }
    }
    for (const [kind, done] of [["input", false], ["change", true]]) {
      input.addEventListener(kind, () => { try { asked(done); } catch (error) { failed(error); } });
    }
    knobs.addEventListener("change", () => { try { show(shown); } catch (error) { failed(error); } });
    const labels = [["Title of a page", input], ["Knobs α and λ", knobs]];
    const labelled = labels.map((inside) => make("label", { style: "display:block; margin-bottom:.4rem" }, inside));
    element.replaceChildren(make("section", {}, [...labelled, suggestions, words, list]));
    input.value = titles[first];
    show(first);
    element.dataset.state = "running";
  }

  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The neighbours cannot be shown here: ${error.message}.` }));
  }
  start().catch(failed);
})();
