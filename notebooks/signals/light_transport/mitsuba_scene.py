"""Our diffuse scenes as Mitsuba 3 scenes, rendered there with the settings under which the two
must agree.

Matched: a box filter, the independent sampler, roulette off, flat lamps that shine to one side,
and depth: Mitsuba's `max_depth` counts segments, one more than scatterings. Mitsuba is imported
where it is used: it lives in an environment of its own. Source: Mitsuba 3.9.1's documentation
of `path`, `rectangle`, `diffuse`, `area` and `perspective`.
"""

import glob
import os

import numpy as np

VARIANTS = ("scalar_rgb", "llvm_ad_rgb")
NEVER = 100_000  # the depth from which Mitsuba plays roulette


def find_llvm():
    """The path of LLVM 19's library, or None; older ones (14 to 16) fail in Dr.Jit.
    `DRJIT_LIBLLVM_PATH` is kept where it is set.
    """
    found = sorted(
        glob.glob("/usr/lib/*/libLLVM*19*.so*") + glob.glob("/usr/lib/*/libLLVM.so.19*")
    )
    found += sorted(glob.glob("/usr/lib/llvm-19/lib/libLLVM*.so*"))
    return os.environ.get("DRJIT_LIBLLVM_PATH") or (found[0] if found else None)


def load(variant):
    """The module `mitsuba` set to `variant`; `ImportError` where it is not installed,
    `ValueError` for a variant that is not ours.
    """
    if variant not in VARIANTS:
        raise ValueError(
            f"variant {variant!r} is none of {VARIANTS}: "
            "only what renders colours on a CPU is compared"
        )
    library = find_llvm()
    if library:
        os.environ["DRJIT_LIBLLVM_PATH"] = library
    import mitsuba

    mitsuba.set_variant(variant)
    return mitsuba


def rectangle(mitsuba, scene, number):
    """One parallelogram as the dictionary of a `rectangle`, which spans -1 to 1 along its two
    axes.
    """
    if bool((scene.glossy_Q3[number] > 0).any()):
        raise ValueError(
            f"parallelogram {number} is glossy; only diffuse ones are compared, "
            "as Mitsuba has no lobe of the same form"
        )
    u, v = (
        scene.edge_u_Q3[number].double().numpy() / 2,
        scene.edge_v_Q3[number].double().numpy() / 2,
    )
    matrix = np.eye(4)
    matrix[:3, 0], matrix[:3, 1], matrix[:3, 2] = u, v, scene.normal_Q3[number].double().numpy()
    matrix[:3, 3] = scene.corner_Q3[number].double().numpy() + u + v
    colour = {"type": "rgb", "value": scene.diffuse_Q3[number].tolist()}
    row = {
        "type": "rectangle",
        "to_world": mitsuba.ScalarTransform4f(matrix.tolist()),
        "bsdf": {"type": "diffuse", "reflectance": colour},
    }
    if bool((scene.emission_Q3[number] > 0).any()):
        radiance = {"type": "rgb", "value": scene.emission_Q3[number].tolist()}
        row["emitter"] = {"type": "area", "radiance": radiance}
    return row


def build(mitsuba, scene, depth):
    """The scene in Mitsuba, with an integrator of `depth` scatterings."""
    camera = scene.camera
    look = mitsuba.ScalarTransform4f().look_at(
        origin=camera.eye, target=camera.target, up=(0, 1, 0)
    )
    film = {
        "type": "hdrfilm",
        "width": camera.width,
        "height": camera.height,
        "pixel_format": "rgb",
        "component_format": "float32",
        "rfilter": {"type": "box"},
    }
    sensor = {
        "type": "perspective",
        "fov": camera.view_degrees,
        "fov_axis": "y",
        "to_world": look,
        "near_clip": 1e-3,
        "film": film,
        "sampler": {"type": "independent"},
    }
    shapes = {f"shape_{i}": rectangle(mitsuba, scene, i) for i in range(len(scene.corner_Q3))}
    integrator = {"type": "path", "max_depth": depth + 1, "rr_depth": NEVER}
    return mitsuba.load_dict(
        {"type": "scene", "integrator": integrator, "sensor": sensor, **shapes}
    )


def render(mitsuba, built, samples, seed):
    """The whole picture (height, width, 3), float32, of `samples` paths a pixel."""
    return np.array(mitsuba.render(built, spp=samples, seed=seed))
