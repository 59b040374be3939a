#!/bin/sh
# Jobs under Slurm: sh tests/slurm.sh BUILD/yoke. A cluster of this one machine, which plays two nodes, is started in a temporary
# directory (munged, slurmctld, slurmd with their own configuration, keys, ports and logs), `srun` runs jobs on it, with and
# without MPI, and everything is stopped again.
# Exit status: 0 passed, 77 skipped (the last line says why), anything else failed.
set -u

yoke=$(realpath "${1:?names the program to test}") || exit 1
scripts=$(dirname "$(realpath "$0")")/../deploy
PATH=$PATH:/usr/sbin:/sbin # where daemons are
for program in munged slurmctld slurmd srun sbatch sinfo scancel; do
    command -v $program >/dev/null || { echo "$program is not installed (./dev slurm-test installs it)"; exit 77; }
done

directory=$(mktemp -d /tmp/yks.XXXXXX) || exit 1
cd "$directory" || exit 1
pids=

# Stops the daemons in turn, by force where necessary.
# shellcheck disable=SC2317  # the trap calls it
clean() {
    trap - EXIT INT TERM
    for pid in $pids; do
        kill "$pid" 2>/dev/null
        for _ in $(seq 20); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -9 "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    cd / && rm -rf "$directory"
}
trap clean EXIT
trap 'exit 1' INT TERM

fail() {
    echo "FAILED: $*"
    for file in err out slurmctld.log slurmd.log slurmd2.log munged.log; do
        [ ! -s $file ] || { echo "---- $file"; tail -n 15 $file; }
    done
    exit 1
}

start() { # NAME COMMAND...
    name=$1
    shift
    "$@" >"$name.log" 2>&1 &
    pids="$! $pids"
}

# Free ports. A port may collide with another program's; then the daemon reports it.
port=$((20000 + $$ % 20000))
who=$(id -un)
machine=$(hostname -s)

mkdir state spool "spool/$machine" spool/localhost || exit 1
dd if=/dev/urandom of=munge.key bs=128 count=1 2>/dev/null && chmod 600 munge.key || exit 1
cat >slurm.conf <<END
ClusterName=yoke
SlurmctldHost=$machine(127.0.0.1)
SlurmUser=$who
SlurmdUser=$who
AuthType=auth/munge
AuthInfo=socket=$directory/munge.socket
SlurmctldPort=$port
StateSaveLocation=$directory/state
SlurmdSpoolDir=$directory/spool/%n
SlurmctldPidFile=$directory/slurmctld.pid
SlurmdPidFile=$directory/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
MpiDefault=none
SlurmdParameters=config_overrides
KillWait=2
NodeName=$machine NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=4 State=UNKNOWN
NodeName=localhost NodeHostname=$machine NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=4 State=UNKNOWN
PartitionName=all Nodes=$machine,localhost Default=YES MaxTime=5 State=UP OverSubscribe=FORCE:4
END
export SLURM_CONF="$directory/slurm.conf"
# Newer versions of slurmd do not start without control groups, unless they are disabled; 22.05 cannot disable them.
case $(slurmd -V) in
*" 2"[01].* | *" 22."*) ;;
*) echo CgroupPlugin=disabled >cgroup.conf ;;
esac

srun --mpi=list 2>&1 | grep -q pmix || { echo "Slurm was built without PMIx"; exit 77; }

start munged munged --foreground --force --socket="$directory/munge.socket" --key-file="$directory/munge.key" \
    --pid-file="$directory/munged.pid" --log-file="$directory/munged.out" --seed-file="$directory/munge.seed"
for _ in $(seq 50); do
    [ -S munge.socket ] && break
    sleep 0.1
done
start slurmctld slurmctld -D -f "$SLURM_CONF"
start slurmd slurmd -D -f "$SLURM_CONF" -N "$machine"
start slurmd2 slurmd -D -f "$SLURM_CONF" -N localhost
for _ in $(seq 150); do
    [ "$(sinfo -h -o '%T %D' 2>/dev/null)" = "idle 2" ] && break
    sleep 0.2
done
[ "$(sinfo -h -o '%T %D' 2>/dev/null)" = "idle 2" ] || fail "the cluster did not become ready: $(sinfo 2>&1)"

mpi=pmix nodes=1
job() { # PROCESSES ARGUMENT...
    ranks=$1
    shift
    timeout -k 2 60 srun --mpi=$mpi --nodes=$nodes -n "$ranks" "$yoke" "$@" >out 2>err
}

says() { # WORDS
    grep -qF -- "$1" out || fail "the results do not contain $1"
}

set -- train --model softmax --data 'synth:digits?examples=507' --batch 10 --json --quiet

job 3 "$@" --out replicas || fail "replicas: exit status $?"
says '"ranks":3,"servers":0'
says '"examples":507'
timeout 60 "$yoke" "$@" --launch 3 --out launched >out 2>err || fail "--launch: exit status $?"
cmp replicas/checkpoints/step-17/model.safetensors launched/checkpoints/step-17/model.safetensors ||
    fail "the results of srun and --launch differ"
echo "replicas: the same bits as with --launch"

