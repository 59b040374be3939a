#!/usr/bin/env bats
# Processes with several worker threads: replicas, dedicated servers, and a shard in every process.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

digits='synth:digits?examples=1003'
clicks='synth:ctr?features=5000&examples=503'

@test "sync: P processes with T threads equal one worker with P * T times the batch" {
    # a few steps in two epochs; each way with a sparse and a dense model
    for model in "softmax --data synth:digits?examples=203 --lr 0.1 --optimizer momentum" \
        "logreg --data synth:ctr?features=5000&examples=203 --lr 0.3 --optimizer adagrad" \
        "logreg --data synth:ctr?features=5000&examples=203 --lr 0.3 --l2 1e-3" "lenet5 --data synth:digits?examples=80 --lr 0.02"; do
        in_time 60 train --model $model --batch 24 --epochs 2 --json --quiet --out "serial"
        expect 0
        loss=$(result_of train_loss)
        for way in "--launch 2 --workers 3 --servers 0" "--launch 2 --workers 3 --servers all" "--launch 3 --workers 3 --servers 1" \
            "--launch 4 --workers 3 --servers 2" "--launch 6 --servers all"; do
            case "$model $way" in *l2*"servers 0" | *l2*"servers 1" | lenet5*"servers 1" | lenet5*"launch 6"*) continue ;; esac
            in_time 60 train --model $model --batch 4 --epochs 2 $way --json --quiet --out run
            expect 0
            equal "workers ($way)" "$(result_of workers)" 6
            close "$(result_of train_loss)" "$loss"
            same_weights serial run
            rm -r run
        done
        rm -r serial
    done
}

@test "sync: the threads of a process that trains with a server give the same bits as threads without one" {
    for model in "logreg --data $clicks --l2 1e-3" "logreg --data synth:ctr?features=20000&examples=3000 --batch 400 --optimizer adagrad" \
        "fm:4 --data $clicks --lr 0.05"; do
        in_time 60 train --batch 5 --epochs 2 --workers 3 --quiet --out threads --model $model
        expect 0
        in_time 60 train --batch 5 --epochs 2 --workers 3 --launch 2 --servers 1 --quiet --out server --model $model
        expect 0
        cmp threads/checkpoints/*/model.safetensors server/checkpoints/*/model.safetensors
        rm -r threads server
    done
}

@test "sync: results are reproducible" {
    for way in "--servers 0" "--servers all" "--servers 1"; do
        for run in a b; do
            in_time 60 train --model logreg --data "$clicks" --batch 5 --epochs 2 --launch 3 --workers 2 $way --quiet --out $run
            expect 0
        done
        cmp a/checkpoints/*/model.safetensors b/checkpoints/*/model.safetensors
        rm -r a b
    done
}

@test "sync: a snapshot does not wait for gradients that the threads of the chief have yet to send" {
    in_time 60 train --model logreg --data 'synth:ctr?features=5000&examples=2000&test=50' --batch 5 --steps 600 --launch 3 --workers 4 \
        --servers all --eval-every 1 --quiet --out none
    expect 0
}

@test "servers: the number of serving threads does not change the results" {
    for job in "logreg --data synth:ctr?features=20000&examples=6000 --batch 1000 --optimizer adagrad --l2 1e-3" \
        "logreg --data synth:ctr?features=20000&examples=6000 --batch 1000 --optimizer ftrl --l1 1e-3 --mode async" \
        "fm:8 --data synth:ctr?features=5000&examples=2000 --batch 500 --lr 0.05" \
        "lenet5 --data synth:digits?examples=200 --batch 50 --lr 0.02 --local-steps 2"; do
        for threads in 1 3; do
            YOKE=$HOOKS YK_SERVING_THREADS=$threads in_time 60 train --model $job --epochs 2 --launch 2 --servers 1 --out run-$threads
            expect 0 "a parameter server with $threads thread"
        done
        cmp run-1/checkpoints/*/model.safetensors run-3/checkpoints/*/model.safetensors
        rm -r run-1 run-3
    done
}

