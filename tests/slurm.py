"""A real Slurm of our own: so many nodes on 127.0.0.1, with two pretended GPUs each. Needs root, and Debian's packages."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

# as few jobs as show what is to be shown; the training is long enough to be stopped in its middle
CHANGES = ("fine_tune.steps=300", "fine_tune.checkpoints=[]", "prune.l0.seeds=1", "prune.l0.sparsity=0.4")
DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue")
CPUS, MEMORY = 2, 4000  # of a node, which are pretended: two nodes have more than this machine

CONFIG = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=500
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
ReturnToService=2
KillWait=2
NodeName=n[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs={cpus} RealMemory={memory} Gres=gpu:2
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=ALL MaxTime=1 State=UP
"""


def lacking() -> str:
    """Why there can be no Slurm here, or nothing."""
    missing = [name for name in DAEMONS if shutil.which(name) is None]
    if missing:
        return f"no {missing[0]}: apt-get install munge slurmctld slurmd slurm-client"
    if os.geteuid() != 0:
        return "a Slurm of one's own needs root"
    return ""


def free_ports(count: int) -> int:
    """The first of so many ports in a row that are free now."""
    for first in range(26_817, 60_000, count + 1):
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise RuntimeError("no free ports")


@contextmanager
def running(nodes: int) -> Iterator[Path]:
    """Gives the path of slurm.conf, which SLURM_CONF must name."""
    with tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # munged wants every folder above its socket open to all
        with daemons(Path(folder), nodes) as config:
            yield config


@contextmanager
def daemons(folder: Path, nodes: int) -> Iterator[Path]:
    host, port = socket.gethostname().partition(".")[0], free_ports(nodes + 1)
    named(host)
    (folder / "state").mkdir()
    (folder / "munge.key").touch(0o600)
    (folder / "munge.key").write_bytes(os.urandom(128))
    for gpu in range(2):
        os.mknod(folder / f"gpu{gpu}", 0o020666, os.makedev(1, 3))  # must be devices; these are /dev/null
    (folder / "gres.conf").write_text(f"NodeName=n[1-{nodes}] Name=gpu File={folder}/gpu[0-1]\n")
    facts = {"host": host, "port": port, "first": port + 1, "last": port + nodes, "nodes": nodes, "folder": folder}
    config = folder / "slurm.conf"
    config.write_text(CONFIG.format(**facts, cpus=CPUS, memory=MEMORY))
    environment = {**os.environ, "SLURM_CONF": str(config)}
    files = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munged.pid", "log-file": "munged.log"}
    munge = [f"--{name}={folder / file}" for name, file in {**files, "seed-file": "munged.seed"}.items()]
    commands = {
        "munged": ["munged", "-F", *munge],
        "slurmctld": ["slurmctld", "-D", "-f", str(config)],
        **{f"n{node}": ["slurmd", "-D", "-f", str(config), "-N", f"n{node}"] for node in range(1, nodes + 1)},
    }
    with ExitStack() as stack:
        for name, words in commands.items():
            log = stack.enter_context((folder / f"{name}.out").open("wb"))
            process = subprocess.Popen(words, env=environment, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            if name == "munged":
                wait(lambda: (folder / "munge.socket").is_socket(), folder)
        wait(lambda: idle(environment) == str(nodes), folder)
        stack.callback(subprocess.run, ["scancel", "-u", "root"], env=environment, capture_output=True, check=False, timeout=20)
        yield config


def named(host: str) -> None:
    """Daemons that listen on 127.0.0.1 alone look up the host's own name."""
    try:
        socket.gethostbyname(host)
    except OSError:
        with Path("/etc/hosts").open("a") as hosts:
            hosts.write(f"127.0.0.1 {host}\n")


def idle(environment: dict[str, str]) -> str:
    words = ["sinfo", "-h", "-p", "main", "-t", "idle", "-o", "%D"]
    try:
        return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=2).stdout.strip()
    except subprocess.TimeoutExpired:
        return ""


def wait(there: object, folder: Path) -> None:
    assert callable(there)
    until = time.monotonic() + 60
    while not there():
        if time.monotonic() > until:
            raise RuntimeError("\n".join(f"{path.name}: {path.read_text()[-500:]}" for path in folder.glob("*.out")))
        time.sleep(0.1)


def in_queue() -> list[str]:
    """Numbers of jobs that wait or run."""
    return subprocess.run(["squeue", "-h", "-o", "%i"], capture_output=True, text=True, check=True).stdout.split()
