# SPDX-License-Identifier: Apache-2.0
"""Makes images of Debian's packages, as archives that `ctr images import` and `docker load` take.

The content of the packages is put together as it is: none of their scripts is executed, so that
nothing is mounted or started, no daemon is needed, and a killed run leaves only files.
"""

import hashlib
import io
import json
import subprocess
import sys
import tarfile

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


def download(release, packages, folder):
    """Downloads packages and all that they depend on; returns their files."""
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
                    *packages], check=True, stdout=subprocess.DEVNULL)
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
            self.add_link(folder, f"usr/{folder}")

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

    def add_link(self, name, target):
        member = self.member(name, tarfile.SYMTYPE, 0o777)
        member.linkname = target
        self.add(member)

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

    def add_tree(self, source, name, left_out=()):
        """Adds a file, or a folder with all that is in it but for some folders, under a name."""
        for path in (source, *sorted(source.rglob("*"))):
            relative = path.relative_to(source)
            if f"{relative}/".startswith(tuple(f"{one}/" for one in left_out)):
                continue
            member = self.tar.gettarinfo(path, str(name / relative))
            member.uid = member.gid = 0
            member.uname = member.gname = "root"
            if member.isreg():
                with open(path, "rb") as content:
                    self.add(member, content)
            else:
                self.add(member)

    def close(self):
        for name, text in ACCOUNTS.items():
            self.add_text(name, text)
        self.add_link("usr/bin/sh", "dash")  # In bullseye, a script of the package makes it.
        self.tar.close()


def write_archive(path, name, layer, command, maker, environment=()):
    """Writes an image of one layer as `docker save` does. `maker`: who made it."""
    with open(layer, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    config = {"architecture": "amd64", "os": "linux",
              "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/usr/sbin", *environment],
                         "Cmd": command},
              "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
              "history": [{"created_by": maker}]}
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as archive:
        for file, content in (("manifest.json", manifest), ("config.json", config)):
            text = json.dumps(content).encode()
            member = tarfile.TarInfo(file)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
        archive.add(layer, "layer.tar")
