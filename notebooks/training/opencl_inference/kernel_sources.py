"""The OpenCL text of a sum and of one convolution in six forms and three precisions.

Each work item makes one point of one output slice (of one output channel in the naive forms):

- `naive`, `naive_depthwise`: plain (channels, height, width), one number at a time, before any
  of the delegate's ideas;
- `sliced`: four channels at once, weights padded on both sides;
- `constant`, `dot`: as `sliced`, weights in constant memory in one of the two forms of
  `layout.constant_bytes`, each padded on one side only;
- `depthwise`: a filter for each channel, four at once.

Precisions: `float32`; `mixed` stores halves, by functions that every OpenCL has (`vload_half4`,
`vstore_half4_rte`), and sums floats; `float16` also sums halves, for which a device needs
`cl_khr_fp16`.

With `fused` the clamp to [0, 6] is the last line of the convolution; without it `CLAMP` is a
kernel of its own that reads and writes the whole tensor again. Written as two comparisons it
keeps NaN, as PyTorch's does; OpenCL's own `clamp` may answer 0 or 6 there.

Where we differ: the delegate's kernel with constant weights makes all slices of a point in one
item (hence its limit of eight), and its mixed precision multiplies halves and adds floats.
"""

FORMS = ("naive", "naive_depthwise", "sliced", "constant", "dot", "depthwise")
PLAIN = FORMS[:2]  # these read and write plain (channels, height, width)
PRECISIONS = ("float32", "mixed", "float16")

_FLOAT = """
#define STORED float
#define SUM float
#define SUM4 float4
#define LOAD1(i, p) ((p)[i])
#define STORE1(v, i, p) ((p)[i] = (v))
#define LOAD4 vload4
#define STORE4 vstore4
"""
_MIXED = """
#define STORED half
#define SUM float
#define SUM4 float4
#define LOAD1 vload_half
#define STORE1 vstore_half_rte
#define LOAD4 vload_half4
#define STORE4 vstore_half4_rte
"""
_HALF = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable" + _FLOAT.replace("float", "half")
_PRELUDES = {"float32": _FLOAT, "mixed": _MIXED, "float16": _HALF}

_SHELL = """
#define CLAMPED(v) ((v) < (SUM)0 ? (SUM)0 : (v) > (SUM)6 ? (SUM)6 : (v))
__kernel void conv(__global const STORED *image, SPACE const STORED *weights,
                   __global const STORED *bias, __global STORED *out, int4 in_size,
                   int4 out_size, int4 task) {
  int x = get_global_id(0), y = get_global_id(1), s = get_global_id(2);
  if (x >= out_size.x || y >= out_size.y || s >= out_size.z) return;
  int sides_y = task.x, sides_x = task.y, stride = task.z, pad = task.w;
  int inputs = in_size.w, outputs = out_size.w;
  START
  for (int ky = 0; ky < sides_y; ky++) {
    int from_y = y * stride + ky - pad;
    if (from_y < 0 || from_y >= in_size.y) continue;
    for (int kx = 0; kx < sides_x; kx++) {
      int from_x = x * stride + kx - pad;
      if (from_x < 0 || from_x >= in_size.x) continue;
      int tap = ky * sides_x + kx, taps = sides_y * sides_x;
      INNER
    }
  }
  int place = (s * out_size.y + y) * out_size.x + x;
  END
}
"""
_APART = """
__kernel void clamp6(__global STORED *out) {
  int i = get_global_id(0);
  SUM4 v = LOAD4(i, out);
  STORE4(CLAMPED(v), i, out);
}
__kernel void add(__global const STORED *a, __global const STORED *b, __global STORED *out) {
  int i = get_global_id(0);
  STORE4(LOAD4(i, a) + LOAD4(i, b), i, out);
}
"""
_READ = "SUM4 v = LOAD4((i * in_size.y + from_y) * in_size.x + from_x, image);"
_SLICED = f"""for (int i = 0; i < in_size.z; i++) {{
        {_READ}
        int w = ((s * taps + tap) * in_size.z + i) * 4;
        sum += v.x * LOAD4(w, weights) + v.y * LOAD4(w + 1, weights)
             + v.z * LOAD4(w + 2, weights) + v.w * LOAD4(w + 3, weights);
      }}"""
_CONSTANT = f"""for (int i = 0; i < in_size.z; i++) {{
        {_READ}
        SUM lanes[4] = {{v.x, v.y, v.z, v.w}};
        int left = min(4, inputs - i * 4);
        for (int c = 0; c < left; c++)
          sum += lanes[c] * LOAD4((s * taps + tap) * inputs + i * 4 + c, weights);
      }}"""
_DOT = f"""for (int i = 0; i < in_size.z; i++) {{
        {_READ}
        int left = min(4, outputs - s * 4);
        for (int o = 0; o < left; o++)
          lanes[o] += dot(v, LOAD4(((s * 4 + o) * taps + tap) * in_size.z + i, weights));
      }}"""
_DEPTHWISE = f"int i = s; {_READ} sum += v * LOAD4(s * taps + tap, weights);"
_NAIVE = """for (int i = 0; i < inputs; i++)
        sum += LOAD1((i * in_size.y + from_y) * in_size.x + from_x, image)
             * LOAD1((s * inputs + i) * taps + tap, weights);"""

_NAIVE_DEPTHWISE = """sum += LOAD1((s * in_size.y + from_y) * in_size.x + from_x, image)
             * LOAD1(s * taps + tap, weights);"""

_START = "SUM4 sum = LOAD4(s, bias);"
_LANES = f"{_START} SUM lanes[4] = {{sum.x, sum.y, sum.z, sum.w}};"
_ALONE = "SUM sum = LOAD1(s, bias);"
_STARTS = {"naive": _ALONE, "naive_depthwise": _ALONE, "dot": _LANES}
_INNERS = {
    "naive": _NAIVE,
    "naive_depthwise": _NAIVE_DEPTHWISE,
    "sliced": _SLICED,
    "constant": _CONSTANT,
    "dot": _DOT,
    "depthwise": _DEPTHWISE,
}


def source(form, precision, fused):
    """The text of a program with kernels `conv`, `clamp6` and `add`, for OpenCL C 1.2.

        "vload_half4" in source("sliced", "mixed", fused=True)    # True

    Raises ValueError for an unknown form or precision.
    """
    checked(form, precision)
    result = "(SUM4)(lanes[0], lanes[1], lanes[2], lanes[3])" if form == "dot" else "sum"
    store = "STORE1" if form in PLAIN else "STORE4"
    end = f"{store}({f'CLAMPED({result})' if fused else result}, place, out);"
    space = "__constant" if form in ("constant", "dot") else "__global"
    parts = {
        "SPACE": space,
        "START": _STARTS.get(form, _START),
        "INNER": _INNERS[form],
        "END": end,
    }
    shell = _SHELL
    for name, text in parts.items():
        shell = shell.replace(name, text)
    return _PRELUDES[precision] + shell + _APART


def checked(form, precision):
    """None. Raises ValueError for an unknown form or precision."""
    if form not in FORMS:
        raise ValueError(f"form is {form!r}; one of {', '.join(FORMS)} is allowed")
    if precision not in PRECISIONS:
        raise ValueError(
            f"precision is {precision!r}; one of {', '.join(PRECISIONS)} is allowed"
        )
