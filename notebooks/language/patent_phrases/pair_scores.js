// The live model of the chapter on patent phrases: two phrases, a context to switch, and the score that moves.
// The tokeniser is WordPiece as in BERT (lower case, accents taken off, longest known piece first), written for this page.
"use strict";

// A tokeniser from the lines of a vocabulary: text to [token id, …] without [CLS] and [SEP].
function wordPieces(lines) {
  const ids = new Map(lines.map((line, at) => [line.split("\t")[0], at]));
  const unknown = ids.get("[UNK]");
  const alone = /[\p{P}$+<=>^`|~]/u; // a token of its own: punctuation, and the ASCII symbols that BERT counts among it
  const ideograph = /\p{Unified_Ideograph}/u;
  const cleaned = (text) => [...text]
    .filter((sign) => sign !== "\0" && sign !== "\ufffd" && (/[\t\n\r]/.test(sign) || !/\p{C}/u.test(sign)))
    .map((sign) => (/\s/.test(sign) ? " " : ideograph.test(sign) ? ` ${sign} ` : sign)).join("");
  const words = (text) => [...cleaned(text).normalize("NFD").replace(/\p{Mn}/gu, "").toLowerCase()]
    .map((sign) => (alone.test(sign) ? ` ${sign} ` : sign)).join("").split(" ").filter(Boolean);
  const pieces = (word) => {
    const signs = [...word];
    if (signs.length > 100) return [unknown];
    const found = [];
    for (let begin = 0, end; begin < signs.length; begin = end) {
      for (end = signs.length; end > begin; end -= 1) {
        const piece = (begin ? "##" : "") + signs.slice(begin, end).join("");
        if (ids.has(piece)) {
          found.push(ids.get(piece));
          break;
        }
      }
      if (end === begin) return [unknown];
    }
    return found;
  };
  return { ids, unknown, encode: (text) => words(text).flatMap(pieces) };
}

globalThis.rebuiltLive?.start("pairs", async (element, tools) => {
  const meta = JSON.parse(await tools.text(tools.model, "meta.json"));
  const lines = (await tools.text(tools.model, "vocabulary.txt")).split("\n");
  const tokens = wordPieces(lines);
  const rows = lines.map((line) => (line.includes("\t") ? Number(line.split("\t")[1]) : null));

  const worker = await tools.onnxWorker(tools.runtime, function work() {
    let session = null;
    addEventListener("message", async ({ data }) => {
      try {
        if (data.model) {
          session = await ort.InferenceSession.create(data.model, { executionProviders: ["wasm"] });
          return postMessage({ id: data.id });
        }
        const length = data.rows.length;
        const rows = new ort.Tensor("int64", BigInt64Array.from(data.rows, BigInt), [1, length]);
        const phrase = new ort.Tensor("float32", data.phrase, [1, 2, length]);
        const found = await session.run({ rows, phrase });
        postMessage({ id: data.id, score: found.score.data[0] });
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
    else resolve(data.score);
  };
  const ask = (message, transfer = []) => new Promise((resolve, reject) => {
    asked += 1;
    waiting.set(asked, { resolve, reject });
    worker.postMessage({ ...message, id: asked }, transfer);
  });
  const model = await tools.bytes(tools.model, "pairs.onnx");
  await ask({ model }, [model.buffer]);

  // The pieces of a text; an error names the word whose pieces the small model lacks.
  function pieces(text) {
    if (!text.trim()) throw new Error("type two phrases");
    if (text.length > 200) throw new Error("a phrase has at most 200 letters here");
    for (const word of text.trim().split(/\s+/)) {
      const lacking = tokens.encode(word).some((id) => id === tokens.unknown || rows[id] === null);
      if (lacking) throw new Error(`“${word.slice(0, 30)}” is not in this small model, which holds frequent words and those of the data set`);
    }
    return tokens.encode(text);
  }
  // [CLS] anchor [SEP] target [SEP] title [SEP], and which of its tokens are the anchor's and the target's.
  async function score(anchor, target, context) {
    const [first, last] = ["[CLS]", "[SEP]"].map((name) => tokens.ids.get(name));
    const one = [first, ...pieces(anchor), last];
    const two = [...pieces(target), last];
    const ids = [...one, ...two, ...pieces(meta.titles[context]), last];
    const phrase = new Float32Array(2 * ids.length).fill(1, 0, one.length);
    phrase.fill(1, ids.length + one.length, ids.length + one.length + two.length);
    return ask({ rows: ids.map((id) => rows[id]), phrase });
  }

  // Does a switch of the context show the model, and not the rounding to int8? How far a score, and the difference of a
  // pair's scores in two contexts, is from PyTorch's, at most over the examples: for the page, for readers and for tests.
  let worst = 0;
  for (const { anchor, target, scores } of meta.examples) {
    const off = [];
    for (const [context, wanted] of Object.entries(scores)) off.push(await score(anchor, target, context) - wanted);
    worst = Math.max(worst, Math.max(...off) - Math.min(...off), ...off.map(Math.abs));
  }
  element.dataset.worst = String(worst);
  element.dataset.bound = String(meta.bound);

  const make = (name, properties = {}, children = []) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const labelled = (title, control) => make("div", { className: "pairs-field" }, [
    make("label", { htmlFor: control.id, textContent: title }), control,
  ]);
  const example = make("select", { id: "pairs-example" }, meta.examples.map(
    ({ anchor, target }, at) => new Option(`${anchor} / ${target}`, String(at)),
  ));
  const anchor = make("input", { id: "pairs-anchor", type: "text", autocomplete: "off", spellcheck: false });
  const target = make("input", { id: "pairs-target", type: "text", autocomplete: "off", spellcheck: false });
  const context = make("select", { id: "pairs-context" }, Object.entries(meta.titles).map(
    ([code, title]) => new Option(`${code}: ${title}`, code),
  ));
  const meter = make("div", { className: "pairs-meter" }, [make("div")]);
  meter.setAttribute("aria-hidden", "true");
  const told = make("p", { className: "pairs-told" });
  told.setAttribute("role", "status");
  const switches = make("div", { className: "pairs-switches" });
  switches.setAttribute("role", "group");
  switches.setAttribute("aria-label", "Contexts in which this pair was rated");
  const note = make("p", { className: "pairs-note" });
  note.textContent = `The matrices are int8 here. Over these examples that shifts scores, and what moves between two contexts, by ${
    worst.toFixed(3)} at most. Moves of less than ${meta.bound} are called rounding.`;
  element.append(make("section", { className: "pairs-app" }, [
    labelled("A pair that raters saw in several contexts", example),
    make("div", { className: "pairs-two" }, [labelled("Anchor", anchor), labelled("Target", target)]),
    labelled("Context", context), switches, meter, told, note,
  ]));

  // What the same two phrases had in the context before.
  let last = {};
  function moved(found) {
    const same = last.anchor === anchor.value && last.target === target.value && last.context !== context.value;
    const by = found - last.score;
    const words = Math.abs(by) < meta.bound ? "not more than rounding does" : `${by > 0 ? "up" : "down"} by ${Math.abs(by).toFixed(2)}`;
    const told = same ? ` From ${last.context} it moves ${words}.` : "";
    last = { anchor: anchor.value, target: target.value, context: context.value, score: found };
    return told;
  }
  let turn = 0;
  async function show() {
    const mine = (turn += 1);
    element.dataset.rests = "no";
    const rated = meta.examples.find((one) => one.anchor === anchor.value && one.target === target.value);
    switches.replaceChildren(...Object.keys(rated?.ratings ?? {}).map((code) => make("button", {
      type: "button", textContent: `${code}: rated ${rated.ratings[code]}`, ariaPressed: String(code === context.value),
      onclick: () => { context.value = code; show(); },
    })));
    try {
      const found = await score(anchor.value, target.value, context.value);
      if (mine !== turn) return;
      const rating = rated?.ratings[context.value];
      meter.firstChild.style.width = `${100 * Math.min(1, Math.max(0, found))}%`;
      told.textContent = `Score ${found.toFixed(2)} in ${context.value}, ${meta.titles[context.value]}; ${
        rating === undefined ? "nobody rated this pair here." : `raters gave ${rating}.`}${moved(found)}${
        anchor.value.trim().toLowerCase() === target.value.trim().toLowerCase()
          ? " Equal phrases are 1 by definition. The model has no rule that says so: its score is a line through a cosine, fitted to all ratings." : ""}`;
      element.dataset.score = String(found);
    } catch (error) {
      if (mine !== turn) return;
      told.textContent = `No score: ${error.message}.`;
      meter.firstChild.style.width = "0";
      delete element.dataset.score;
    }
    element.dataset.rests = "yes";
  }
  const choose = () => {
    const one = meta.examples[Number(example.value)];
    [anchor.value, target.value] = [one.anchor, one.target];
    [context.value] = Object.keys(one.ratings);
    return show();
  };
  example.onchange = choose;
  anchor.oninput = target.oninput = context.onchange = show;
  await choose();
  tools.status.textContent = "The live model runs in your browser. Switch the context, or type phrases of your own.";
});
