// Sound in, controls, sound out: what the packages sound_features, voice_transfer and harmonic_synth compute, in float64.
// A function without free names, so that it runs in a worker as it is.
"use strict";

function toneDsp() {
  const [RATE, HOP, WINDOW, SPAN, SPECTRUM] = [16000, 64, 1024, 2048, 512];
  const [LOW, HIGH, DIP, RANGE_DB, SURE, AUDIBLE, HUSHED] = [60, 1500, 0.15, 80, 0.7, 0.25, 0.25];
  const [SHORT_LAG, LONG_LAG] = [Math.trunc(RATE / HIGH), Math.ceil(RATE / LOW)];
  const [PARTIALS, BANDS, NOISE_BIAS, BEFORE] = [60, 65, -5, 576];

  // A Fourier transform in place, radix 2: of `size` complex numbers in two arrays.
  function fourier(size) {
    const turned = new Uint32Array(size);
    const bits = Math.log2(size);
    for (let n = 0; n < size; n += 1) {
      for (let bit = 0; bit < bits; bit += 1) turned[n] |= ((n >> bit) & 1) << (bits - 1 - bit);
    }
    const cos = Float64Array.from({ length: size / 2 }, (_, n) => Math.cos(2 * Math.PI * n / size));
    const sin = Float64Array.from({ length: size / 2 }, (_, n) => -Math.sin(2 * Math.PI * n / size));
    return (re, im) => {
      for (let n = 0; n < size; n += 1) {
        const m = turned[n];
        if (m <= n) continue;
        const x = re[n];
        const y = im[n];
        re[n] = re[m];
        im[n] = im[m];
        re[m] = x;
        im[m] = y;
      }
      for (let half = 1; half < size; half *= 2) {
        const step = size / (2 * half);
        for (let start = 0; start < size; start += 2 * half) {
          for (let j = 0; j < half; j += 1) {
            const a = start + j;
            const b = a + half;
            const w = j * step;
            const x = re[b] * cos[w] - im[b] * sin[w];
            const y = re[b] * sin[w] + im[b] * cos[w];
            re[b] = re[a] - x;
            im[b] = im[a] - y;
            re[a] += x;
            im[a] += y;
          }
        }
      }
    };
  }
  const hann = (size) => Float64Array.from({ length: size }, (_, n) => 0.5 - 0.5 * Math.cos(2 * Math.PI * n / size));
  const [long, short, window, wide] = [fourier(SPAN), fourier(SPECTRUM), hann(SPECTRUM), hann(SPAN)];
  const weights = Float64Array.from({ length: SPECTRUM / 2 + 1 }, (_, n) => {
    const f = (n * RATE / SPECTRUM) ** 2;
    const [a, b, c, d] = [20.598997, 107.65265, 737.86223, 12194.217].map((value) => value ** 2);
    return ((d * f * f) / ((f + a) * Math.sqrt((f + b) * (f + c)) * (f + d)) * 10 ** 0.1) ** 2;
  });

  // [f0, confidence] of one span by YIN; the sound and its window share one transform.
  const [re, im, pr, pi] = Array.from({ length: 4 }, () => new Float64Array(SPAN));
  const [squares, normal] = [new Float64Array(SPAN + 1), new Float64Array(LONG_LAG + 2)];
  function pitch(span) {
    let mean = 0;
    for (let n = 0; n < SPAN; n += 1) mean += span[n] / SPAN;
    for (let n = 0; n < SPAN; n += 1) {
      re[n] = span[n] - mean;
      im[n] = n < WINDOW ? re[n] : 0;
      squares[n + 1] = squares[n] + re[n] * re[n];
    }
    long(re, im);
    for (let k = 0; k < SPAN; k += 1) {
      const m = (SPAN - k) % SPAN; // X = (Z(k) + Z*(−k)) / 2, W = (Z(k) − Z*(−k)) / 2i
      const xr = (re[k] + re[m]) / 2;
      const xi = (im[k] - im[m]) / 2;
      const wr = (im[k] + im[m]) / 2;
      const wi = (re[m] - re[k]) / 2;
      pr[k] = xr * wr + xi * wi;
      pi[k] = xr * wi - xi * wr; // conjugated: the inverse by the same transform
    }
    long(pr, pi);
    let total = 0;
    normal[0] = 1;
    for (let lag = 1; lag <= LONG_LAG + 1; lag += 1) {
      const d = Math.max(0, squares[WINDOW] + squares[WINDOW + lag] - squares[lag] - 2 * pr[lag] / SPAN);
      total += d;
      normal[lag] = d * lag / Math.max(total, 1e-12);
    }
    let at = 0;
    let best = 9;
    for (let lag = SHORT_LAG; lag <= LONG_LAG; lag += 1) {
      if (!(normal[lag] <= normal[lag - 1] && normal[lag] < normal[lag + 1])) continue;
      if (normal[lag] < best) [at, best] = [lag, normal[lag]];
      if (normal[lag] < DIP) break;
    }
    at ||= SHORT_LAG;
    const [a, b, c] = [normal[at - 1], normal[at], normal[at + 1]];
    const bend = a - 2 * b + c;
    const shift = bend > 1e-12 ? Math.min(1, Math.max(-1, (a - c) / (2 * bend))) : 0;
    const sure = Math.min(1, Math.max(0, 1 - (b - (a - c) * shift / 4)));
    return [RATE / (at + shift), total < 1e-9 ? 0 : sure];
  }

  const [x, y, bins] = [new Float64Array(SPECTRUM), new Float64Array(SPECTRUM), new Float64Array(SPECTRUM / 2 + 1)];
  function power(span) {
    y.fill(0);
    const first = BEFORE - SPECTRUM / 2;
    for (let n = 0; n < SPECTRUM; n += 1) x[n] = span[first + n] * window[n];
    short(x, y);
    const scale = (4 / SPECTRUM) ** 2;
    for (let k = 0; k < bins.length; k += 1) bins[k] = (x[k] * x[k] + y[k] * y[k]) * scale;
  }

  // {f0, confidence, loudness, voiced} of a sound at 16 kHz, and why it cannot be played, where that is so.
  function features(sound) {
    const frames = Math.floor(sound.length / HOP);
    const found = { f0: new Float64Array(frames), confidence: new Float64Array(frames) };
    Object.assign(found, { loudness: new Float64Array(frames), voiced: new Uint8Array(frames) });
    const [padded, mean] = [new Float64Array(sound.length + SPAN), new Float64Array(SPECTRUM / 2 + 1)];
    padded.set(sound, BEFORE);
    let [audible, sung, looked, empty] = [0, 0, 0, 0];
    for (let t = 0; t < frames; t += 1) {
      const span = padded.subarray(t * HOP, t * HOP + SPAN);
      power(span);
      let loud = 0;
      for (let k = 0; k < bins.length; k += 1) {
        loud += bins[k] * weights[k];
        mean[k] += bins[k];
      }
      found.loudness[t] = Math.min(1, Math.max(0, 1 + 10 * Math.log10(Math.max(loud / 1.5, 1e-12)) / RANGE_DB));
      [found.f0[t], found.confidence[t]] = pitch(span);
      if (found.loudness[t] <= AUDIBLE) continue;
      audible += 1;
      if (found.confidence[t] <= SURE) continue;
      found.voiced[t] = 1;
      if (sung % 25 === 0) [looked, empty] = [looked + 1, empty + hollow(span, found.f0[t])];
      sung += 1;
    }
    found.refused = refused(frames, audible, sung, mean, empty > looked / 2);
    return found;
  }

  function refused(frames, audible, sung, mean, isHollow) {
    if (audible < 0.02 * frames) return "the sound is silent: check the microphone and its level";
    if (sung < 0.4 * audible) {
      const values = mean.map((value) => value / frames + 1e-12);
      const logs = values.reduce((sum, value) => sum + Math.log(value), 0) / values.length;
      const flat = Math.exp(logs) / (values.reduce((sum, value) => sum + value, 0) / values.length);
      if (flat > 0.1) return "the sound is noise: no pitch was found. Sing or hum one note at a time";
    }
    const power = (first, end) => mean.subarray(first, end).reduce((sum, value) => sum + value, 0);
    const width = RATE / SPECTRUM;
    if (power(2, Math.trunc(HIGH / width)) < 0.01 * power(2)) return "the sound is too high: notes from 60 to 1,500 Hz can be played";
    if (sung < 0.4 * audible) {
      return mean.indexOf(Math.max(...mean)) <= LOW / width ? "the sound is too low: notes from 60 to 1,500 Hz can be played"
        : "no single pitch was found: several notes at once, or a drum. One voice at a time is allowed";
    }
    return isHollow ? "several notes sound at once. One voice at a time is allowed" : "";
  }

  // Is the first partial missing, and three or more of the first seven? A chord whose common measure was taken for a note.
  function hollow(span, f0) {
    for (let n = 0; n < SPAN; n += 1) [re[n], im[n]] = [span[n] * wide[n], 0];
    long(re, im);
    const partials = Array.from({ length: 7 }, (_, k) => {
      const at = Math.round(f0 * (k + 1) * SPAN / RATE);
      let sum = 0;
      for (let bin = at - 2; bin <= at + 2; bin += 1) sum += re[Math.min(bin, SPAN / 2)] ** 2 + im[Math.min(bin, SPAN / 2)] ** 2;
      return sum;
    });
    const least = 1e-3 * Math.max(...partials);
    return partials[0] < least && partials.filter((one) => one < least).length >= 3 ? 1 : 0;
  }

  const midi = (f0) => 69 + 12 * Math.log2(Math.max(f0, 1e-3) / 440);

  // Whole octaves to the instrument's median pitch; mean and spread of loudness to its own.
  function shiftOf(found, place) {
    const sure = [...found.voiced.keys()].filter((t) => found.voiced[t]);
    if (!sure.length) throw new Error("no frame has a sure pitch: sing or hum one note at a time, nearer to the microphone");
    const notes = sure.map((t) => midi(found.f0[t])).sort((a, b) => a - b);
    const median = notes[Math.floor((notes.length - 1) / 2)];
    const mean = sure.reduce((sum, t) => sum + found.loudness[t], 0) / sure.length;
    const spread = Math.sqrt(sure.reduce((sum, t) => sum + (found.loudness[t] - mean) ** 2, 0) / sure.length);
    const gain = Math.min(2, place.spread / Math.max(spread, 1e-3));
    const inside = median >= place.low && median <= place.high; // then a voice keeps its octave
    return { octaves: inside ? 0 : Math.round((place.centre - median) / 12), gain, offset: place.loud - gain * mean };
  }

  // What the decoder is given: {f0 (T), x (T·2)}, pitch held and loudness hushed where there is no pitch.
  function moved(found, shift) {
    const frames = found.f0.length;
    const [f0, x] = [new Float32Array(frames), new Float32Array(2 * frames)];
    let last = 220;
    for (let t = 0; t < frames; t += 1) {
      if (found.voiced[t]) last = found.f0[t];
      f0[t] = last * 2 ** shift.octaves;
      const loud = found.loudness[t] > 0 ? found.loudness[t] * shift.gain + shift.offset - (found.voiced[t] ? 0 : HUSHED) : 0;
      x[2 * t] = midi(f0[t]) / 127;
      x[2 * t + 1] = Math.min(1, Math.max(0, loud));
    }
    return { f0, x };
  }

  const curve = (value) => 2 * (1 / (1 + Math.exp(-value))) ** Math.log(10) + 1e-7;
  const fadeOut = Float64Array.from({ length: HOP }, (_, j) => 0.5 + 0.5 * Math.cos(Math.PI * j / HOP));
  const taps = Array.from({ length: 2 * (BANDS - 1) }, (_, n) => {
    const length = 2 * (BANDS - 1);
    const angle = 2 * Math.PI * (n - length / 2) / length;
    const bell = (0.5 - 0.5 * Math.cos(2 * Math.PI * n / length)) / length;
    return Float64Array.from({ length: BANDS }, (_, k) => (k % (BANDS - 1) ? 2 : 1) * Math.cos(k * angle) * bell);
  });

  function noiseAt(number, seed) {
    let x = (number + Math.imul(seed, 0x9e3779b9)) >>> 0;
    x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
    x = Math.imul(x ^ (x >>> 15), 0x846ca68b);
    return Math.fround(((x ^ (x >>> 16)) >>> 0) / 2 ** 31 - 1);
  }

  // Partials (K) of a frame from a decoder's plain output: below Nyquist only, their sum the amplitude.
  function partialsOf(raw, at, f0) {
    const found = new Float64Array(PARTIALS);
    let sum = 0;
    for (let k = 0; k < PARTIALS; k += 1) {
      if (f0 * (k + 1) < RATE / 2) sum += found[k] = curve(raw[at + 1 + k]);
    }
    const amplitude = curve(raw[at]);
    return sum ? found.map((value) => amplitude * value / sum) : found;
  }

  // A synthesiser that takes frames in chunks of any length and carries phase, last frame, noise and its tail over.
  // `bank`, if given, makes the tones of a chunk from (frames, phase): WebGL. The phase is summed here, in float64, within one turn.
  function player(seed = 0, bank = null) {
    let [phase, before, frames] = [0, null, 0];
    const [ahead, filter] = [new Float64Array(2 * BANDS - 2 + HOP), new Float64Array(taps.length)];
    // The sound of the segment between two frames: one sine and one cosine a sample, the partials by their recurrence.
    function segment(a, b) {
      const sound = new Float64Array(HOP);
      const step = (b.f0 - a.f0) / HOP;
      const top = Math.max(a.f0, b.f0);
      const count = Math.min(PARTIALS, Math.ceil(RATE / 2 / top) - 1);
      for (let j = 0; j < HOP; j += 1) {
        const cycles = phase + (a.f0 * (j + 1) + step * j * (j + 1) / 2) / RATE;
        let now = Math.sin(2 * Math.PI * cycles);
        let past = 0;
        let value = 0;
        const twice = 2 * Math.cos(2 * Math.PI * cycles);
        const fall = fadeOut[j];
        for (let k = 0; k < count; k += 1) {
          value += (a.partials[k] * fall + b.partials[k] * (1 - fall)) * now;
          const next = twice * now - past;
          past = now;
          now = next;
        }
        sound[j] = value;
      }
      return sound;
    }
    const turned = (a, b) => (phase + (HOP * a.f0 + (b.f0 - a.f0) * (HOP - 1) / 2) / RATE) % 1;
    // The tones of all segments between frames, one after the other.
    function tones(frames) {
      const made = [];
      const whole = bank && frames.length > 1 ? bank(frames, phase) : null;
      for (let t = 1; t < frames.length; t += 1) {
        made.push(whole ? whole.subarray((t - 1) * HOP, t * HOP) : segment(frames[t - 1], frames[t]));
        phase = turned(frames[t - 1], frames[t]);
      }
      return made;
    }
    // Noise of one frame through its filter, added to what comes next; the middle of the filter is one hop late.
    function shaped(frame) {
      const length = taps.length;
      for (let tap = 0; tap < length; tap += 1) {
        filter[tap] = 0;
        for (let k = 0; k < BANDS; k += 1) filter[tap] += taps[tap][k] * frame.noise[k];
      }
      for (let j = 0; j < HOP; j += 1) {
        const white = noiseAt(frame.number * HOP + j, seed);
        for (let tap = 0; tap < length; tap += 1) ahead[j + tap] += white * filter[tap];
      }
      const ready = ahead.slice(0, HOP);
      ahead.copyWithin(0, HOP);
      ahead.fill(0, ahead.length - HOP);
      return ready;
    }
    function joined(tone, noise) {
      const sound = new Float32Array(HOP);
      for (let j = 0; j < HOP; j += 1) sound[j] = tone[j] + noise[j];
      return sound;
    }
    function push(f0, raw) {
      const [driven, noises, width] = [before ? [before] : [], [], 1 + PARTIALS + BANDS];
      for (let t = 0; t < f0.length; t += 1) {
        const noise = Float64Array.from({ length: BANDS }, (_, k) => curve(raw[t * width + 1 + PARTIALS + k] + NOISE_BIAS));
        const frame = { f0: f0[t], partials: partialsOf(raw, t * width, f0[t]), noise, number: frames };
        noises.push(shaped(frame));
        driven.push(frame);
        frames += 1;
      }
      if (!before) noises.shift(); // the noise's filter is one hop late
      before = driven.at(-1) ?? null;
      return tones(driven).map((tone, t) => joined(tone, noises[t]));
    }
    const finish = () => (before ? tones([before, before]).map((tone) => joined(tone, ahead.slice(0, HOP))) : []);
    return { push, finish };
  }
  return { features, shiftOf, moved, player, noiseAt, partialsOf, RATE, HOP, PARTIALS, BANDS };
}
globalThis.toneDsp = toneDsp;
