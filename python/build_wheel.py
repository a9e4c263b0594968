"""The build backend of the wheel: maturin's, after the command `fangorn` is built and put where maturin takes scripts.

    pip wheel --no-deps -w dist python        the extension and the command
    maturin build --release -m python/Cargo.toml   the extension, and the command if it was built before
"""

import os
import pathlib
import shutil
import subprocess
import sys

import maturin
from maturin import *  # noqa: F403: the hooks of PEP 517 that stay as they are.

HERE = pathlib.Path(__file__).resolve().parent
# Where maturin takes scripts from: `data` of pyproject.toml.
SCRIPTS = HERE / "fangorn.data" / "scripts"


def build_command():
    """Build the command line, and put it into the folder of scripts."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target"))
    manifest = HERE.parent / "Cargo.toml"
    options = ["--release", "--locked", "-p", "fangorn", "--no-default-features", "--features", "tables", "--bin", "fangorn"]
    command = ["cargo", "build", "--manifest-path", str(manifest), "--target-dir", str(target), *options]
    subprocess.run(command, check=True, env={**os.environ, "CARGO_PROFILE_RELEASE_STRIP": "true"})
    name = "fangorn.exe" if sys.platform == "win32" else "fangorn"
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    shutil.copy2(target / "release" / name, SCRIPTS / name)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Write the metadata. maturin asks for the folder of scripts here already, before there are any."""
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Build a wheel with the command in it."""
    build_command()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    """Refuse: the crate `fangorn` is outside this folder."""
    raise SystemExit("there is no source distribution: build a wheel in a checkout, pip wheel --no-deps python")
