// The chapter's live model: record, open a file, or take the built-in voice, and hear an instrument. Nothing leaves the page:
// no address is asked, and sound lives in this page's memory alone.
"use strict";

globalThis.rebuiltLive?.start("tone", async (element, tools) => {
  // From here on this page opens no connection: the browser itself refuses, to the worker, too.
  const policy = { httpEquiv: "Content-Security-Policy", content: "connect-src blob: data:" };
  document.head.append(Object.assign(document.createElement("meta"), policy));
  const meta = JSON.parse(await tools.text(tools.model, "meta.json"));
  const [dsp, webgl] = await Promise.all(["tone_dsp.js", "tone_gl.js"].map((file) => tools.text(tools.model, file)));
  const RATE = 16000;

  const worker = await tools.onnxWorker(tools.runtime, `function () { ${dsp}\n${webgl}\n(${function work() {
    const tone = toneDsp();
    const sessions = {};
    const CHUNK = 250; // frames: a second at a time, state carried over
    async function plain(name, x, first) {
      const session = sessions[name];
      const frames = x.length / 2;
      const feeds = { x: new ort.Tensor("float32", x, [1, frames, 2]), ...first };
      const found = await session.run(feeds);
      const state = {};
      for (const key of session.inputNames) if (key !== "x") state[key] = found[`${key}_next`];
      return [found.raw.data, state];
    }
    // A sound becomes an instrument: what comes back is ready to play, and the times in ms.
    let gl = null;
    const how = { scan: "parallel", free: true, fused: true, store: "float16" }; // the article's: summed in float32 within a turn, stored in float16
    function bank(frames, start) {
      gl ??= toneGl();
      const partials = new Float32Array(frames.length * tone.PARTIALS);
      frames.forEach((frame, t) => partials.set(frame.partials, t * tone.PARTIALS));
      return gl.render({ f0: Float32Array.from(frames, (frame) => frame.f0), partials, hop: tone.HOP, rate: tone.RATE, how, start }).sound;
    }
    async function play({ name, sound, place, states, webgl, seed = 0 }) {
      const begun = performance.now();
      const found = tone.features(sound);
      if (found.refused) throw new Error(found.refused);
      const shift = tone.shiftOf(found, place);
      const { f0, x } = tone.moved(found, shift);
      const player = tone.player(seed, webgl ? bank : null);
      const pieces = [];
      let state = {};
      for (const [key, shape] of Object.entries(states)) state[key] = new ort.Tensor("float32", new Float32Array(shape[1] * shape[2]), shape);
      for (let at = 0; at < f0.length; at += CHUNK) {
        const [raw, next] = await plain(name, x.slice(2 * at, 2 * (at + CHUNK)), state);
        state = next;
        pieces.push(...player.push(f0.subarray(at, at + CHUNK), raw));
      }
      pieces.push(...player.finish());
      const made = new Float32Array(pieces.length * tone.HOP);
      pieces.forEach((piece, n) => made.set(piece, n * tone.HOP));
      return { sound: made, ms: performance.now() - begun, shift, f0: found.f0, voiced: found.voiced, loudness: found.loudness };
    }
    // The oscillator bank by WebGL in all its ways, on one second of a tone; null where a browser has none.
    function measure({ frames }) {
      try { gl ??= toneGl(); } catch (error) { return { lacking: error.message }; }
      const f0 = Float32Array.from({ length: frames + 1 }, (_, t) => 220 * (1 + 0.02 * Math.sin(2 * Math.PI * 5.5 * t / 250)));
      const partials = Float32Array.from({ length: (frames + 1) * 60 }, (_, n) => 0.3 / (1 + n % 60));
      const base = { f0, partials, hop: 64, rate: 16000 };
      const ways = {
        plain: { scan: "naive" }, scan: { scan: "parallel" }, freed: { scan: "parallel", free: true }, fused: { scan: "parallel", free: true, fused: true },
        phaseNaive: { scan: "naive", only: "phase" }, phaseScan: { scan: "parallel", only: "phase" },
      };
      const found = {};
      for (const [name, how] of Object.entries(ways)) {
        gl.render({ ...base, how });
        const runs = [0, 1, 2].map(() => gl.render({ ...base, how }));
        found[name] = { ms: Math.min(...runs.map((run) => run.ms)), peak: runs[0].peak };
      }
      return found;
    }
    addEventListener("message", async ({ data }) => {
      try {
        let answer = {};
        if (data.model) sessions[data.name] = await ort.InferenceSession.create(data.model, { executionProviders: ["wasm"] });
        else if (data.frames) answer = measure(data);
        else answer = await play(data);
        postMessage({ id: data.id, answer });
      } catch (error) {
        postMessage({ id: data.id, error: String(error.message || error) });
      }
    });
  }})(); }`);
  const waiting = new Map();
  let asked = 0;
  worker.onmessage = ({ data }) => {
    const { resolve, reject } = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.error) reject(new Error(data.error));
    else resolve(data.answer);
  };
  const ask = (message) => new Promise((resolve, reject) => {
    asked += 1;
    waiting.set(asked, { resolve, reject });
    worker.postMessage({ ...message, id: asked });
  });
  for (const name of Object.keys(meta.instruments)) {
    await ask({ name, model: await tools.bytes(tools.model, `${name}.onnx`) });
  }
  const turn = (name, sound, webgl = false) => ask({ name, sound, webgl, place: meta.instruments[name], states: meta.states });

  // Does this browser make the sound that PyTorch made? The largest difference over the built-in voice.
  const int16 = async (file) => Float32Array.from(new Int16Array((await tools.bytes(tools.model, file)).buffer), (value) => value / 32768);
  const voice = await int16("voice.i16");
  const wanted = new Float32Array((await tools.bytes(tools.model, "wanted.f32")).buffer);
  const loudest = (sound, least = 1e-3) => sound.reduce((most, value) => Math.max(most, Math.abs(value)), least);
  const off = (sound) => loudest(wanted.map((value, n) => value - sound[n]), 0) / loudest(wanted);

  const make = (name, properties = {}, children = []) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const choice = make("select", { id: "tone-instrument" }, Object.keys(meta.instruments).map((name) => new Option(meta.instruments[name].title, name)));
  const engine = make("select", { id: "tone-engine" }, [new Option("JavaScript, float64", ""), new Option("WebGL, phases stored in float16", "webgl")]);
  const example = make("button", { type: "button", textContent: "Play the built-in voice as this instrument" });
  const record = make("button", { type: "button", textContent: "Sing: record up to 10 s" });
  const file = make("input", { type: "file", accept: "audio/*", id: "tone-file" });
  const picture = make("canvas", { width: 680, height: 180, className: "tone-picture" });
  picture.setAttribute("role", "img");
  const told = make("p", { className: "tone-told" });
  told.setAttribute("role", "status");
  const players = ["Before", "After"].map((name) => {
    const audio = make("audio", { controls: true });
    audio.setAttribute("aria-label", name === "Before" ? "The voice" : "The instrument");
    return [name, audio];
  });
  const meter = make("button", { type: "button", textContent: "Measure WebGL here: prefix sum and textures" });
  const table = make("p", { className: "tone-table" });
  element.append(make("section", { className: "tone-app" }, [
    make("div", { className: "tone-field" }, [make("label", { htmlFor: choice.id, textContent: "Instrument" }), choice]),
    make("div", { className: "tone-field" }, [make("label", { htmlFor: engine.id, textContent: "Oscillators" }), engine]),
    make("div", { className: "tone-row" }, [example, record]),
    make("div", { className: "tone-field" }, [make("label", { htmlFor: file.id, textContent: "Or open a sound file; it stays in this page" }), file]),
    told, picture,
    make("div", { className: "tone-row" }, players.map(([name, audio]) => make("label", { textContent: name }, [audio]))),
    meter, table,
  ]));

  function wave(sound) {
    const bytes = new DataView(new ArrayBuffer(44 + 2 * sound.length));
    const write = (at, text) => [...text].forEach((sign, n) => bytes.setUint8(at + n, sign.charCodeAt(0)));
    write(0, "RIFF");
    bytes.setUint32(4, 36 + 2 * sound.length, true);
    write(8, "WAVEfmt ");
    [[16, 16, 4], [20, 1, 2], [22, 1, 2], [24, RATE, 4], [28, 2 * RATE, 4], [32, 2, 2], [34, 16, 2], [40, 2 * sound.length, 4]]
      .forEach(([at, value, size]) => (size === 4 ? bytes.setUint32(at, value, true) : bytes.setUint16(at, value, true)));
    write(36, "data");
    sound.forEach((value, n) => bytes.setInt16(44 + 2 * n, 32767 * Math.max(-1, Math.min(1, value)), true));
    return URL.createObjectURL(new Blob([bytes.buffer], { type: "audio/wav" }));
  }
  function draw(found) {
    const at = picture.getContext("2d");
    const ink = getComputedStyle(element).color;
    at.clearRect(0, 0, picture.width, picture.height);
    Object.assign(at, { strokeStyle: ink, fillStyle: ink, font: "14px sans-serif" });
    at.globalAlpha = 0.3;
    found.loudness.forEach((value, t) => at.fillRect(t * picture.width / found.f0.length, picture.height * (1 - value * 0.6), 1, picture.height));
    at.globalAlpha = 1;
    found.f0.forEach((value, t) => {
      if (found.voiced[t]) at.fillRect(t * picture.width / found.f0.length, picture.height * (1 - Math.log2(value / 60) / 5), 2, 2);
    });
    picture.setAttribute("aria-label", `Pitch as dots and loudness as shade of ${(found.f0.length / 250).toFixed(1)} seconds.`);
  }
  let source = [voice, []];
  let mine = 0;
  async function show() {
    const turnOf = (mine += 1);
    const [sound, remarks] = source;
    element.dataset.rests = "no";
    told.textContent = "Listening …";
    try {
      const found = await turn(choice.value, sound, Boolean(engine.value));
      if (turnOf !== mine) return;
      players.forEach(([, audio]) => URL.revokeObjectURL(audio.src));
      players[0][1].src = wave(sound);
      const gain = 0.7 / loudest(found.sound);
      players[1][1].src = wave(found.sound.map((value) => gain * value));
      draw(found);
      const octaves = found.shift.octaves;
      const moved = octaves ? `${Math.abs(octaves)} octave${Math.abs(octaves) > 1 ? "s" : ""} ${octaves > 0 ? "up" : "down"}` : "in its octave";
      const factor = 1000 * sound.length / RATE / found.ms;
      const said = [`${(sound.length / RATE).toFixed(1)} s of sound became a ${choice.value}, ${moved}, in ${found.ms.toFixed(0)} ms: ${factor.toFixed(0)} times real time.`, ...remarks];
      if (sound === voice && choice.value === meta.checked) {
        element.dataset.worst = String(off(found.sound));
        said.push(`No sample is further from PyTorch's sound than ${(20 * Math.log10(off(found.sound))).toFixed(0)} dB of the loudest.`);
      }
      told.textContent = said.join(" ");
      element.dataset.made = String(loudest(found.sound));
      element.dataset.last = String(factor);
    } catch (error) {
      if (turnOf !== mine) return;
      told.textContent = `This cannot be played: ${error.message}.`;
      delete element.dataset.made;
    }
    element.dataset.rests = "yes";
  }
  // One channel at 16 kHz, and what was done to it; an error says why it cannot be.
  async function decoded(bytes) {
    const longest = Number(element.dataset.longest || 30); // seconds
    if (bytes.byteLength > 2e8) throw new Error("the file has more than 200 MB: cut it to the half minute that is played");
    const rates = rateOf(bytes);
    const context = new OfflineAudioContext(1, 1, rates >= 4000 && rates <= 96000 ? rates : 48000); // its own rate: nothing is smeared
    let audio;
    try { audio = await context.decodeAudioData(bytes); } catch { throw new Error("this file is no sound that can be read; WAV, FLAC, OGG or MP3 are"); }
    const channels = Array.from({ length: audio.numberOfChannels }, (_, n) => audio.getChannelData(n).subarray(0, longest * audio.sampleRate));
    if (!channels.every((one) => one.every(Number.isFinite))) throw new Error("the sound holds NaN or infinity; finite samples are allowed");
    if (audio.duration < 0.5) throw new Error(`the sound is ${audio.duration.toFixed(2)} s long; at least 0.5 s are needed`);
    const remarks = [];
    if (audio.duration > longest) remarks.push(`The sound is ${audio.duration.toFixed(0)} s long: its first ${longest} s are used.`);
    const power = (one) => one.reduce((sum, value) => sum + value * value, 0);
    const mixed = channels[0].map((_, n) => channels.reduce((sum, one) => sum + one[n], 0) / channels.length);
    const strongest = channels.reduce((best, one) => (power(one) > power(best) ? one : best));
    const lost = power(mixed) < 0.01 * power(strongest);
    if (lost) remarks.push("The channels cancel each other: the loudest one is used.");
    else if (channels.length > 1) remarks.push(`${channels.length} channels were mixed into one.`);
    if (!rates) remarks.push("Resampled to 16,000 Hz, where the file's rate is another.");
    else if (rates !== RATE) {
      remarks.push(`Resampled from ${rates.toLocaleString("en")} to 16,000 Hz.${rates <= 8000 ? " What lies above 4 kHz is not in it." : ""}`);
    }
    const whole = new OfflineAudioContext(1, Math.floor(Math.min(audio.duration, longest) * RATE), RATE);
    const node = whole.createBufferSource();
    const single = whole.createBuffer(1, mixed.length, audio.sampleRate);
    single.copyToChannel(lost ? strongest : mixed, 0);
    node.buffer = single;
    node.connect(whole.destination);
    node.start();
    const cut = channels.some((one) => {
      const highest = loudest(one);
      return highest > 0.02 && one.reduce((sum, value, n) => sum + (Math.abs(value) >= 0.999 * highest && value === one[n - 1] && value === one[n - 2]), 0) > 0.002 * one.length;
    });
    if (cut) remarks.push("The sound is clipped: its pitch holds, its loudness is squeezed. Record it at a lower level.");
    return [(await whole.startRendering()).getChannelData(0), remarks];
  }
  // The rate that a WAV, FLAC or Ogg Vorbis file names, else 0: the browser itself tells only the rate that it resampled to.
  function rateOf(bytes) {
    const head = new DataView(bytes, 0, Math.min(bytes.byteLength, 4096));
    const word = (at) => (at + 4 <= head.byteLength ? String.fromCharCode(...[0, 1, 2, 3].map((n) => head.getUint8(at + n))) : "");
    if (word(0) === "fLaC" && head.byteLength > 21) return head.getUint32(18) >>> 12;
    if (word(0) === "OggS" && word(29) === "vorb" && head.byteLength > 44) return head.getUint32(40, true);
    for (let at = 12; word(0) === "RIFF" && word(at); at += 8 + head.getUint32(at + 4, true)) {
      if (word(at) === "fmt " && at + 16 <= head.byteLength) return head.getUint32(at + 12, true);
      if (at + 8 > head.byteLength) break;
    }
    return 0;
  }
  async function take(bytes) {
    try { source = await decoded(bytes); } catch (error) {
      mine += 1;
      told.textContent = `This cannot be played: ${error.message}.`;
      delete element.dataset.made;
      element.dataset.rests = "yes";
      return;
    }
    await show();
  }
  example.onclick = () => { source = [voice, []]; return show(); };
  choice.onchange = show;
  engine.onchange = show;
  file.onchange = async () => { if (file.files[0]) await take(await file.files[0].arrayBuffer()); };
  let stop = null;
  record.onclick = async () => {
    if (stop) return stop();
    let stream = null;
    stop = () => {}; // a second click before the microphone answers starts no second recorder
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: false } });
      const recorder = new MediaRecorder(stream);
      const parts = [];
      recorder.ondataavailable = ({ data }) => parts.push(data);
      recorder.onstop = async () => {
        stream.getTracks().forEach((track) => track.stop());
        record.textContent = "Sing: record up to 10 s";
        stop = null;
        await take(await new Blob(parts).arrayBuffer());
      };
      stop = () => recorder.state === "recording" && recorder.stop();
      recorder.start();
      setTimeout(stop, 10_000);
      record.textContent = "Stop";
      told.textContent = "Sing one note at a time. What you sing stays in this page.";
    } catch (error) {
      stream?.getTracks().forEach((track) => track.stop());
      stop = null;
      told.textContent = `No microphone: ${error.message || error}. Play the built-in voice, or open a file.`;
    }
  };
  meter.onclick = async () => {
    const found = await ask({ frames: 250 });
    if (found.lacking) table.textContent = `Not here: ${found.lacking}.`;
    else {
      const saved = (before, after) => `${Math.round(100 * (1 - after / before))} %`;
      table.textContent = `One second of sound by WebGL. Phases: ${found.phaseNaive.ms.toFixed(1)} ms by the plain sum, ${found.phaseScan.ms.toFixed(1)} ms by the parallel one, ${saved(found.phaseNaive.ms, found.phaseScan.ms)} less; the whole sound ${found.plain.ms.toFixed(1)} and ${found.scan.ms.toFixed(1)} ms, ${saved(found.plain.ms, found.scan.ms)} less. Textures: ${(found.scan.peak / 1e6).toFixed(1)} MB at the peak, ${(found.freed.peak / 1e6).toFixed(1)} MB when freed early, ${saved(found.scan.peak, found.freed.peak)} less; ${(found.fused.peak / 1e6).toFixed(1)} MB and ${found.fused.ms.toFixed(1)} ms as one shader.`;
      element.dataset.webgl = JSON.stringify(found);
    }
  };
  await show();
  tools.status.textContent = "The live model runs in your browser. Nothing you sing leaves this page.";
});
