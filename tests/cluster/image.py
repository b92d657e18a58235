#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes an image of a bare Debian with Python, without gpemu, and prints the path of its archive,
which `ctr images import` and `docker load` take. The image's name is gpemu.test/debian:RELEASE.

The content of the Debian packages is put together as it is: none of their scripts is executed, so
that nothing is mounted or started, and a killed run leaves only files in the cache folder.

Usage: tests/cluster/image.py [bookworm|bullseye]
"""

import argparse
import fcntl
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

# The newest glibc that each release has.
GLIBC = {"bookworm": "2.36", "bullseye": "2.31"}
# What pods of the tests use: a shell, Python, tools of network and processes, and the libraries
# that wheels of PyTorch take from the system.
PACKAGES = ["bash", "coreutils", "dash", "grep", "iproute2", "iputils-ping", "libgomp1",
            "libstdc++6", "procps", "python3", "sed"]
# In both releases, these folders are links into /usr. Packages of bullseye have files in both.
MERGED = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
LEFT_OUT = ("usr/share/doc/", "usr/share/locale/", "usr/share/man/", "usr/share/perl/",
            "usr/lib/x86_64-linux-gnu/perl")
ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\n"
                  "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
# A pod names its own; without one, the image waits, as the sandbox of a pod does.
COMMAND = ["/bin/sleep", "infinity"]


def name_of(release):
    return f"gpemu.test/debian:{release}"


def mirror():
    """The archive that this machine takes its packages from."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)",
         "Created-By: Packages"], check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        release, address = line.split()
        if "-" not in release:  # No updates of security, which have archives of their own.
            return address
    raise RuntimeError("apt has no archive of packages; on Debian, look at /etc/apt/sources.list")


def download(release, folder):
    """Downloads the packages and all that they depend on; returns their files."""
    for name in ("lists/partial", "archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()  # A system that has no package.
    (folder / "sources.list").write_text(
        "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
        f"{mirror()} {release} main\n")
    settings = {"Dir::Etc::SourceList": folder / "sources.list",
                "Dir::Etc::SourceParts": "/dev/null", "Dir::State": folder,
                "Dir::State::status": folder / "status", "Dir::Cache": folder,
                "APT::Sandbox::User": "root", "Acquire::Retries": 3,
                "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
                "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false"}
    apt = ["apt-get", "-qq", *(word for name, value in settings.items()
                               for word in ("-o", f"{name}={value}"))]
    subprocess.run([*apt, "update"], check=True, stdout=sys.stderr)
    subprocess.run([*apt, "-y", "--no-install-recommends", "--download-only", "install",
                    *PACKAGES], check=True, stdout=subprocess.DEVNULL)
    return sorted((folder / "archives").glob("*.deb"))


class Layer:
    """The one layer of the image, a tar file."""

    def __init__(self, path):
        self.tar = tarfile.open(path, "w", format=tarfile.PAX_FORMAT)
        self.seen = set()
        for folder in ("usr", "dev", "etc", "proc", "root", "run", "sys", "tmp", "var"):
            self.add(self.member(folder, tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755))
        for folder in MERGED:
            self.add(self.member(f"usr/{folder}", tarfile.DIRTYPE, 0o755))
            link = self.member(folder, tarfile.SYMTYPE, 0o777)
            link.linkname = f"usr/{folder}"
            self.add(link)

    @staticmethod
    def member(name, kind, mode):
        found = tarfile.TarInfo(name)
        found.type, found.mode = kind, mode
        return found

    def add(self, member, content=None):
        if member.name in self.seen:
            return
        self.seen.add(member.name)
        self.tar.addfile(member, content)

    def add_text(self, name, text):
        member = self.member(name, tarfile.REGTYPE, 0o644)
        member.size = len(text)
        self.add(member, io.BytesIO(text.encode()))

    def add_package(self, package):
        def moved(name):
            name = name.removeprefix("./").rstrip("/")
            return f"usr/{name}" if name.split("/")[0] in MERGED else name

        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package],
                              stdout=subprocess.PIPE) as process, \
                tarfile.open(fileobj=process.stdout, mode="r|") as content:
            for member in content:
                member.name = moved(member.name)
                if not member.name or f"{member.name}/".startswith(LEFT_OUT):
                    continue
                if member.islnk():
                    member.linkname = moved(member.linkname)
                self.add(member, content.extractfile(member) if member.isreg() else None)
        if process.returncode != 0:
            raise RuntimeError(f"dpkg-deb cannot read {package}")

    def close(self):
        for name, text in ACCOUNTS.items():
            self.add_text(name, text)
        shell = self.member("usr/bin/sh", tarfile.SYMTYPE, 0o777)
        shell.linkname = "dash"
        self.add(shell)  # In bullseye, a script of the package makes this link.
        self.tar.close()


def write_archive(path, name, layer):
    """Writes an image of one layer as `docker save` does."""
    with open(layer, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    config = {"architecture": "amd64", "os": "linux",
              "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/usr/sbin"], "Cmd": COMMAND},
              "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
              "history": [{"created_by": "tests/cluster/image.py"}]}
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as archive:
        for file, content in (("manifest.json", manifest), ("config.json", config)):
            text = json.dumps(content).encode()
            member = tarfile.TarInfo(file)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
        archive.add(layer, "layer.tar")


def make_image(release, path):
    for old in path.parent.glob(f"image-{release}-*/"):  # A killed run has left it.
        shutil.rmtree(old)
    print(f"image: downloading Debian's packages ({release})", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix=f"image-{release}-", dir=path.parent) as name:
        folder = pathlib.Path(name)
        layer = Layer(folder / "layer.tar")
        for package in download(release, folder):
            layer.add_package(package)
        layer.close()
        write_archive(folder / "image.tar", name_of(release), folder / "layer.tar")
        (folder / "image.tar").rename(path)


def image(release):
    """Returns the path of the image's archive, which it makes once."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gpemu"
    content = repr((PACKAGES, LEFT_OUT, ACCOUNTS, COMMAND))
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
