"""Builds the native kernels when a C++ compiler is there; without one the install still succeeds
and torch operators are used instead (`stoker doctor` tells which)."""

import platform
from glob import glob

from setuptools import Extension, setup

COMMON = ["-std=c++20", "-O3", "-ffp-contract=fast", "-fno-math-errno", "-fvisibility=hidden", "-Wno-psabi"]
VARIANTS = {"generic": []}
if platform.machine().lower() in ("x86_64", "amd64"):
    VARIANTS["avx2"] = ["-mavx2", "-mfma", "-mf16c"]

NATIVE = "src/stoker/kernels/native"
SOURCES = sorted(glob(f"{NATIVE}/*.cpp"))
HEADERS = sorted(glob(f"{NATIVE}/*.h"))


setup(
    ext_modules=[
        Extension(
            f"stoker.kernels._native_{variant}",
            SOURCES,
            depends=HEADERS,
            language="c++",
            extra_compile_args=[*COMMON, *flags],
            extra_link_args=["-pthread"],
            optional=True,
        )
        for variant, flags in VARIANTS.items()
    ]
)
