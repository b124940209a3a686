#!/usr/bin/env bash
# slurm_local.sh start FOLDER | stop FOLDER: a Slurm of one node on this machine, for tests; needs root and the packages
# slurm-wlm and munge. `start` prints the SLURM_CONF to use. Without systemd and cgroups: the process tracker and the task
# plugin that want them are replaced. Credentials are short-lived, since a requeued job waits until its old one has expired.
set -euo pipefail
command=${1:-} folder=${2:-}
[ -n "$folder" ] || { echo "slurm_local.sh: start FOLDER or stop FOLDER" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "slurm_local.sh: needs root" >&2; exit 5; }
for program in slurmctld slurmd munged; do
    command -v "$program" > /dev/null || { echo "slurm_local.sh: $program is missing (packages slurm-wlm, munge)" >&2; exit 5; }
done
export SLURM_CONF=$folder/slurm.conf
host=$(hostname -s)

free_port() {
    python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

case $command in
    start)
        mkdir -p "$folder"/{state,spool,log,munge}
        chown munge: "$folder/munge" && chmod 711 "$folder/munge"
        head -c128 /dev/urandom > "$folder/munge/key"
        chown munge: "$folder/munge/key" && chmod 400 "$folder/munge/key"
        setpriv --reuid=munge --regid=munge --clear-groups munged --force --socket="$folder/munge/sock" \
            --key-file="$folder/munge/key" --log-file="$folder/munge/log" --pid-file="$folder/munge/pid" \
            --seed-file="$folder/munge/seed" > "$folder/log/munged" 2>&1 || { cat "$folder/log/munged" >&2; exit 1; }
        memory=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 1024 - 512))
        cat > "$SLURM_CONF" << END
ClusterName=lab
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/sock,cred_expire=5
CredType=cred/munge
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.log
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc=$folder/jobcomp.txt
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=100000,batch_sched_delay=0
ReturnToService=2
SlurmdTimeout=30
MinJobAge=3600
KillWait=5
MailProg=/bin/true
PropagateResourceLimits=NONE
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) Boards=1 SocketsPerBoard=1 CoresPerSocket=$(nproc) ThreadsPerCore=1 RealMemory=$memory State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=second Nodes=ALL MaxTime=INFINITE State=UP
END
        slurmctld -f "$SLURM_CONF" > "$folder/log/start" 2>&1
        slurmd -f "$SLURM_CONF" -N "$host" >> "$folder/log/start" 2>&1
        for _ in $(seq 150); do
            [ "$(sinfo -h -o %T 2> /dev/null)" = idle ] && echo "$SLURM_CONF" && exit 0
            sleep 0.1
        done
        echo "slurm_local.sh: the node does not come up; see $folder/log" >&2
        exit 1
        ;;
    stop)
        scancel -u "$(id -un)" 2> /dev/null || true
        scontrol shutdown 2> /dev/null || true
        for name in slurmctld.pid slurmd.pid munge/pid; do
            pid=$(cat "$folder/$name" 2> /dev/null || true)
            [ -n "$pid" ] || continue
            kill "$pid" 2> /dev/null || true
            for _ in $(seq 100); do
                kill -0 "$pid" 2> /dev/null || break
                sleep 0.1
            done
        done
        ;;
    *)
        echo "slurm_local.sh: start FOLDER or stop FOLDER" >&2
        exit 2
        ;;
esac
