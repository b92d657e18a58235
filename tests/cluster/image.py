#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes an image of a bare Debian with Python, without gpemu, and prints the path of its archive,
which `ctr images import` and `docker load` take. The image's name is gpemu.test/debian:RELEASE.

Usage: tests/cluster/image.py [bookworm|bullseye]
"""

import argparse
import fcntl
import hashlib
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/build"))
import debian_image  # noqa: E402

# The newest glibc that each release has.
GLIBC = {"bookworm": "2.36", "bullseye": "2.31"}
# What pods of the tests use: a shell, Python, tools of network and processes, and the libraries
# that wheels of PyTorch take from the system.
PACKAGES = ["bash", "coreutils", "dash", "grep", "iproute2", "iputils-ping", "libgomp1",
            "libstdc++6", "procps", "python3", "sed"]
# A pod names its own; without one, the image waits, as the sandbox of a pod does.
COMMAND = ["/bin/sleep", "infinity"]


def name_of(release):
    return f"gpemu.test/debian:{release}"


def make_image(release, path):
    for old in path.parent.glob(f"image-{release}-*/"):  # A killed run has left it.
        shutil.rmtree(old)
    print(f"image: downloading Debian's packages ({release})", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix=f"image-{release}-", dir=path.parent) as name:
        folder = pathlib.Path(name)
        layer = debian_image.Layer(folder / "layer.tar")
        for package in debian_image.download(release, PACKAGES, folder):
            layer.add_package(package)
        layer.close()
        debian_image.write_archive(folder / "image.tar", name_of(release), folder / "layer.tar",
                                   COMMAND, "tests/cluster/image.py")
        (folder / "image.tar").rename(path)


def image(release):
    """Returns the path of the image's archive, which it makes once."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gpemu"
    content = repr((PACKAGES, debian_image.LEFT_OUT, debian_image.ACCOUNTS, COMMAND))
    version = hashlib.sha256(content.encode()).hexdigest()[:12]
    path = cache / f"image-{release}-{version}.tar"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "image.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            make_image(release, path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("release", nargs="?", default="bookworm", choices=sorted(GLIBC))
    print(image(parser.parse_args().release))


if __name__ == "__main__":
    main()
