// The live model of the chapter on disfluencies: type or play a sentence; words are struck through as they arrive.
"use strict";

// As disfl_labels.words_of: lower-case runs of letters, digits, underscores and apostrophes.
function wordsOf(text) {
  return text.toLowerCase().match(/[\p{L}\p{N}_']+/gu) ?? [];
}

// The words of what somebody types, whose apostrophe may be the typographic one that articles print.
function typedWords(text) {
  return wordsOf(text.replaceAll("\u2019", "'"));
}

// As disfl_labels.fnv1a: the 32-bit FNV-1a hash of a word's UTF-8 bytes.
function fnv1a(word) {
  let value = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(word)) value = Math.imul(value ^ byte, 0x01000193) >>> 0;
  return value;
}

// As disfl_labels.Vocabulary: numbers of frequent words, buckets for the others.
function vocabulary(words, buckets) {
  const numbers = new Map(words.map((word, at) => [word, at + 2]));
  return (said) => said.map((word) => numbers.get(word) ?? 2 + words.length + (fnv1a(word) % buckets));
}

// What is shown of each word of a prefix: "gone", "kept", or "open" from the first wait on, until the sentence ends.
// As word_stream.predictions: the first wait is the first logit above the logarithm of the price.
function shown(found, ended, price) {
  const first = ended ? -1 : found.wait.findIndex((value) => value > Math.log(price));
  return found.disfluent.map((value, at) => (first >= 0 && at >= first ? "open" : value > 0 ? "gone" : "kept"));
}

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

// How many of the words, joined by spaces, have begun at this letter.
function begun(words, letter) {
  let count = 0;
  for (let at = 0; count < words.length && at <= letter; count += 1) at += words[count].length + 1;
  return count;
}

// An English voice of this machine: others send what they say to a server. Browsers list their voices late.
async function localVoice(synth, patience = 1000) {
  const known = () => synth?.getVoices().find((one) => one.localService && /^en\b/i.test(one.lang));
  if (!synth) return null;
  for (let waited = 0; waited < patience && !known(); waited += 50) await pause(50);
  return known() ?? null;
}

// Says the words and keeps in `told` how many have begun (`heard`) and when it is `over`; or why it is `silent`.
function speak(words, told, voice, synth = globalThis.speechSynthesis, patience = 2000) {
  const said = Object.assign(new SpeechSynthesisUtterance(words.join(" ")), { voice, lang: voice.lang, rate: 0.9 });
  const late = setTimeout(() => { told.silent ||= "the browser's voice did not begin"; }, patience);
  said.onstart = () => { clearTimeout(late); told.started = performance.now(); };
  said.onboundary = ({ charIndex }) => { told.heard = Math.max(told.heard ?? 0, begun(words, charIndex)); };
  said.onend = () => { clearTimeout(late); told.over = true; };
  said.onerror = ({ error }) => { clearTimeout(late); told.silent ||= `the browser's voice failed: ${error}`; };
  synth.speak(said);
}

// Whether the next word, after `shown`, may be shown: when the voice has begun it, or, without one that says where it
// is, by the clock. `ms`: since the last word was shown.
function arrived(told, shown, ms, now = performance.now()) {
  if (told.silent) return ms >= 280;
  if (told.heard !== undefined || told.over) return told.over || told.heard > shown || ms >= 5000;
  return told.started !== undefined && now - told.started >= 600 && ms >= 350; // it speaks, and marks no word
}

globalThis.rebuiltLive?.start("strike", async (element, tools) => {
  const meta = JSON.parse(await tools.text(tools.model, "meta.json"));
  const numbers = vocabulary(meta.words, meta.buckets);
  const worker = await tools.onnxWorker(tools.runtime, function work() {
    let session = null;
    addEventListener("message", async ({ data }) => {
      try {
        if (data.model) {
          session = await ort.InferenceSession.create(data.model, { executionProviders: ["wasm"] });
          return postMessage({ id: data.id });
        }
        const ids = new ort.Tensor("int64", BigInt64Array.from(data.ids, BigInt), [1, data.ids.length]);
        const start = performance.now();
        const found = await session.run({ ids });
        const took = performance.now() - start;
        postMessage({ id: data.id, disfluent: [...found.disfluent.data], wait: [...found.wait.data], took });
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
  const ask = (message, transfer = []) => new Promise((resolve, reject) => {
    asked += 1;
    waiting.set(asked, { resolve, reject });
    worker.postMessage({ ...message, id: asked }, transfer);
  });
  const model = await tools.bytes(tools.model, "strike.onnx");
  await ask({ model }, [model.buffer]);

  // Does this browser compute what PyTorch computed? As probabilities, over the examples' whole sentences.
  const sigmoid = (value) => 1 / (1 + Math.exp(-value));
  let worst = 0;
  for (const one of meta.examples) {
    const ids = numbers(wordsOf(one.text));
    if (ids.join() !== one.ids.join()) throw new Error("the words of an example got other numbers here");
    const found = await ask({ ids });
    for (const head of ["disfluent", "wait"]) {
      one[head].forEach((value, at) => { worst = Math.max(worst, Math.abs(sigmoid(value) - sigmoid(found[head][at]))); });
    }
  }
  element.dataset.worst = String(worst);
  element.dataset.bound = "0.1"; // int8 against float32, as probabilities of single words

  const make = (name, properties = {}, children = []) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  // Questions are what the network has read; what ends otherwise stands apart, since there it often fails.
  const group = (label, of) => Object.assign(make("optgroup", { label }), { of });
  const groups = [group("Questions, as it has read them", true), group("Ordinary speech, where it often fails", false)];
  meta.examples.forEach((one, at) => groups.find((each) => each.of === one.text.endsWith("?")).append(new Option(one.text, String(at))));
  const choice = make("select", { id: "strike-example" }, groups);
  const typed = make("textarea", { id: "strike-text", rows: 2, spellcheck: false, autocomplete: "off" });
  const play = make("button", { type: "button", className: "strike-play", textContent: "Play word by word" });
  const done = make("label", { className: "strike-done" });
  const ended = make("input", { type: "checkbox", id: "strike-ended" });
  done.append(ended, " the sentence has ended");
  const patience = make("input", { type: "range", id: "strike-patience", min: -2, max: 2, step: 0.25, value: 0 });
  const price = () => 2 ** -Number(patience.value);
  const aloud = make("label", { className: "strike-done" });
  const voice = make("input", { type: "checkbox", id: "strike-voice", checked: true });
  aloud.append(voice, " with the voice of this machine");
  const silence = make("p", { className: "strike-note", hidden: true });
  const line = make("p", { className: "strike-line" });
  const told = make("p", { className: "strike-told" });
  told.setAttribute("role", "status");
  const label = (title, control) => make("div", { className: "strike-field" }, [
    make("label", { htmlFor: control.id, textContent: title }), control,
  ]);
  element.append(make("section", { className: "strike-app" }, [
    label("A sentence to play", choice),
    label("Or type a question, such as people ask an encyclopaedia; it is read as you type", typed),
    make("p", { className: "strike-note", textContent: "The network has read written questions only. In other sentences it "
      + "often strikes too much or too little: statements, a word said twice, a correction at the end." }),
    label("Patience: never wait (left) to wait long (right)", patience),
    make("div", { className: "strike-buttons" }, [play, aloud, done]), silence, line, told,
    make("p", { className: "strike-note", textContent: "Struck through: to be removed. Dotted: the model waits. "
      + `int8 here and float32 in PyTorch differ by ${worst.toFixed(3)} at most, as probabilities over the examples.` }),
  ]));

  let turn = 0;
  // Shows the prefix of `words`; how long one reading took, in ms.
  async function show(words, over, mine) {
    if (!words.length) {
      line.replaceChildren();
      told.textContent = "Type a word.";
      return 0;
    }
    if (words.length > meta.longest) throw new Error(`at most ${meta.longest} words, got ${words.length}`);
    const found = await ask({ ids: numbers(words) });
    if (mine !== turn) return found.took;
    const states = shown(found, over, price());
    line.replaceChildren(...words.flatMap((word, at) => [
      make(states[at] === "gone" ? "del" : states[at] === "open" ? "em" : "span", { textContent: word, className: states[at] }), " ",
    ]));
    element.dataset.states = states.join(" ");
    const kept = words.filter((_, at) => states[at] === "kept").join(" ");
    told.textContent = `${over ? "Clean" : "So far"}: ${kept || "nothing yet"}. Read in ${found.took.toFixed(1)} ms.`;
    return found.took;
  }
  async function read() {
    const mine = (turn += 1);
    globalThis.speechSynthesis?.cancel();
    element.dataset.rests = "no";
    try {
      await show(typedWords(typed.value), ended.checked, mine);
    } catch (error) {
      told.textContent = `Not read: ${error.message}.`;
    }
    if (mine === turn) element.dataset.rests = "yes";
  }
  async function playAll() {
    const mine = (turn += 1);
    globalThis.speechSynthesis?.cancel();
    element.dataset.rests = "no";
    const words = typedWords(typed.value).slice(0, meta.longest);
    ended.checked = false;
    const said = { silent: voice.checked ? "" : "the voice is switched off" };
    const speaker = voice.checked && words.length ? await localVoice(globalThis.speechSynthesis) : null;
    if (mine !== turn) return;
    if (speaker) speak(words, said, speaker);
    else said.silent ||= "this browser has no English voice of its own";
    for (let end = 0, last = performance.now(); end <= words.length && mine === turn;) {
      silence.hidden = !said.silent;
      silence.textContent = `Without sound, by a clock: ${said.silent}.`;
      if (!arrived(said, end, performance.now() - last)) await pause(20);
      else {
        end += 1;
        last = performance.now();
        if (end <= words.length) await show(words.slice(0, end), false, mine);
      }
    }
    if (mine !== turn) return;
    ended.checked = true;
    await show(words, true, mine);
    element.dataset.said = said.silent || "aloud";
    element.dataset.rests = "yes";
  }
  choice.onchange = () => { typed.value = meta.examples[Number(choice.value)].text; playAll(); };
  typed.oninput = () => { ended.checked = false; read(); };
  ended.onchange = read;
  patience.oninput = () => { ended.checked = false; read(); };
  play.onclick = playAll;
  typed.value = meta.examples[0].text;
  ended.checked = true;
  await read();
  tools.status.textContent = "The live model runs in your browser; nothing you type leaves it.";
});
