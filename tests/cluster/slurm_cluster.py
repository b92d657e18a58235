#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Slurm cluster on this machine, with emulated GPUs: slurmctld, and a slurmd for each node. Needs
root and the packages of `scripts/build/setup.sh slurm`.

All of it is in mount, network and PID namespaces, which enter() makes for the whole program: what
the program leaves, processes, mounts, files in /run, ends with it. Nodes are daemons on one
address, with a port each, except those that are hosts of their own: they have a network namespace
with an interface eth0, and a host name.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

LAB = pathlib.Path("/run/gpemu-slurm-test")
STATE = LAB / "gpus"
NEEDED = ("slurmctld", "slurmd", "srun", "munged", "unshare", "ip")
SECONDS = 60  # that anything may take

CONF = """
ClusterName=gpemu
SlurmctldHost=head(10.98.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmctldPidFile={lab}/slurmctld.pid
SlurmdPidFile={lab}/slurmd-%n.pid
SlurmdSpoolDir={lab}/spool/%n
StateSaveLocation={lab}/state
SlurmctldLogFile={lab}/slurmctld.log
SlurmdLogFile={lab}/slurmd-%n.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
PlugStackConfig={lab}/plugstack.conf
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
KillWait=2
MessageTimeout=30
SlurmdTimeout=300
TmpFS={lab}/tmp-%n
PartitionName=main Nodes=ALL Default=YES State=UP
"""


def missing():
    """What this machine lacks."""
    lines = [f"no {name}; run scripts/build/setup.sh slurm"
             for name in NEEDED if not shutil.which(name)]
    if os.getuid() != 0:
        lines.append("needs root")
    return lines


def enter(name):
    """Continues in new namespaces, as a process that is not the first one there."""
    if os.environ.get("GPEMU_SLURM_TEST") != name:
        os.environ["GPEMU_SLURM_TEST"] = name
        os.execvp("unshare", ["unshare", "--mount", "--net", "--pid", "--uts", "--fork",
                              "--mount-proc", "--kill-child", sys.executable, *sys.argv])
    child = os.fork()
    if child != 0:
        # The first process gets the children of those that have ended.
        while True:
            ended, status = os.wait()
            if ended == child:
                os._exit(os.waitstatus_to_exitcode(status) & 255)
    commands = [
        "mount --make-rprivate /",
        "mount -t tmpfs -o mode=755 tmpfs /run",
        # A /dev of its own, for files of GPUs.
        "mkdir /run/dev && mount -t tmpfs -o mode=755 tmpfs /run/dev && mkdir /run/dev/shm "
        "/run/dev/pts && cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty "
        "/run/dev/ && ln -s /proc/self/fd /run/dev/fd && ln -s pts/ptmx /run/dev/ptmx && "
        "mount -t devpts -o newinstance,ptmxmode=0666 devpts /run/dev/pts && "
        "mount --move /run/dev /dev && mount -t tmpfs tmpfs /dev/shm",
        f"mkdir -p {LAB} /run/munge /run/netns",
        "hostname head",
        "ip link set lo up",
        "ip link add bridge0 type bridge",
        "ip addr add 10.98.0.1/24 dev bridge0",
        "ip link set bridge0 up",
        f"printf '127.0.0.1 localhost\\n10.98.0.1 head\\n' >{LAB}/hosts",
        f"mount --bind {LAB}/hosts /etc/hosts",
        f"head -c 1024 /dev/urandom >{LAB}/munge.key",
        f"mkdir {LAB}/munge",
        f"chmod 700 {LAB}/munge",
        f"chmod 400 {LAB}/munge.key && mv {LAB}/munge.key {LAB}/munge/key",
        f"chown -R munge: {LAB}/munge /run/munge",
        "su -s /bin/sh munge -c '/usr/sbin/munged --key-file={0}/key --log-file={0}/log "
        "--pid-file=/run/munge/munged.pid --seed-file={0}/seed' 2>{0}.errors".format(LAB / "munge"),
    ]
    for command in commands:
        subprocess.run(["sh", "-c", command], check=True)


