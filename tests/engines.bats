#!/usr/bin/env bats
# Jobs that other programs start: torchrun, Slurm without MPI, Kubernetes, mpirun without a plug-in. Their environment is set by
# hand where they are not installed.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

digits="train --model softmax --data synth:digits?examples=507 --batch 10 --quiet"

# A port that is free, and so is the next one.
free_port() {
    command python3 -SEc 'import socket
for port in range(20000 + '$$' % 10000, 32000):
    with socket.socket() as a, socket.socket() as b:
        try:
            a.bind(("", port)); b.bind(("", port + 1))
        except OSError:
            continue
    print(port)
    break'
}

# Starts ranks 0 .. N-1 with the variables of an engine, in which RANK is replaced. Their output is in out.RANK and err.RANK, their
# process ids in $ranks.
start_ranks() { # N "NAME=VALUE..." ARGUMENT...
    local n=$1 variables=$2 r
    shift 2
    ranks=
    rm -f err.* # the new ones are created later, in the background
    for r in $(seq 0 $((n - 1))); do
        # shellcheck disable=SC2086  # several variables
        env --default-signal=INT,QUIT ${variables//RANK_/$r} "$YOKE" "$@" >"out.$r" 2>"err.$r" 3>&- 4>&- &
        ranks="$ranks $!"
    done
}

# Waits for all of them. The exit status, stdout and stderr of the first one are those that expect() uses.
finish_ranks() { # SECONDS
    local pid code=0 first=
    timeout "$1" tail -s 0.05 -q -f /dev/null $(printf -- '--pid=%s ' $ranks) || { echo "did not end within $1 s"; tail -n 5 err.*; return 1; }
    for pid in $ranks; do
        code=0
        wait "$pid" || code=$?
        first=${first:-$code}
        codes="$codes $code"
    done
    status=$first
    cp out.0 out
    cp err.0 err
}

# Waits until stderr of rank 0 has this text.
wait_for_rank_0() { # TEXT
    for _ in $(seq 600); do
        ! grep -qsF -- "$1" err.0 || return 0
        pause 0.05
    done
    echo "rank 0 did not print '$1':"
    cat err.0
    return 1
}

torch() { # SIZE LOCAL_SIZE: the variables of torchrun
    echo "RANK=RANK_ WORLD_SIZE=$1 LOCAL_RANK=RANK_ LOCAL_WORLD_SIZE=$2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port"
}

same_model() { # RUN RUN
    cmp "$1"/checkpoints/step-17/model.safetensors "$2"/checkpoints/step-17/model.safetensors
}

@test "torchrun: jobs on one host and on two, with the same bits" {
    port=$(free_port)
    codes=
    start_ranks 3 "$(torch 3 3)" $digits --out one
    finish_ranks 60
    expect 0
    start_ranks 3 "$(torch 3 2) YOKE_TOKEN=$(openssl rand -hex 32)" $digits --out two
    finish_ranks 60
    expect 0
    start_ranks 3 "$(torch 3 2) YOKE_TOKEN=$(openssl rand -hex 32) YOKE_SHARED_MEMORY=0" $digits --out sockets --json
    finish_ranks 60
    expect 0
    equal "exit statuses" "$codes" " 0 0 0 0 0 0 0 0 0"
    grep -q '"transport":"sockets"' out
    same_model one two
    same_model one sockets
}

@test "rank 0 fails and cannot write the summary: the ranks that it ends do not write one that lacks the reason" {
    port=$(free_port)
    codes=
    local job="train --model softmax --data synth:digits?examples=6000 --batch 10 --epochs 9 --checkpoint-every 100 --log-every 9999"
    local variables
    variables="$(torch 2 2) YOKE_SHARED_MEMORY=0" # shared memory is limited, too
    (ulimit -f 3; exec env ${variables//RANK_/0} "$YOKE" $job --sample-every 0 --out run >out.0 2>err.0 3>&- 4>&-) &
    ranks=$!
    env ${variables//RANK_/1} "$YOKE" $job --sample-every 0 --out run >out.1 2>err.1 3>&- 4>&- &
    ranks="$ranks $!"
    finish_ranks 60
    expect 4 "model.safetensors: cannot write: File too large"
    equal "exit statuses" "$codes" " 4 1"
    [ ! -e run/summary.json ]
}

# YK_STRANGERS: connections to each port
@test "connections of strangers do not disturb the start of a job, or its bits" {
    port=$(free_port)
    codes=
    local variables
    variables="$(torch 3 2) YOKE_TOKEN=$(openssl rand -hex 32) YOKE_SHARED_MEMORY=0"
    start_ranks 3 "$variables" $digits --out one
    finish_ranks 60
    expect 0
    local patient="$digits --deadline 100" # rank 2 comes after the strangers
    start_ranks 2 "$variables" $patient --out two
    python3 "$BATS_TEST_DIRNAME/strangers.py" "${YK_STRANGERS:-400}" >made
    python3 "$BATS_TEST_DIRNAME/strangers.py" 100000 >later 3>&- &
    local strangers=$!
    env ${variables//RANK_/2} "$YOKE" $patient --out two >out.2 2>err.2 3>&- 4>&- &
    ranks="$ranks $!"
    finish_ranks 60
    expect 0
    same_model one two
    wait "$strangers"
    read -r ports _ files memory <made
    holds "$ports == 2 and $files < 300 and $memory < 20000"
    echo "# ports, connections, and additional files and kB of a process: $(cat made)" >&3
}

@test "torchrun itself starts jobs on one host and on two" {
    local torchrun=${YK_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/yoke/peers}/bin/torchrun
    [ -x "$torchrun" ] || torchrun=$(command -v torchrun) || skip "torchrun is not installed (./dev peers installs it)"
    status=0
    timeout 100 "$torchrun" --standalone --nproc-per-node 4 --no-python "$YOKE" $digits --out one >out 2>err || status=$?
    expect 0
    YOKE_TOKEN=$(openssl rand -hex 32)
    export YOKE_TOKEN
    local both="--nnodes 2 --nproc-per-node 2 --master-addr 127.0.0.1 --master-port $(free_port) --no-python"
    timeout 100 "$torchrun" --node-rank 1 $both "$YOKE" $digits --out two >out.1 2>err.1 3>&- 4>&- &
    local other=$!
    timeout 100 "$torchrun" --node-rank 0 $both "$YOKE" $digits --out two >out 2>err || status=$?
    expect 0
    wait $other
    cmp one/checkpoints/step-13/model.safetensors two/checkpoints/step-13/model.safetensors
}

@test "several hosts without a token, and wrong variables, are usage errors" {
    port=$(free_port)
    codes=
    start_ranks 2 "$(torch 3 2)" $digits --out none
    finish_ranks 20
    expect 2 "no job token" "YOKE_TOKEN_FILE" "openssl rand -hex 32"
    equal "exit statuses" "$codes" " 2 2"
    RANK=3 WORLD_SIZE=3 MASTER_ADDR=a MASTER_PORT=1 try $digits --out none
    expect 2 "RANK=3 must be less than WORLD_SIZE=3"
    RANK=0 WORLD_SIZE=1 try $digits --out none # not a job
    expect 0
    WORLD_SIZE=2 try $digits --out none
    expect 2 "WORLD_SIZE=2, but RANK"
    RANK=3 WORLD_SIZE=3 MASTER_ADDR=a MASTER_PORT=1 try $digits --launch 2 --out none
    expect 2 "RANK=3 must be less than WORLD_SIZE=3"
    for leftover in WORLD_SIZE=4 WORLD_SIZE=x "RANK=1 WORLD_SIZE=4" "RANK=1 WORLD_SIZE=4 MASTER_ADDR=a"; do
        status=0
        env $leftover "$YOKE" $digits --launch 2 --out none --json >out 2>err || status=$?
        expect 0
        equal "processes ($leftover)" "$(result_of ranks)" 2
    done
}

@test "a rank with another token is refused, and does not disturb the others" {
    port=$(free_port)
    codes=
    local token
    token=$(openssl rand -hex 32)
    start_ranks 2 "$(torch 2 1) YOKE_TOKEN=$token" $digits --out none
    status=0
    env $(torch 2 1 | sed s/RANK_/1/g) YOKE_TOKEN="${token//[0-4]/f}" timeout 20 "$YOKE" $digits --out none >out 2>wrong || status=$?
    # it may come after the others have ended
    grep -q -e "has a different token" -e "cannot connect" -e "no answer" wrong || [ "$status" -eq 124 ] || { cat wrong; return 1; }
    finish_ranks 60
    expect 0
}

@test "a job with processes of another size, or at a port that is taken: the status and the error say so" {
    port=$(free_port)
    codes=
    token=$(openssl rand -hex 32)
    env RANK=1 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 "MASTER_PORT=$port" "YOKE_TOKEN=$token" "$YOKE" $digits 3>&- 2>/dev/null &
    start_ranks 1 "$(torch 2 1) YOKE_TOKEN=$token" $digits
    finish_ranks 60
    expect 2 "connected as rank 1 of 3 to rank 0 of 2"
    python3 -c "import socket, time
s = socket.create_server(('', $((port + 1))))
print('ready', flush=True)
time.sleep(60)" >taken 3>&- &
    taken=$!
    until grep -q ready taken; do pause 0.1; done
    start_ranks 1 "$(torch 2 1) YOKE_TOKEN=$token" $digits
    finish_ranks 60
    kill $taken
    expect 4 "127.0.0.1:$((port + 1)): cannot listen: Address already in use" "set YOKE_PORT to a free port"
}

@test "the death of a rank is noticed at once, and named" {
    port=$(free_port)
    codes=
    start_ranks 3 "$(torch 3 3)" ${digits/--quiet/} --epochs 1000000 --out none
    wait_for_rank_0 "] step"
    local began
    began=$(date +%s%N)
    # shellcheck disable=SC2086
    kill -KILL "$(echo $ranks | cut -d ' ' -f 2)"
    finish_ranks 20
    expect 1 "rank 1"
    holds "($(date +%s%N) - $began) / 1e9 < 3"
}

@test "SIGTERM to any rank, or to all of them, saves one checkpoint and ends the job" {
    local victim mode
    for mode in "--mode sync" "--mode async --servers 1" "--mode async"; do
        for victim in 1 2 3 1-3; do
            port=$(free_port)
            codes=
            rm -rf run
            start_ranks 3 "$(torch 3 3)" ${digits/--quiet/} $mode --epochs 1000000 --out run
            wait_for_rank_0 "] step"
            # shellcheck disable=SC2046
            kill -TERM $(echo $ranks | cut -d ' ' -f $victim)
            finish_ranks 20
            expect 0 "stopped at step"
            equal "exit statuses of $mode, $victim" "$codes" " 0 0 0"
            equal "checkpoints of $mode, $victim" "$(find run/checkpoints -name DONE | wc -l)" 1
        done
    done
}

@test "SIGTERM to one rank while all load their data: all end with status 0" {
    local victim pid
    for victim in 1 3; do
        port=$(free_port)
        codes=
        start_ranks 3 "$(torch 3 3)" train --model softmax --data 'synth:digits?examples=400000' --out none --quiet
        for pid in $ranks; do # connected: it has mapped the memory of all three
            until [ "$(grep -c yoke-messages "/proc/$pid/maps")" -eq 3 ]; do pause 0.02; done
        done
        # shellcheck disable=SC2086
        kill -TERM "$(echo $ranks | cut -d ' ' -f $victim)"
        finish_ranks 20
        expect 0
        equal "exit statuses" "$codes" " 0 0 0"
    done
}

@test "a worker joins a job of an engine by the address of rank 0 and the job token" {
    port=$(free_port)
    codes=
    (umask 077 && openssl rand -hex 32 >token)
    start_ranks 2 "$(torch 2 1) YOKE_TOKEN_FILE=token" ${digits/--quiet/} --mode async --servers 1 --epochs 1000000 --out run
    wait_for_rank_0 "] step"
    timeout 60 "$YOKE" train --join "127.0.0.1:$((port + 1))" --token-file token >out.2 2>err.2 3>&- 4>&- &
    local joiner=$!
    wait_for_rank_0 "a worker has joined"
    local joined # it may train only once an evaluation has ended
    joined=$(grep -c '] step' err.0)
    until [ "$(grep -c '] step' err.0)" -gt $((joined + 1)) ]; do
        kill -0 "${ranks##* }" || { cat err.0; return 1; }
        pause 0.05
    done
    # shellcheck disable=SC2086
    kill -TERM $ranks
    finish_ranks 20
    expect 0 "a worker has joined; 2 are training now"
    wait $joiner
    grep 'trained on [1-9][0-9]* examples' err.2
}

@test "srun without MPI: the processes share a token in the run directory" {
    codes=
    start_ranks 3 "SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_PROCID=RANK_ SLURM_LOCALID=0 SLURM_STEP_NUM_TASKS=3 \
        SLURM_STEP_NUM_NODES=3 SLURM_STEP_NODELIST=localhost,b[01-02] YOKE_PORT=$(free_port)" $digits --out several
    finish_ranks 60
    expect 0
    [ ! -e several/token ]
    start_ranks 3 "SLURM_JOB_ID=$$ SLURM_STEP_ID=1 SLURM_PROCID=RANK_ SLURM_LOCALID=RANK_ SLURM_STEP_NUM_TASKS=3 \
        SLURM_STEP_NUM_NODES=1 SLURM_STEP_NODELIST=a" $digits --out one
    finish_ranks 60
    expect 0
    equal "exit statuses" "$codes" " 0 0 0 0 0 0"
    same_model one several
}

@test "mpirun without a plug-in: a job on one host runs without MPI" {
    command -v mpirun >/dev/null || skip "mpirun is not installed"
    status=0
    YK_MPI_PLUGIN=$PWD/none timeout 60 mpirun --oversubscribe -n 3 "$YOKE" ${digits/--quiet/} --json --out one >out 2>err || status=$?
    expect 0 "this job runs without MPI"
    grep -q '"transport":"shared memory"' out
}

@test "the Kubernetes example is valid, and runs as processes with the same environment" {
    local source=$BATS_TEST_DIRNAME/.. python=${YK_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/yoke/peers}/bin/python
    [ -x "$python" ] || python=python3
    status=0
    command "$python" "$source/tests/kubernetes.py" "$YOKE" "$source/examples/kubernetes/train.yaml" "$(free_port)" >out 2>err ||
        status=$?
    [ "$status" -ne 77 ] || skip "$(cat out)"
    expect 0
    ! grep '^skip: ' out || skip "$(sed 's/^skip: //' out)"
}
