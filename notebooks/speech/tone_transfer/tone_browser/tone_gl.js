// The oscillator bank on a graphics card by WebGL 2: one pass an operation, as tensor libraries run it, and in one pass.
// It shows what the article's two fixes are worth: a parallel prefix sum, and textures freed as soon as nobody needs them.
// Phases are in cycles. A function without free names. It throws where the browser has no floating-point textures.
"use strict";

function toneGl() {
  const canvas = typeof OffscreenCanvas === "function" ? new OffscreenCanvas(1, 1) : document.createElement("canvas");
  const gl = canvas.getContext("webgl2");
  if (!gl || !gl.getExtension("EXT_color_buffer_float")) throw new Error("no WebGL 2 with floating-point textures here");
  const WIDTH = 1024; // samples or packs of four partials in a texture's row
  const FORMATS = { r32: [gl.R32F, gl.RED, 4], r16: [gl.R16F, gl.RED, 2], rgba: [gl.RGBA32F, gl.RGBA, 16] };
  const HEAD = `#version 300 es
    precision highp float; precision highp sampler2D; precision highp int;
    out vec4 made;
    uniform int count, hop, packs, reach; uniform float rate, start; uniform sampler2D a, b, c;
    int at() { return int(gl_FragCoord.y) * ${WIDTH} + int(gl_FragCoord.x); }
    vec4 get(sampler2D from, int n) { return texelFetch(from, ivec2(n % ${WIDTH}, n / ${WIDTH}), 0); }
    float fade(int n) { return 0.5 + 0.5 * cos(3.14159265358979 * float(n % hop) / float(hop)); }
    float pitch(int n) { float f = get(a, n / hop).r; return f + (get(a, n / hop + 1).r - f) * float(n % hop) / float(hop); }
    vec4 numbers(int pack) { return vec4(1, 2, 3, 4) + 4.0 * float(pack); }
    void main() { int n = at(); int s = n / packs; int pack = n % packs; `;
  // a: pitch of frames (b: partials of frames, packed by four). Each body writes `made` for one texel.
  const BODIES = {
    step: "made = vec4(pitch(n) / rate + (n == 0 ? start : 0.0));", // the phase before it all goes into the sum, not into a frequency
    naive: "float sum = 0.0; for (int i = 0; i <= n && i < count; i++) sum += get(a, i).r; made = vec4(fract(sum));",
    scan: "float x = get(a, n).r; made = vec4(n < reach ? x : fract(x + get(a, n - reach).r));",
    store: "made = vec4(fract(get(a, n).r));",
    frequency: "made = pitch(s) * numbers(pack);",
    below: "made = vec4(lessThan(get(a, n), vec4(rate / 2.0)));",
    envelope: "int t = s / hop; float w = fade(s); made = get(b, t * packs + pack) * w + get(b, (t + 1) * packs + pack) * (1.0 - w);",
    masked: "made = get(a, n) * get(b, n);",
    angle: "made = fract(get(a, s).r * numbers(pack)) * 6.28318530717959;",
    sine: "made = sin(get(a, n));",
    sum: "float total = 0.0; for (int p = 0; p < packs; p++) total += dot(get(a, n * packs + p), vec4(1)); made = vec4(total);",
    fused: `int t = n / hop; float w = fade(n); float phase = get(a, n).r; float top = max(get(c, t).r, get(c, t + 1).r); float total = 0.0;
      for (int p = 0; p < packs; p++) { vec4 k = numbers(p);
        vec4 e = get(b, t * packs + p) * w + get(b, (t + 1) * packs + p) * (1.0 - w);
        total += dot(e * vec4(lessThan(top * k, vec4(rate / 2.0))), sin(fract(phase * k) * 6.28318530717959)); }
      made = vec4(total);`,
  };
  const programs = {};
  function program(name) {
    if (programs[name]) return programs[name];
    const made = gl.createProgram();
    const corners = "#version 300 es\nvoid main() { gl_Position = vec4(vec2(gl_VertexID % 2, gl_VertexID / 2) * 4.0 - 1.0, 0, 1); }";
    for (const [kind, text] of [[gl.VERTEX_SHADER, corners], [gl.FRAGMENT_SHADER, `${HEAD}${BODIES[name]} }`]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(made, shader);
    }
    gl.linkProgram(made);
    if (!gl.getProgramParameter(made, gl.LINK_STATUS)) throw new Error(`shader ${name}: ${gl.getProgramInfoLog(made)}`);
    return (programs[name] = made);
  }

  // Sound of (frames − 1) · hop samples from f0 (frames), partials (frames · K, K a multiple of 4) and the phase before them, in cycles.
  // how: {scan: "parallel" or "naive", free: early disposal, store: "float32" or "float16", fused}. Comes back with the time and the peak of texture bytes.
  function render({ f0, partials, hop, rate, how, start = 0 }) {
    const [samples, packs] = [(f0.length - 1) * hop, partials.length / f0.length / 4];
    let [live, peak, passes] = [0, 0, 0];
    const alive = new Set();
    function texture(format, size, values = null) {
      const [inner, outer, bytes] = FORMATS[format];
      const made = { handle: gl.createTexture(), height: Math.max(1, Math.ceil(size / WIDTH)) };
      made.bytes = made.height * WIDTH * bytes;
      gl.bindTexture(gl.TEXTURE_2D, made.handle);
      let padded = null;
      if (values) (padded = new Float32Array(made.height * WIDTH * (bytes / 4))).set(values);
      gl.texImage2D(gl.TEXTURE_2D, 0, inner, WIDTH, made.height, 0, outer, format === "r16" ? gl.HALF_FLOAT : gl.FLOAT, padded);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
      alive.add(made);
      live += made.bytes;
      peak = Math.max(peak, live);
      return made;
    }
    function drop(...gone) {
      for (const one of gone) {
        if (!alive.delete(one)) continue;
        gl.deleteTexture(one.handle);
        live -= one.bytes;
      }
    }
    const free = (...gone) => { if (how.free) drop(...gone); };
    const frame = gl.createFramebuffer();
    function pass(name, inputs, size, format = "r32", more = {}) {
      const made = texture(format, size);
      const run = program(name);
      gl.useProgram(run);
      gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
      gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, made.handle, 0);
      gl.viewport(0, 0, WIDTH, made.height);
      inputs.forEach((one, unit) => {
        gl.activeTexture(gl.TEXTURE0 + unit);
        gl.bindTexture(gl.TEXTURE_2D, one.handle);
        gl.uniform1i(gl.getUniformLocation(run, "abc"[unit]), unit);
      });
      gl.activeTexture(gl.TEXTURE7);
      for (const [key, value] of Object.entries({ count: samples, hop, packs, ...more })) gl.uniform1i(gl.getUniformLocation(run, key), value);
      gl.uniform1f(gl.getUniformLocation(run, "rate"), rate);
      gl.uniform1f(gl.getUniformLocation(run, "start"), start);
      gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
      passes += 1;
      return made;
    }
    function phases(steps) {
      if (how.scan === "naive") return pass("naive", [steps], samples);
      let now = steps;
      for (let reach = 1; reach < samples; reach *= 2) {
        const next = pass("scan", [now], samples, "r32", { reach });
        if (now !== steps) free(now);
        now = next;
      }
      return now;
    }
    function bank(steps, phase, tones) {
      const size = samples * packs;
      free(steps);
      const frequency = pass("frequency", [pitch], size, "rgba");
      const below = pass("below", [frequency], size, "rgba");
      free(frequency);
      const envelope = pass("envelope", [pitch, tones], size, "rgba");
      const masked = pass("masked", [below, envelope], size, "rgba");
      free(below, envelope);
      const angle = pass("angle", [phase], size, "rgba");
      free(phase);
      const sine = pass("sine", [angle], size, "rgba");
      free(angle);
      const product = pass("masked", [masked, sine], size, "rgba");
      free(masked, sine);
      return pass("sum", [product], samples);
    }
    const pitch = texture("r32", f0.length, f0);
    const tones = texture("rgba", f0.length * packs, partials);
    const sound = new Float32Array(Math.ceil(samples / WIDTH) * WIDTH * 4);
    const read = (from) => {
      gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
      gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, from.handle, 0);
      gl.readPixels(0, 0, WIDTH, from.height, gl.RGBA, gl.FLOAT, sound);
    };
    gl.finish();
    const begun = performance.now();
    const steps = pass("step", [pitch], samples);
    let phase = phases(steps);
    if (how.store === "float16") {
      const wide = phase;
      phase = pass("store", [wide], samples, "r16");
      free(wide);
    }
    if (how.only === "phase") read(phase);
    else read(how.fused ? pass("fused", [phase, tones, pitch], samples) : bank(steps, phase, tones));
    const ms = performance.now() - begun;
    drop(...alive);
    gl.deleteFramebuffer(frame);
    const error = gl.getError();
    if (error) throw new Error(`WebGL says ${error}`);
    return { sound: Float32Array.from({ length: samples }, (_, n) => sound[4 * n]), ms, peak, passes };
  }
  return { render };
}
globalThis.toneGl = toneGl;
