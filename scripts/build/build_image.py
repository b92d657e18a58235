#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the image that `gpemu-kubernetes manifests` names: a Debian with gpemu in /opt/gpemu and
gpemu-kubernetes. No daemon is needed. The archive can be loaded by `kind load image-archive`,
`minikube image load`, `k3s ctr images import`, `ctr -n k8s.io images import` and `docker load`.

Usage: scripts/build/build_image.py [--output FILE] [--name NAME]
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import debian_image

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASE = "bookworm"
# Of the shell's tools, an init container uses some.
PACKAGES = ["bash", "coreutils", "dash", "grep", "sed"]
# Containers do not compile programs against gpemu.
LEFT_OUT = ("include", "lib/cmake", "lib/pkgconfig")


def run(*words):
    subprocess.run([str(word) for word in words], check=True, cwd=ROOT, stdout=sys.stderr)


def build(folder):
    """Installs gpemu into a folder, and returns the path of gpemu-kubernetes."""
    run("scripts/build/setup.sh", "package")
    run("cmake", "--preset", "package", "--log-level=WARNING")
    run("cmake", "--build", "--preset", "package")
    run("cmake", "--install", "build/package", "--prefix", folder)
    run("cmake", "--preset", "release", "--log-level=WARNING")
    run("cmake", "--build", "--preset", "release", "--target", "gpemu-kubernetes")
    return ROOT / "build/release/tools/gpemu-kubernetes"


def libraries_of(program):
    """The paths at which a program finds the libraries that it needs."""
    listed = subprocess.run(["ldd", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    paths = (line.partition("=>")[2].split(" (")[0].strip() for line in listed.splitlines())
    return [path for path in paths if path]


def packages_of(libraries):
    """The Debian packages of libraries."""
    packages = set()
    for path in map(os.path.realpath, libraries):
        # Packages have the names of before /lib became a link into /usr.
        for name in (path, path.removeprefix("/usr")):
            found = subprocess.run(["dpkg", "-S", name], stdout=subprocess.PIPE, text=True,
                                   stderr=subprocess.DEVNULL, check=False)
            if found.returncode == 0:
                packages.add(found.stdout.split(":")[0])
                break
        else:
            raise RuntimeError(f"no Debian package has {path}")
    return sorted(packages)


def make_image(output, name, installation=None, program=None):
    """Writes the image's archive. Without both paths, it builds them first."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".image-", dir=output.parent) as made:
        folder = pathlib.Path(made)
        if installation is None:
            installation = folder / "gpemu"
            program = build(installation)
        for archive in (installation / "lib").glob("*.a"):
            if folder in archive.parents:
                archive.unlink()
        print("build_image: downloading Debian's packages", file=sys.stderr)
        (folder / "apt").mkdir()
        layer = debian_image.Layer(folder / "layer.tar")
        libraries = libraries_of(program)
        wanted = PACKAGES + packages_of(libraries)
        for package in debian_image.download(RELEASE, wanted, folder / "apt"):
            layer.add_package(package)
        # Links that scripts of packages make (Debian's alternatives).
        for path in libraries:
            real, found = os.path.realpath(path), os.path.realpath(os.path.dirname(path))
            if os.path.dirname(real) != found:
                layer.add_link(f"{found}/{os.path.basename(path)}".lstrip("/"), real)
        target = pathlib.PurePosixPath("opt/gpemu")
        layer.add_tree(installation, target, LEFT_OUT)
        layer.add_link("usr/local/bin/gpemu", "/opt/gpemu/bin/gpemu")  # For `gpemu sweep`.
        layer.add_tree(program, pathlib.PurePosixPath("usr/local/bin/gpemu-kubernetes"))
        layer.close()
        debian_image.write_archive(folder / "image.tar", name, folder / "layer.tar",
                                   ["gpemu-kubernetes", "--help"], "scripts/build/build_image.py",
                                   ["GPEMU_PROFILES=/opt/gpemu/share/gpemu/profiles.db"])
        (folder / "image.tar").rename(output)
    return output


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/gpemu-image.tar")
    parser.add_argument("--name", default="gpemu:latest")
    arguments = parser.parse_args()
    print(make_image(arguments.output.resolve(), arguments.name))


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, subprocess.CalledProcessError) as error:
        sys.exit(f"build_image: {error}")
