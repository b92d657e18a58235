#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The part of a cluster that is inside of its namespaces: the first process of the control plane,
and that of each node.

Usage: inside.py FOLDER (enter | run) [NODE]
  enter   makes the namespaces, and executes `run` in them
"""

import contextlib
import http.client
import json
import os
import pathlib
import select
import ssl
import stat
import subprocess
import sys
import time

import keeper

TOKEN = "administrator"  # The API can be reached from the namespaces only.
SERVER = ("10.99.1.1", 6443)
# What a kubelet sets. Nodes have files with these values over the kernel's settings: a kubelet
# that wants others stops (protectKernelDefaults).
SETTINGS = {"vm/overcommit_memory": 1, "vm/panic_on_oom": 0, "kernel/panic": 10,
            "kernel/panic_on_oops": 1, "kernel/keys/root_maxkeys": 1000000,
            "kernel/keys/root_maxbytes": 25000000}
READY_S = 180  # The longest that a start may take on a busy machine.
RESTART_S = 0.2


def run(*words, **options):
    subprocess.run([str(word) for word in words], check=True, **options)


def enter_namespaces(folder, node):
    """Executes this script as the first process of new namespaces, in the cluster's or in a node's
    cgroups. It dies with this process."""
    before, name, number = ["unshare", "--net"], "", []
    if node:
        name, number = f"n{node}", [str(node)]
        # The control plane has made this one.
        before = ["nsenter", f"--net=/run/netns/{name}", "unshare", "--cgroup"]
    for path in keeper.state(folder)["cgroups"].values():
        (pathlib.Path(path) / name / "cgroup.procs").write_text("0")
    words = [*before, "--mount", "--pid", "--ipc", "--uts", "--mount-proc", "--fork",
             "--kill-child", sys.executable, __file__, str(folder), "run", *number]
    os.execvp(words[0], words)


class Supervisor:
    """Starts programs, starts them again when they end, and collects all processes that end."""

    def __init__(self, logs, environment):
        self.logs, self.environment = logs, environment
        self.programs, self.again = {}, {}
        self.ended = []  # those that are not started again

    def start(self, name, words, again=True):
        with open(self.logs / f"{name}.log", "ab") as log:
            process = subprocess.Popen([str(word) for word in words], env=self.environment,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.programs[process.pid] = (process, name, words, again)

    def turn(self):
        """Takes a short time."""
        time.sleep(RESTART_S / 2)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] in self.programs:
                    process, name, words, again = self.programs.pop(ended[0])
                    process.returncode = ended[1]  # Else Popen would wait for it.
                    if again:
                        self.again[name] = (time.monotonic() + RESTART_S, words)
                    else:
                        self.ended.append(name)
        for name, (when, words) in list(self.again.items()):
            if time.monotonic() >= when:
                del self.again[name]
                self.start(name, words)


class Inside:
    """What the control plane and the nodes have in common."""

    def __init__(self, folder):
        self.folder = folder
        self.config = json.loads((folder / "config.json").read_text())
        self.cgroups = keeper.state(folder)["cgroups"]
        self.bin = pathlib.Path(self.config["programs"])
        self.environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"}
        self.gates = ",".join(self.config["feature_gates"])

    def kubernetes(self, program, *flags):
        gates = [f"--feature-gates={self.gates}"] if self.gates else []
        return [self.bin / program, *gates, *flags]


class ControlPlane(Inside):

    def __init__(self, folder):
        super().__init__(folder)
        self.nodes = range(1, self.config["nodes"] + 1)
        self.supervisor = Supervisor(folder, self.environment)

    def run(self):
        # From here on, this process dies with the keeper. Did the keeper die before?
        keeper_lives = select.poll()
        keeper_lives.register(sys.stdin, 0)
        if keeper_lives.poll(0):  # The other end of the pipe is closed.
            sys.exit(1)
        run("mount", "--bind", self.folder, self.folder)
        run("mount", "-o", "remount,bind,ro", "/")
        for path in ("/run", "/tmp"):
            run("mount", "-t", "tmpfs", "tmpfs", path)
        self.make_network()
        run("openssl", "genrsa", "-out", self.folder / "accounts.key", "2048",
            stderr=subprocess.DEVNULL)
        (self.folder / "tokens.csv").write_text(f"{TOKEN},admin,1,system:masters\n")
        (self.folder / "kubeconfig").write_text(json.dumps(kubeconfig()))
        self.start_programs()
        for node in self.nodes:
            self.start_node(node)
        self.wait_until_ready()
        print("ready", flush=True)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        while True:
            self.supervisor.turn()

    def make_network(self):
        """A bridge in this network namespace, and a namespace with one interface for each node."""
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "bridge", "type", "bridge")
        run("ip", "address", "add", "10.99.1.1/24", "dev", "bridge")
        run("ip", "link", "set", "bridge", "up")
        for node in self.nodes:
            run("ip", "netns", "add", f"n{node}")
            run("ip", "link", "add", f"n{node}", "type", "veth", "peer", "name", "eth0",
                "netns", f"n{node}")
            run("ip", "link", "set", f"n{node}", "master", "bridge", "up")
            run("ip", "route", "add", f"10.88.{node}.0/24", "via", f"10.99.1.{10 + node}")
            commands = ["link set lo up", f"address add 10.99.1.{10 + node}/24 dev eth0",
                        "link set eth0 up", "route add default via 10.99.1.1",
                        *(f"route add 10.88.{other}.0/24 via 10.99.1.{10 + other}"
                          for other in self.nodes if other != node)]
            run("ip", "-n", f"n{node}", "-batch", "-", input="\n".join(commands).encode())

    def start_programs(self):
        key, config = self.folder / "accounts.key", self.folder / "kubeconfig"
        store = "http://127.0.0.1:2379"
        start = self.supervisor.start
        start("etcd", [self.bin / "etcd", "--data-dir", self.folder / "etcd", "--unsafe-no-fsync",
                       "--listen-client-urls", store, "--advertise-client-urls", store,
                       "--listen-peer-urls", "http://127.0.0.1:2380"])
        # Where devices have taints, schedulers look for rules of taints, too.
        alpha = (["--runtime-config=resource.k8s.io/v1alpha3=true"]
                 if "DRADeviceTaints=true" in self.config["feature_gates"] else [])
        start("kube-apiserver", self.kubernetes(
            "kube-apiserver", *alpha, f"--etcd-servers={store}", "--bind-address=0.0.0.0",
            f"--secure-port={SERVER[1]}", f"--cert-dir={self.folder}/certificates",
            f"--advertise-address={SERVER[0]}", "--endpoint-reconciler-type=none",
            f"--token-auth-file={self.folder}/tokens.csv", "--authorization-mode=AlwaysAllow",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={key}", f"--service-account-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged=true",
            "--disable-admission-plugins=ServiceAccount",
            "--kubelet-preferred-address-types=InternalIP"))
        start("kube-scheduler", self.kubernetes(
            "kube-scheduler", f"--kubeconfig={config}", "--leader-elect=false"))
        start("kube-controller-manager", self.kubernetes(
            "kube-controller-manager", f"--kubeconfig={config}", "--leader-elect=false",
            f"--service-account-private-key-file={key}"))

    def start_node(self, node):
        for controllers in self.cgroups.values():
            keeper.make_cgroup(pathlib.Path(controllers) / f"n{node}")
        (self.folder / f"n{node}").mkdir()
        self.supervisor.start(f"n{node}", [sys.executable, __file__, self.folder, "enter", node],
                              again=False)

    def ask(self, path):
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # The server signs its own certificate.
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(*SERVER, timeout=5, context=trusting)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
            answer = connection.getresponse()
            return json.loads(answer.read()) if answer.status == 200 else {}

    def is_ready(self):
        if not all((self.folder / f"n{node}/prepared").exists() for node in self.nodes):
            return False
        try:
            # The controllers make it when they have begun.
            if "kind" not in self.ask("/api/v1/namespaces/kube-node-lease"):
                return False
            listed = self.ask("/api/v1/nodes").get("items", [])
        except (OSError, http.client.HTTPException):
            return False
        ready = [item for item in listed if not item["spec"].get("taints") and any(
            found["type"] == "Ready" and found["status"] == "True"
            for found in item["status"].get("conditions", []))]
        return len(ready) == len(self.nodes)

    def wait_until_ready(self):
        until = time.monotonic() + READY_S
        while not self.is_ready():
            self.supervisor.turn()
            if self.supervisor.ended or time.monotonic() > until:
                print_logs(self.folder)
                raise keeper.ClusterError(
                    f"{self.supervisor.ended[0]} ended" if self.supervisor.ended else
                    f"not all nodes are ready after {READY_S} s")


def kubeconfig():
    return {"apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": f"https://{SERVER[0]}:{SERVER[1]}", "insecure-skip-tls-verify": True}}],
            "users": [{"name": "admin", "user": {"token": TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}]}


def print_logs(folder):
    for log in sorted(folder.glob("**/*.log")):
        lines = log.read_text(errors="replace").splitlines()
        if folder / "etcd" not in log.parents and lines:
            print(f"== {log.relative_to(folder)}", *lines[-10:], sep="\n", flush=True)


class Node(Inside):

    def __init__(self, folder, node):
        super().__init__(folder)
        self.node, self.name = node, f"n{node}"
        self.place = folder / self.name
        self.environment["NODE_NAME"] = self.name
        self.environment["CLUSTER_NODE_FOLDER"] = str(self.place)
        self.supervisor = Supervisor(self.place, self.environment)

    def run(self):
        run("hostname", self.name)
        self.mount_own()
        (self.place / "cni").mkdir()
        (self.place / "cni/pods.conflist").write_text(json.dumps(self.pod_network()))
        (self.place / "containerd.toml").write_text(self.containerd())
        (self.place / "kubelet.json").write_text(json.dumps(self.kubelet()))
        for command in self.config["before_kubelet"]:
            run("sh", "-c", command, env=self.environment, stdin=subprocess.DEVNULL)
        self.supervisor.start("containerd", [self.bin / "containerd", "--config",
                                             self.place / "containerd.toml"])
        self.supervisor.start("kubelet", self.kubernetes(
            "kubelet", f"--kubeconfig={self.folder}/kubeconfig",
            f"--config={self.place}/kubelet.json", f"--hostname-override={self.name}",
            f"--node-ip=10.99.1.{10 + self.node}"))
        for number, command in enumerate(self.config["on_node"], 1):
            self.supervisor.start(f"on-node-{number}", ["sh", "-c", f"exec {command}"])
        self.import_images()
        (self.place / "prepared").touch()
        while True:
            self.supervisor.turn()

    def mount_own(self):
        """The mounts of this node's namespace."""
        run("mount", "-t", "sysfs", "sysfs", "/sys")
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", keeper.CGROUPS)
        for controllers in self.cgroups:
            folder = keeper.CGROUPS / controllers.replace("name=", "")
            folder.mkdir()
            run("mount", "-t", "cgroup", "-o", controllers, "cgroup", folder)
        for path in ("/run", "/tmp"):
            run("mount", "-t", "tmpfs", "tmpfs", path)
        for path in ("/run/cdi", "/run/lock", "/run/netns"):
            pathlib.Path(path).mkdir()
        for name in ("lib", "log"):
            (self.place / name).mkdir()
            run("mount", "--bind", self.place / name, f"/var/{name}")
        self.mount_devices()
        settings = self.place / "settings"
        for name, value in SETTINGS.items():
            (settings / name).parent.mkdir(parents=True, exist_ok=True)
            (settings / name).write_text(f"{value}\n")
            run("mount", "--bind", settings / name, f"/proc/sys/{name}")

    def mount_devices(self):
        """A /dev with the machine's devices, to which others can be added."""
        devices = [(entry.path, entry.stat(follow_symlinks=False)) for entry in os.scandir("/dev")]
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/dev")
        for path, found in devices:
            if stat.S_ISCHR(found.st_mode):
                os.mknod(path, found.st_mode, found.st_rdev)
                os.chmod(path, stat.S_IMODE(found.st_mode))
        for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"),
                             ("stderr", "fd/2")):
            os.symlink(target, f"/dev/{name}")
        os.mkdir("/dev/pts")
        run("mount", "-t", "devpts", "-o", "newinstance,ptmxmode=666,mode=620", "devpts",
            "/dev/pts")
        pathlib.Path("/dev/ptmx").unlink(missing_ok=True)
        os.symlink("pts/ptmx", "/dev/ptmx")
        os.mkdir("/dev/shm")
        run("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/dev/shm")

    def pod_network(self):
        addresses = {"type": "host-local", "dataDir": "/run/cni", "routes": [{"dst": "0.0.0.0/0"}],
                     "ranges": [[{"subnet": f"10.88.{self.node}.0/24"}]]}
        return {"cniVersion": "1.0.0", "name": "pods", "plugins": [
            {"type": "bridge", "bridge": "pods", "isGateway": True, "ipam": addresses}]}

    def containerd(self):
        runtime = self.config["runtime"] or self.bin / "runc"
        return f"""\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{self.config["sandbox_image"]}"
[plugins."io.containerd.cri.v1.runtime"]
  # There may be no CAP_SYS_RESOURCE, which a lower score needs.
  restrict_oom_score_adj = true
  disable_apparmor = true
  enable_cdi = true
  cdi_spec_dirs = ["/etc/cdi", "/run/cdi"]
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{self.bin}"]
    conf_dir = "{self.place}/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{runtime}"
"""

    def kubelet(self):
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "cgroupDriver": "cgroupfs", "failSwapOn": False, "protectKernelDefaults": True,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "resolvConf": "", "makeIPTablesUtilChains": False,
            "volumePluginDir": "/var/lib/kubelet/volume-plugins",
            # A machine for tests may be nearly full.
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%",
                             "imagefs.available": "1%", "nodefs.inodesFree": "0%"},
            "imageGCHighThresholdPercent": 100,
            "nodeStatusUpdateFrequency": "2s"}

    def import_images(self):
        address = "/run/containerd/containerd.sock"
        until = time.monotonic() + READY_S
        while not pathlib.Path(address).exists() and time.monotonic() < until:
            self.supervisor.turn()
        for archive in self.config["images"]:
            run(self.bin / "ctr", "--address", address, "--namespace", "k8s.io", "images",
                "import", archive)


def main():
    folder, what = pathlib.Path(sys.argv[1]), sys.argv[2]
    node = int(sys.argv[3]) if len(sys.argv) > 3 else None
    try:
        if what == "enter":
            enter_namespaces(folder, node)
        elif node is None:
            ControlPlane(folder).run()
        else:
            Node(folder, node).run()
    except (keeper.ClusterError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"cluster: {error}")


if __name__ == "__main__":
    main()