@test "every example once per epoch: bounded, asynchronous, with a quorum, with local steps, streamed, resumed" {
    for way in "--mode async" "--staleness 4" "--mode async --servers 1" "--staleness 4 --servers 2" "--mode async --stream always" \
        "--local-steps 3" "--local-steps 3 --mode async" "--local-steps 3 --servers all" "--local-steps 3 --servers 1 --stream always" \
        "--stream always" "--stream always --servers 0" "--quorum 2"; do
        in_time 60 train --model logreg --data "$clicks" --batch 7 --epochs 2 --launch 4 --workers 2 $way --json --quiet --out run
        expect 0
        late=$(result_of late_examples)
        [ "$late" != null ] || late=0
        equal "examples ($way)" "$(($(result_of examples) + late))" 1006
        case $way in *quorum* | "--staleness 4" | "--mode async --servers 1" | "--local-steps 3 --mode async" | *"servers all" | *"servers 0") ;; *)
            in_time 60 train --out run --resume --epochs 3 --json --quiet
            expect 0
            equal "examples ($way, resumed)" "$(result_of examples)" 1509
            ;;
        esac
        rm -r run
    done
}

@test "staleness: the bound holds for all threads of all processes, and is reached" {
    for way in "--servers all" "--servers 1"; do
        YOKE=$HOOKS YK_SLOW_WORKER=1:3ms in_time 60 train --model softmax --data "$digits" --batch 5 --epochs 3 --launch 3 --workers 2 --staleness 3 \
            $way --json --quiet --out none
        expect 0
        # at most 2 K + 1 steps of each other worker
        most=$(tail -n 1 out | grep -o '"observed_staleness":{[^}]*' | grep -o '"max":[0-9.]*' | tr -dc 0-9.)
        holds "0 < $most <= ($(result_of workers) - 1) * 7"
    done
}

@test "dense parameters are fresh: --prefetch is for copies" {
    in_time 60 train --model softmax --data "$digits" --batch 5 --epochs 40 --launch 4 --servers 1 --mode async --json --quiet --out none
    expect 0
    equal prefetch "$(result_of prefetch)" 0
    mean=$(tail -n 1 out | grep -o '"observed_staleness":{[^}]*' | grep -o '"mean":[0-9.]*' | tr -dc 0-9.)
    holds "0 < $mean < 2.5" # of 2 other workers, one update each
    in_time 20 train --model softmax --data "$digits" --launch 2 --mode async --prefetch 1 --out none
    expect 2 "only copies are prefetched"
}

@test "stale gradients of a linear model do not overshoot, in threads, shards and servers" {
    # without the rule for the mean input (src/model/mean_input.h) the loss is 0.9 to 1.9, or training diverges; one worker: 1.0
    for job in "--workers 4" "--launch 2 --workers 2 --servers all" "--launch 5 --servers 1"; do
        # shellcheck disable=SC2086  # several words
        in_time 60 train --model softmax --data 'synth:digits?examples=6000&test=1000' --batch 20 --lr 2 --epochs 5 --mode async $job \
            --json --quiet --out none
        expect 0
        holds "$(result_of test_loss) < 0.7" # $job
    done
}

@test "--bind: processes are bound to NUMA nodes" {
    [ "$(nproc)" -gt 1 ] || skip "one core"
    mkdir -p sys/devices/system/node/node0 sys/devices/system/node/node1
    echo 0 >sys/devices/system/node/node0/cpulist
    echo 1 >sys/devices/system/node/node1/cpulist
    export YK_SYSFS=$PWD/sys
    YOKE=$HOOKS
    begin train --model softmax --data "$digits" --batch 2 --mode async --epochs 9999 --eval-every 100 --launch 2 --json --out run
    wait_for_step 100
    for rank in 0 1; do
        equal "cores of rank $rank" "$(sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$(rank_pid $rank)/status")" "$rank"
    done
    signal_rank TERM 0
    finish 20
    expect 0 "bound to its share of the 2 NUMA nodes"
    equal numa_nodes "$(result_of numa_nodes)" 2
    in_time 20 train --model softmax --data "$digits" --launch 2 --bind none --json --quiet --out none
    expect 0
    equal numa_nodes "$(result_of numa_nodes)" 0
    in_time 20 train --model softmax --data "$digits" --bind sockets --out none
    expect 2 "--bind sockets: the value must be one of: auto, none, numa"
}

@test "a killed process that owns a shard ends the job; --restarts resumes it" {
    begin train --model softmax --data "$digits" --batch 2 --mode async --epochs 20 --checkpoint-every 500 --eval-every 500 --deadline 2 \
        --launch 3 --workers 2 --restarts 1 --json --out run
    wait_for_step 500
    signal_rank KILL 1
    finish 60
    expect 0 "restart 1 of 1"
    equal examples "$(result_of examples)" 20060
}