mpi=none
job 3 "$@" --out without || fail "without MPI: exit status $?"
nodes=2
job 3 "$@" --out nodes || fail "two nodes without MPI: exit status $?"
for run in without nodes; do
    cmp replicas/checkpoints/step-17/model.safetensors $run/checkpoints/step-17/model.safetensors ||
        fail "$run: the results with and without MPI differ"
    [ ! -e $run/token ] || fail "$run/token was left behind"
done
job 3 "$@" --out none
status=$?
[ $status -eq 2 ] || fail "two nodes without a token: exit status $status, not 2"
grep -qF "YOKE_TOKEN_FILE" err || fail "the error does not name YOKE_TOKEN_FILE"
openssl rand -hex 32 >token && chmod 600 token
YOKE_TOKEN_FILE=$directory/token job 3 "$@" --mode async --servers 1 --out none || fail "a token: exit status $?"
says '"ranks":3,"servers":1'
echo "without MPI, on one node and on two: ok"
mpi=pmix nodes=1

job 3 "$@" --servers 1 --out servers || fail "a server: exit status $?"
says '"ranks":3,"servers":1'
says '"examples":507'
echo "a server and two workers: ok"

job 3 "$@" --mode async --out async || fail "async: exit status $?"
says '"mode":"async"'
says '"examples":507'
echo "asynchronous: ok"

job 2 "$@" --servers 2 --out none
status=$?
[ $status -eq 2 ] || fail "usage error: exit status $status, not 2"
grep -qF -- "--servers 2" err || fail "the usage error does not name --servers 2"
echo "usage error: exit status 2"

job 1 "$@" --servers 1 --out none
status=$?
[ $status -eq 2 ] || fail "one process with --servers: exit status $status, not 2"
echo "one process with --servers: exit status 2"

# Batch scripts, as users submit them. sbatch --wait would look only every ten seconds.
submit() { # ARGUMENT...: sets $id
    id=$(YOKE=$yoke timeout -k 2 60 sbatch --parsable --time=5 "$@" 2>err) || fail "sbatch $*: exit status $?"
}
becomes() { # STATE
    for _ in $(seq 600); do
        state=$(squeue -h -t all -j "$id" -o %T)
        case $state in
        "$1") return 0 ;;
        COMPLETED | FAILED | CANCELLED | TIMEOUT) return 1 ;;
        esac
        sleep 0.1
    done
    return 1
}
options=$(echo "$*" | sed 's/^train //') # no option has a space in it
cp "$scripts/slurm-train.sh" . || fail "there is no $scripts/slurm-train.sh"
# shellcheck disable=SC2086  # several words
submit --ntasks=3 --output=batch.out ./slurm-train.sh $options --out batch
becomes COMPLETED || fail "slurm-train.sh: $state: $(tail -n 15 batch.out)"
grep -q '"ranks": *3' batch/summary.json || fail "sbatch: $(cat batch/summary.json)"
cmp batch/checkpoints/step-17/model.safetensors replicas/checkpoints/step-17/model.safetensors || fail "sbatch: other bits than srun"
echo "deploy/slurm-train.sh by sbatch: ok"

# A sweep; the second one continues the first, which had ended, and trains nothing. The signal that Slurm sends before the time
# limit ends a sweep and queues it again.
cat >grid.ini <<'END'
[sweep]
repeats = 1
epochs = 1
[train]
model = softmax
data = synth:digits?examples=200
[grid]
batch = 10 20
END
sweep() { submit --output=sweep.out "$scripts/slurm-sweep.sh" grid.ini --quiet; }
written=
for number in 1 2; do
    sweep
    becomes COMPLETED || fail "slurm-sweep.sh: $state: $(tail -n 15 sweep.out)"
    [ "$(find runs/grid -name summary.json | wc -l)" = 2 ] || fail "slurm-sweep.sh: $(ls runs/grid/*): $(tail -n 15 sweep.out)"
    before=$written
    written=$(stat -c %y runs/grid/*/summary.json)
    [ $number = 1 ] || [ "$written" = "$before" ] || fail "slurm-sweep.sh trained again what was there"
done
sed -i 's/epochs = 1/epochs = 100000/' grid.ini
rm -r runs/grid
sweep
for _ in $(seq 200); do
    ls runs/grid/*/metrics.jsonl >/dev/null 2>&1 && break
    sleep 0.1
done
scancel --signal=USR1 --batch "$id"
becomes PENDING || fail "slurm-sweep.sh was not queued again: $state: $(tail -n 15 sweep.out)"
scancel "$id"
echo "deploy/slurm-sweep.sh by sbatch: ok, also its second run, and queued again by SIGUSR1"

# Slurm ends a job with SIGTERM to all processes, and SIGKILL some time later.
job 3 "$@" --steps 10000000 --out stopped &
waiting=$!
for _ in $(seq 200); do
    [ -s stopped/metrics.jsonl ] && break
    sleep 0.1
done
sleep 0.5
scancel --signal=TERM --me >/dev/null 2>&1 || scancel --signal=TERM -u "$who"
wait $waiting
[ -n "$(ls stopped/checkpoints/step-*/DONE 2>/dev/null)" ] || fail "SIGTERM did not save"
echo "SIGTERM from scancel: saved"
exit 0
