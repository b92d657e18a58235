#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes cluster on this machine: a control plane and kubelets, each with containerd, in
namespaces. Needs root, cgroup v1, and the programs of scripts/build/install_kubernetes.sh.

  cluster.py up [--nodes N] ...       starts it; returns when all nodes are ready
  cluster.py kubectl ARGUMENTS...     asks it
  cluster.py exec NODE COMMAND...     executes a command on a node (n1, n2, ...)
  cluster.py down                     ends it and removes all of it, also one that was killed

All processes descend from one, the first of a PID namespace. When that one is killed, the kernel
ends all others, with their mounts, network interfaces and other namespaces. All are in one tree of
cgroups, so that they can be found, too. Nothing of the machine is changed: nodes see the machine's
files as read-only, and have /dev, /run, /sys, /tmp, /var/lib, /var/log and the kernel's settings
that a kubelet changes for themselves. Left to remove are the folder and the cgroups, whose paths
are in FOLDER/state.json before they are made. A process outside of the namespaces, the keeper,
removes them when the cluster ends; if the keeper is killed, the cluster ends, and the next `up` or
`down` removes them. While a keeper lives, it holds a lock on the folder.

Each node N has the address 10.99.1.(10+N) and pods in 10.88.N.0/24. Services have no addresses,
names are not resolved, and pods have no service account.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys

import image
import keeper

ROOT = keeper.HERE.parents[1]
FOLDER = pathlib.Path("/var/tmp/gpemu-cluster")


class Cluster:
    """A cluster that ends with this object, or with this process; with stay=True, it goes on.

    nodes: how many, 0 too; before_kubelet: shell commands that each node executes before its
    kubelet starts; on_node: programs that run on each node, and are started again when they end;
    both have NODE_NAME and CLUSTER_NODE_FOLDER, a folder for the node's files, in their
    environment; images: archives of further images; feature_gates: of Kubernetes, as NAME=true;
    runtime: an OCI runtime in place of runc.
    """

    def __init__(self, folder=FOLDER, nodes=2, before_kubelet=(), on_node=(), images=(),
                 feature_gates=(), runtime=None, stay=False):
        self.folder, self.stay = pathlib.Path(folder).resolve(), stay
        lines = keeper.missing(self.folder)
        if lines:
            raise keeper.ClusterError("this machine cannot run a cluster:\n  " + "\n  ".join(lines))
        self.config = {
            "nodes": nodes, "before_kubelet": list(before_kubelet), "on_node": list(on_node),
            # A cluster of hollow nodes alone has no use for images.
            "images": [str(image.image("bookworm")), *(str(os.path.abspath(i)) for i in images)]
                      if nodes else [],
            "sandbox_image": image.name_of("bookworm"), "feature_gates": list(feature_gates),
            "runtime": runtime, "programs": programs()}
        self.process = None

    def up(self):
        """Starts it; returns when all nodes are ready."""
        # It has a session of its own: an interrupt from the terminal must not kill the keeper.
        self.process = subprocess.Popen(
            [sys.executable, keeper.HERE / "keeper.py", self.folder], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(self.config).encode() + b"\n")
            self.process.stdin.flush()
        said = []
        for line in self.process.stdout:
            if line == b"ready\n":
                break
            said.append(line.decode(errors="replace"))
        else:
            self.let_go()
            self.process.wait()
            raise keeper.ClusterError("the cluster did not start:\n" + "".join(said))
        if self.stay:
            self.process.stdin.write(b"k")
            self.let_go()

    def let_go(self):
        self.process.stdin.close()
        self.process.stdout.close()

    def down(self):
        self.let_go()
        keeper.down(self.folder)
        self.process.wait()

    def __enter__(self):
        self.up()
        return self

    def __exit__(self, *_):
        self.down()


def programs():
    """The folder of Kubernetes' programs, which are built once."""
    script = ROOT / "scripts/build/install_kubernetes.sh"
    built = subprocess.run([script], stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode != 0:
        raise keeper.ClusterError(f"{script} failed")
    return built.stdout.strip()


def first_process(folder, node=""):
    """The number, outside of all namespaces, of the first process of the control plane's or of a
    node's PID namespace."""
    depth = 2 if node else 1
    for cgroup in keeper.state(folder).get("cgroups", {}).values():
        for pid in keeper.processes_of(pathlib.Path(cgroup) / node):
            with contextlib.suppress(OSError):
                for line in pathlib.Path(f"/proc/{pid}/status").read_text("utf-8").splitlines():
                    if line.startswith("NSpid:") and line.split()[1 + depth:] == ["1"]:
                        return pid
    raise keeper.ClusterError(f"no cluster {f'with a node {node} ' if node else ''}runs in {folder}"
                              "; start one with `up`")


def kubectl_words(folder):
    """The words before the arguments of kubectl."""
    pid = first_process(folder)
    config = json.loads((folder / "config.json").read_text())
    return ["nsenter", f"--net=/proc/{pid}/ns/net", f"{config['programs']}/kubectl",
            f"--kubeconfig={folder}/kubeconfig"]


def node_words(folder, node):
    """The words before a command on a node."""
    return ["nsenter", "--all", f"--target={first_process(folder, node)}", "--"]


def arguments_of():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=lambda name: pathlib.Path(name).resolve(), default=FOLDER)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    start = commands.add_parser("up", help="starts a cluster")
    start.add_argument("--nodes", type=int, default=2)
    start.add_argument("--before-kubelet", action="append", default=[], metavar="COMMAND",
                       help="a shell command that each node executes first")
    start.add_argument("--on-node", action="append", default=[], metavar="COMMAND",
                       help="a program that runs on each node, with NODE_NAME in its environment; "
                            "it is started again when it ends")
    start.add_argument("--image", action="append", default=[], metavar="ARCHIVE", dest="images",
                       help="a further image, as `docker save` writes it")
    start.add_argument("--feature-gates", action="append", default=[], metavar="NAME=true")
    start.add_argument("--runtime", help="an OCI runtime in place of runc")
    commands.add_parser("down", help="ends it")
    commands.add_parser("kubectl", add_help=False, help="asks it")
    on_node = commands.add_parser("exec", add_help=False, help="executes a command on a node")
    on_node.add_argument("node")
    arguments, rest = parser.parse_known_args()
    if rest and arguments.command in ("up", "down"):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return arguments, rest


def main():
    arguments, rest = arguments_of()
    folder = arguments.folder
    command = arguments.command
    if command == "up":
        options = {name: value for name, value in vars(arguments).items()
                   if name not in ("command",)}
        Cluster(**options, stay=True).up()
    elif command == "down":
        keeper.down(folder)
    elif command == "kubectl":
        os.execvp("nsenter", kubectl_words(folder) + rest)
    elif command == "exec":
        os.execvp("nsenter", node_words(folder, arguments.node) + rest)


if __name__ == "__main__":
    try:
        main()
    except (keeper.ClusterError, subprocess.CalledProcessError) as error:
        sys.exit(f"cluster: {error}")