@test "copies with chunks: every example once, also resumed within an epoch; as good as one worker" {
    big='synth:ctr?features=20000&examples=70003'
    in_time 60 train --model logreg --data "$big" --batch 10 --lr 0.05 --epochs 2 --json --quiet --out none
    expect 0
    loss=$(result_of test_loss)
    for way in "--launch 2 --workers 2" "--launch 5 --servers 1" "--launch 2 --workers 2 --staleness 8"; do
        in_time 60 train --model logreg --data "$big" --batch 10 --lr 0.05 --mode async --epochs 2 $way --json --quiet --out run
        expect 0
        equal "examples ($way)" "$(result_of examples)" 140006
        equal "copies in summary.json" "$(grep -c '"copies"' run/summary.json)" 1
        holds "$(result_of test_loss) < $loss + 0.02"
        rm -r run
    done
    # resumed in the middle of an epoch: the order continues, with another number of processes and in one process
    in_time 60 train --model logreg --data "$big" --batch 10 --mode async --steps 9000 --launch 2 --workers 2 --json --quiet --out run
    expect 0
    equal steps "$(result_of steps)" 9000
    for way in "--launch 3 --servers 1" "--launch 0 --workers 2"; do
        cp -r run more
        in_time 60 train --out more --resume --epochs 2 $way --json --quiet
        expect 0
        equal "examples (resumed with $way)" "$(result_of examples)" 140006
        rm -r more
    done
}

@test "copies of chunks: each key and each value is sent once per copy" {
    for way in "--launch 2" "--launch 3 --servers 1"; do
        in_time 60 train --model logreg --data 'synth:ctr?features=20000&examples=40000' --batch 100 --mode async --epochs 40 $way --json --quiet --out none
        expect 0
        # a push has a value per key; a pull has a key and a value
        read -r pushed _ < <(traffic push)
        read -r pulled _ < <(traffic pull)
        holds "1.8 * $pushed < $pulled < 2.2 * $pushed"
    done
}

@test "--workers auto: the cores that affinity allows, divided among the processes of a host" {
    command -v taskset >/dev/null || skip "taskset is not installed"
    local first
    first=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
    auto() { in_time 60 train --model softmax --data "$digits" --epochs 1 --workers auto --json --quiet --out none "$@"; expect 0; }
    auto
    equal "all cores" "$(result_of workers)" "$(nproc)"
    YOKE_ALL=$YOKE
    printf '#!/bin/sh\nexec taskset -c %s "%s" "$@"\n' "$first" "$YOKE_ALL" >one_core
    chmod +x one_core
    YOKE=$PWD/one_core auto
    equal "one core" "$(result_of workers)" 1
    auto --threads "$(nproc)"
    equal "threads of a worker use cores, too" "$(result_of workers)" 1
    auto --launch 2
    equal "two processes" "$(result_of workers)" "$(($(nproc) / 2 > 1 ? $(nproc) / 2 * 2 : 2))"
    try train --model softmax --data "$digits" --workers some --out none
    expect 2 "--workers some" "or auto"
}

@test "copies without chunks: a mapped cache uses every example once" {
    in_time 60 data gen 'synth:ctr?features=3000&examples=33000' --out clicks.cache
    expect 0
    for way in "--launch 2" "--launch 3 --servers 1"; do
        in_time 60 train --model logreg --data clicks.cache --mode async --batch 100 --epochs 2 $way --test none --json --quiet --out none
        expect 0
        equal "examples ($way)" "$(result_of examples)" 66000
    done
}

@test "copies with chunks: longer in a long run; a resumed run keeps the chunk length of its checkpoint" {
    big='synth:ctr?features=20000&examples=70003'
    in_time 60 train --model logreg --data "$big" --batch 100 --mode async --epochs 60 --launch 2 --json --quiet --out long
    expect 0
    equal "examples" "$(result_of examples)" 4200180
    grep -q '"lifetime": *40\b' long/summary.json
    in_time 60 train --model logreg --data "$big" --batch 100 --mode async --epochs 1 --launch 2 --json --quiet --out short
    expect 0
    grep -q '"lifetime": *20\b' short/summary.json
    # more epochs: the chunks of the checkpoint, not those of a long run
    in_time 60 train --out short --resume --epochs 60 --launch 2 --json --quiet
    expect 0
    equal "examples (resumed)" "$(result_of examples)" 4200180
    grep -q '"lifetime": *20\b' short/summary.json
    in_time 60 train --out long --resume --epochs 61 --launch 3 --servers 1 --json --quiet
    expect 0
    equal "examples (long, resumed)" "$(result_of examples)" 4270183
}