class SlurmCluster:
    """A cluster with the GPUs that `description` says, the text of a slurm.toml without `state`.

    build: the folder of a build tree, or of an installation. hosts: nodes that are hosts of their
    own.
    """

    def __init__(self, build, description, hosts=()):
        self.hosts = {host: f"10.98.0.{11 + i}" for i, host in enumerate(hosts)}
        self.gpemu_slurm, plugin = program(build, "gpemu-slurm"), plug_in(build)
        os.environ["PATH"] = f"{self.gpemu_slurm.parent}:{os.environ['PATH']}"
        self.description = LAB / "slurm.toml"
        self.description.write_text(f'state = "{STATE}"\n{description}')
        os.environ["SLURM_CONF"] = str(LAB / "slurm.conf")
        gres = self.gpus_of("gres")
        (LAB / "gres.conf").write_text(gres)
        conf = CONF.format(lab=LAB)
        conf += re.search(r"^# slurm.conf: (GresTypes=.*)$", gres, re.M)[1] + "\n"
        self.nodes = []
        (LAB / "slurm.conf").write_text(conf)  # Programs of Slurm want one.
        for number, line in enumerate(re.findall(r"^# slurm.conf: (NodeName=.*)$", gres, re.M)):
            pattern = re.search(r"NodeName=(\S+)", line)[1]
            names = self.run("scontrol", "show", "hostnames", pattern).split()
            ports = f"{19000 + 100 * number}-{19000 + 100 * number + len(names) - 1}"
            port = f"[{ports}]" if len(names) > 1 else ports.split("-", maxsplit=1)[0]
            shape = ("CPUs=64 Boards=1 SocketsPerBoard=2 CoresPerSocket=32 ThreadsPerCore=1 "
                     "RealMemory=20000\n")
            if names[0] in self.hosts:
                for name in names:
                    conf += (f"{line.replace(pattern, name, 1)} NodeHostname={name} "
                             f"NodeAddr={self.hosts[name]} {shape}")
            else:
                conf += f"{line} NodeHostname=head NodeAddr=10.98.0.1 Port={port} {shape}"
            self.nodes += names
        (LAB / "slurm.conf").write_text(conf)
        (LAB / "plugstack.conf").write_text(f"required {plugin} conf={self.description}\n")
        (LAB / "cgroup.conf").write_text(
            "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nCgroupMountpoint=/sys/fs/cgroup\n")
        for name in ("state", *(f"{kind}{node}" for kind in ("spool/", "tmp-")
                                for node in self.nodes)):
            (LAB / name).mkdir(parents=True, exist_ok=True)

    def make_host(self, name, address):
        for command in (
                f"echo {address} {name} >>{LAB}/hosts",
                f"ip netns add {name}",
                f"ip link add {name} type veth peer name eth0 netns {name}",
                f"ip link set {name} master bridge0 up",
                f"ip -n {name} link set lo up",
                f"ip -n {name} addr add {address}/24 dev eth0",
                f"ip -n {name} link set eth0 up"):
            self.run("sh", "-c", command)

    def shape(self, host, rate):
        """Limits what a host sends, e.g. to "1gbit"."""
        self.run("sh", "-c", f"ip netns exec {host} tc qdisc replace dev eth0 root tbf rate {rate} "
                             "burst 512kb latency 50ms")

    def up(self):
        for name, address in self.hosts.items():
            self.make_host(name, address)
        self.run("slurmctld", "-c")
        for node in self.nodes:
            self.gpus_of("prepare", "--node", node)
            self.start(node)
        self.eventually(lambda: set(self.run("sinfo", "-h", "-N", "-o", "%T").split()) == {"idle"})

    def down(self):
        """Ends all daemons, and forgets everything."""
        for path in LAB.glob("slurm*.pid"):
            number = int(path.read_text())
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
            self.eventually(lambda number=number: not pathlib.Path(f"/proc/{number}").exists())
            path.unlink()
        for name in self.hosts:
            self.run("sh", "-c", f"ip link del {name} && ip netns del {name}")
        for name in ("state", "spool", STATE.name):
            shutil.rmtree(LAB / name, ignore_errors=True)

    def start(self, node):
        if node in self.hosts:
            self.run("ip", "netns", "exec", node, "unshare", "--uts", "sh", "-c",
                     f"hostname {node} && exec slurmd -N {node}")
        else:
            self.run("slurmd", "-N", node)

    def restart(self, node):
        """Starts a slurmd that was killed; returns when the controller should know. A request to
        end a job that comes earlier can make Slurm 22.05's slurmd wait for minutes, in its epilog,
        for an answer to its registration."""
        self.start(node)
        time.sleep(1)

    def crash(self, node, job=None):
        """Kills a node's slurmd and, with a job, all that it has started for that."""
        found = [int((LAB / f"slurmd-{node}.pid").read_text())]
        while found:
            for number in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            time.sleep(0.05)  # For those that have just been started.
            found = [] if job is None else processes_of(node, job)

    def run(self, *words, **options):
        """What a program says, which must succeed."""
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=SECONDS,
                              **options)
        if done.returncode != 0:
            raise RuntimeError(f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}"
                               f"{self.log()}")
        return done.stdout

    def log(self):
        """The end of the controller's log."""
        with contextlib.suppress(OSError):
            return "".join((LAB / "slurmctld.log").read_text().splitlines(True)[-20:])
        return ""

    def gpus_of(self, command, *words):
        return self.run(self.gpemu_slurm, command, *words, "--conf", self.description)

    def srun(self, *words, code=0, **options):
        """What tasks say; if `code` is not 0, how srun fails."""
        done = subprocess.run(["srun", "--quiet", *words], check=False, capture_output=True,
                              text=True, timeout=SECONDS, **options)
        if bool(done.returncode) != bool(code):
            raise RuntimeError(f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stderr if code else done.stdout

    def eventually(self, ask, seconds=SECONDS):
        until = time.monotonic() + seconds
        while not ask():
            if time.monotonic() > until:
                raise RuntimeError("waited in vain:\n" + self.run("sinfo", "-N", "-l") +
                                   self.run("squeue", "-l"))
            time.sleep(0.05)

    def left_on(self, node):
        """What jobs have left on a node."""
        names = {path.name for path in (STATE / node).iterdir()}
        if (STATE / "jobs").exists():
            names |= {path.name for path in (STATE / "jobs").iterdir()}
        return sorted(names - {"lock", "machine"})


def dead_on(node):
    """What steps have left on a node of which nothing lives."""
    dead = []
    for path in (STATE / node).glob("*@*.json"):
        with contextlib.suppress(FileNotFoundError):
            steps = json.loads(path.read_text())["steps"]
            if not any(alive(number) for number, _ in steps):
                dead.append(path.name)
    return dead


def processes_with(variable):
    """The processes that have started with a variable, "NAME=value"."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if variable.encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
    return found


def processes_of(node, job):
    """The processes of a job on a node, with those of Slurm for it."""
    found = processes_with(f"SLURMD_NODENAME={node}")
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (path / "cmdline").read_bytes().decode(errors="replace")
            if words.startswith((f"slurmstepd: [{job}.", "/usr/sbin/slurmstepd")):
                found.append(int(path.name))
    return [number for number in set(found) if alive(number)]


def alive(number):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def program(build, name):
    for folder in ("tools", "bin"):
        if (path := pathlib.Path(build).resolve() / folder / name).exists():
            return path
    sys.exit(f"slurm_test: {build} has no {name}; build it, or name another folder by --build")


def plug_in(build):
    path = pathlib.Path(build).resolve() / "lib/gpemu/gpemu_spank.so"
    if not path.exists():
        sys.exit(f"slurm_test: there is no {path}; install libslurm-dev by scripts/build/setup.sh, "
                 "and configure and build again")
    return path
