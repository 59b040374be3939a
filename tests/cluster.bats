#!/usr/bin/env bats
# Jobs of several processes: results equal those of one process, traffic is accounted for, and inconsistent processes are
# rejected. cluster_faults.bats tests faults, cluster_netns.bats networks.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

digits='synth:digits?examples=507'
clicks='synth:ctr?features=5000&examples=1003'

# N workers with batch b equal one process with batch N b up to rounding, for each placement; repeated runs are bit-identical.
equals_serial() { # BATCH OPTION...
    local batch=$1 n way loss test
    shift
    for n in 2 3; do
        in_time 60 train "$@" --batch $((n * batch)) --quiet --json --out "serial-$n"
        expect 0
        loss=$(result_of train_loss) test=$(result_of test_loss) steps=$(result_of steps)
        for way in 0 1 2; do
            [ $((n + way)) -le 4 ] || continue
            in_time 60 train "$@" --batch "$batch" --launch $((n + way)) --servers $way --quiet --json --out "run-$n-$way"
            expect 0
            equal workers "$(result_of workers) of $(result_of ranks), $(result_of servers) servers" "$n of $((n + way)), $way servers"
            equal steps "$(result_of steps)" "$steps"
            close "$(result_of train_loss)" "$loss"
            close "$(result_of test_loss)" "$test"
            same_weights "serial-$n" "run-$n-$way"
        done
    done
    # replicas: see the tests of shared memory and of resumed jobs
    in_time 60 train "$@" --batch "$batch" --launch 4 --servers 2 --quiet --out again
    expect 0
    same_bits run-2-2 again
}

@test "softmax: N synchronous workers equal one with N times the batch; results are reproducible" {
    equals_serial 10 --model softmax --data "$digits" --epochs 2 --lr 0.3
}

@test "softmax: the same for an optimizer with state, and with four replicas" {
    one="train --model softmax --data $digits --optimizer momentum --lr 0.05 --l2 1e-4 --quiet --json"
    in_time 60 $one --batch 28 --out serial
    expect 0
    loss=$(result_of train_loss)
    for way in 0 1 2; do
        in_time 60 $one --batch $((way ? 14 : 7)) --launch $((way ? 2 + way : 4)) --servers $way --out run-$way
        expect 0
        close "$(result_of train_loss)" "$loss"
        same_weights serial run-$way
    done
}

@test "logreg on sparse data: N synchronous workers equal one with N times the batch; results are reproducible" {
    equals_serial 20 --model logreg --data "$clicks" --lr 0.5
}

@test "logreg: the same for ftrl, which has state per key" {
    one="train --model logreg --data $clicks --optimizer ftrl --l1 0.01 --quiet --json"
    in_time 60 $one --batch 40 --out serial
    expect 0
    loss=$(result_of train_loss)
    for way in 0 1 2; do
        in_time 60 $one --batch 20 --launch $((2 + way)) --servers $way --out run-$way
        expect 0
        close "$(result_of train_loss)" "$loss"
        same_weights serial run-$way
    done
}

@test "logreg on sparse rows with values: threads, shards and servers give the same bits" {
    awk 'BEGIN { print "y,a,b,c"; for (i = 1; i <= 300; i++) { a = sin(7 * i); b = cos(i * i); print (a > b / 2) "," a "," b "," i % 9 } }' >values.csv
    for optimizer in sgd ftrl; do
        one="train --model logreg --data values.csv?categorical=c&encode=onehot --optimizer $optimizer --lr 1 --batch 7 --epochs 2 --quiet"
        in_time 60 $one --workers 2 --out threads-$optimizer
        expect 0
        for way in 0 1 2; do
            in_time 60 $one --launch $((2 + way)) --servers $way --out run-$optimizer-$way
            expect 0
            same_bits threads-$optimizer run-$optimizer-$way
        done
    done
}

@test "lenet5: N synchronous workers equal one with N times the batch; results are reproducible" {
    equals_serial 8 --model lenet5 --data 'synth:digits?examples=120' --lr 0.02
}

@test "the placement depends on model and mode, and is reported" {
    for line in "replicas:--model softmax --data $digits" "shards:--model softmax --data $digits --mode async" \
        "shards:--model logreg --data $clicks" "replicas:--model softmax --data $digits --local-steps 4"; do
        in_time 60 train ${line#*:} --launch 3 --out none --json
        expect 0
        equal placement "$(result_of placement)" "\"${line%%:*}\""
    done
}

@test "every example once: indivisible sizes, 1 to 4 ranks, in memory and streamed, sync and async" {
    for ranks in 1 2 3 4; do
        for way in "--stream never" "--stream always"; do
            case "$ranks$way" in 3*never | 4*always) continue ;; esac
            for mode in "" "--servers 1" "--servers 1 --mode async" "--servers 2 --staleness 2"; do
                case "$ranks$mode" in 1?* | 2*2* | [34]*1) continue ;; esac
                in_time 60 train --model logreg --data 'synth:ctr?features=500&examples=211' --test none --batch 9 \
                    --epochs 3 $way --launch $ranks --out none --quiet --json $mode
                expect 0
                equal "examples ($ranks $way $mode)" "$(result_of examples)" 633
                equal ranks "$(result_of ranks)" $ranks
            done
        done
    done
}

@test "files: each worker reads its share of the blocks, and together they train on all examples" {
    in_time 60 data gen 'synth:ctr?features=1000&nnz=9&examples=3001' --out clicks.tfrecord
    expect 0
    one="train --model logreg --data tfrecord:clicks.tfrecord?block=20000 --features 1000 --test none --quiet --json"
    in_time 60 $one --batch 30 --out serial
    expect 0
    for way in 0 1; do
        in_time 60 $one --batch 10 --launch $((3 + way)) --servers $way --out run-$way
        expect 0
        equal examples "$(result_of examples)" 3001
        same_weights serial run-$way
    done
    # 18 blocks: only one worker reads the truncated one
    truncate -s -7 clicks.tfrecord
    in_time 60 $one --batch 10 --launch 3 --servers 0 --out none
    expect 3 "clicks.tfrecord"
}

@test "uneven work: fewer examples than workers, one more batch than the others, --steps within an epoch" {
    for examples in 1 7; do
        for mode in "--servers 0" "--servers 1" "--servers 2 --mode async" "--servers 2 --staleness 1"; do
            in_time 60 train --model softmax --data "synth:digits?examples=$examples" --test none --batch 2 --epochs 2 \
                --launch 4 --out none --quiet --json $mode
            expect 0
            equal "examples ($examples $mode)" "$(result_of examples)" $((2 * examples))
        done
    done
    for mode in "--servers 0" "--servers 1" "--servers 1 --mode async"; do
        in_time 60 train --model softmax --data "$digits" --batch 10 --steps 23 --launch 4 --out none --quiet --json $mode
        expect 0
        equal "steps ($mode)" "$(result_of steps)" 23
    done
}

@test "quorum and local steps: jobs end, and the model learns" {
    one="train --model softmax --data $digits --batch 10 --epochs 4 --out none --quiet --json"
    in_time 60 $one --launch 4 --servers 1 --quorum 2
    expect 0
    holds "$(result_of test_accuracy) > 0.5"
    in_time 60 $one --launch 3 --local-steps 5
    expect 0
    equal examples "$(result_of examples)" 2028
    holds "$(result_of test_accuracy) > 0.5"
}

@test "--local-steps 1 equals synchronous sgd: the mean is weighted, and workers without examples do not count" {
    # the last batches of an epoch have 20, 7 and 0 examples; 13, 0 and 0
    for what in "--model softmax --data $digits --batch 20" "--model logreg --data $clicks --batch 30 --class-weight 1=5"; do
        in_time 60 train $what --launch 3 --epochs 2 --lr 0.3 --quiet --json --out all
        expect 0
        loss=$(result_of test_loss)
        for way in "3 --servers 0" "4 --servers 1" "5 --servers 2"; do
            in_time 60 train $what --launch $way --local-steps 1 --epochs 2 --lr 0.3 --quiet --json --out one
            expect 0
            close "$(result_of test_loss)" "$loss"
            same_weights all one
            rm -r one
        done
        rm -r all
    done
}

@test "--local-steps has no effect in one process" {
    for mode in sync async; do
        in_time 60 train --model softmax --data "$digits" --batch 10 --mode $mode --out without-$mode --json --quiet
        expect 0
        in_time 60 train --model softmax --data "$digits" --batch 10 --mode $mode --local-steps 5 --out with-$mode --json
        expect 0 "--local-steps has no effect in one process"
        same_weights without-$mode with-$mode
    done
}

@test "traffic: bytes sent equal bytes received over all ranks, for each purpose" {
    for line in "--servers 0" "--servers 1" "--servers 2" "--servers 1 --mode async" "--servers 2 --staleness 3" \
        "--local-steps 3"; do
        for what in "--model softmax --data $digits" "--model logreg --data $clicks"; do
            in_time 60 train $what --batch 10 --launch 4 $line --out none --quiet --json
            expect 0
            equal "bytes ($line)" "$(result_of bytes_sent)" "$(result_of bytes_received)"
            [ "$(result_of bytes_sent)" -gt 10000 ]
            for purpose in pull push all-reduce control; do
                read -r sent received messages messages_received <<<"$(traffic $purpose)"
                equal "$purpose ($what $line)" "$received" "$sent"
                equal "messages for $purpose ($what $line)" "$messages_received" "$messages"
                [ -n "$messages" ]
            done
            read -r sent received _ <<<"$(traffic all-reduce)"
            case "$what $line" in
            *softmax*"servers 0"* | *softmax*local*) [ "$sent" -gt 0 ] ;; # replicas
            *) [ "$sent" -eq 0 ] ;;
            esac
        done
    done
    # a single process sends nothing
    in_time 60 train --model softmax --data "$digits" --out none --quiet --json
    equal bytes "$(result_of bytes_sent) $(result_of bytes_received)" "0 0"
}

@test "traffic: for a sparse model only the keys of the batches are sent" {
    for way in "--launch 3 --servers 1" "--launch 4 --servers 2 --mode async" "--launch 2 --servers 0"; do
        in_time 60 train --model logreg --data 'synth:ctr?features=3000000&nnz=39&examples=3000' --test none --batch 100 \
            $way --out none --quiet --json
        expect 0
        sum=0
        for purpose in pull push all-reduce; do
            read -r sent received _ <<<"$(traffic $purpose)"
            sum=$((sum + sent))
        done
        # a batch has at most 3,900 different keys: 4 bytes each as a key, as a value and as a gradient; a dense vector has 12 MB
        [ $sum -lt $((30 * (3900 * 12 + 1500))) ] && [ $sum -gt $((30 * 39 * 12)) ] || { echo "$way: $sum bytes"; false; }
        read -r sent received _ <<<"$(traffic control)" # initial values for a second server; no snapshot, because nobody uses it
        [ "$sent" -lt 8000000 ] || { echo "$way: $sent bytes"; false; }
    done
}

@test "evaluation during training: servers send only the weights that the test set reads" {
    data='synth:ctr?examples=800&features=300000&test=100'
    for way in "--servers 0" "--servers all" "--launch 3 --servers 1"; do
        in_time 60 train --model fm:2 --data "$data" --batch 100 --epochs 4 --launch 2 $way --json --quiet --out run
        expect 0
        losses=$(sed -n 's/.*"kind":"eval".*"test_loss":\([^,]*\),.*/\1/p' run/metrics.jsonl)
        equal "evaluations" "$(wc -w <<<"$losses")" 5
        [ "$way" != "--servers 0" ] || expected=($losses)
        i=0
        for loss in $losses; do
            close "$loss" "${expected[i++]}"
        done
        rm -r run
    done
    in_time 60 train --model logreg --data "$data" --batch 100 --epochs 8 --launch 2 --servers all --mode async --json --quiet --out none
    expect 0
    read -r sent _ <<<"$(traffic control)" # half of 1.2 MB twice: the initial parameters, and those at the end
    holds "$sent < 1500000"
}

@test "traffic: replicas send the minimum for an all-reduce" {
    in_time 60 train --model softmax --data "$digits" --batch 13 --launch 3 --out none --quiet --json
    expect 0
    read -r sent received _ <<<"$(traffic all-reduce)"
    # each of 3 ranks sends 2 (N - 1) / N of the parameters plus message headers, per step and once at the end of the epoch; rows of
    # ten classes are padded to twelve
    holds "1 <= $sent / (($(result_of steps) + 1) * 4 * 785 * 12 * 4) < 1.01"
}

@test "inconsistent processes: errors name the rank" {
    one="train --model softmax --data $digits --batch 10 --out none --quiet"
    in_time 60 $one --servers 1
    expect 2 "--servers" "--launch N"
    in_time 60 $one --quorum 2
    expect 2 "--quorum"
    by_mpirun -n 1 yoke $one --servers 1
    expect 2 "this job has one"
    by_mpirun -n 2 yoke $one --launch 3
    expect 2 "--launch 3, but the job has 2 processes"
    by_mpirun -n 1 yoke $one --launch 4
    expect 2 "--launch 4, but the job has 1 process"
    by_mpirun -n 1 yoke $one : -n 1 yoke $one --lr 0.2
    expect 2 "rank 1 has different options"
    fm="train --model fm:2 --data synth:ctr?features=100&examples=100 --out none"
    by_mpirun -n 1 yoke $fm --lr keyed=0.1 : -n 1 yoke $fm --lr keyed=0.2
    expect 2 "rank 1 has different options"
    by_mpirun -n 2 yoke $one --servers 1 : -n 1 yoke $one --servers 1 --seed 9
    expect 2 "rank 2 has different options"
    in_time 60 $one --launch 2 --servers 2
    expect 2 "leaves no worker"
    in_time 60 $one --launch 2 --servers 0 --mode async
    expect 2 "--servers 0 (replicas) needs --mode sync"
    in_time 60 $one --launch 3 --servers 1 --quorum 3
    expect 2 "--quorum 3, but there are only 2 processes that train"
    in_time 60 $one --launch 2 --local-steps 3 --staleness 2
    expect 2 "--local-steps"
    in_time 60 $one --hosts a:x
    expect 2 "--hosts a:x"
    in_time 60 $one --hostfile none-such
    expect 2 "none-such"
    in_time 60 $one --hostfile none-such --hosts a
    expect 2 "--hosts and --hostfile cannot be used together"
    in_time 60 $one --hosts a:2 --launch 3
    expect 2 "--launch 3: the hosts have only 2 slots"
    in_time 60 $one --launch 2 --mpi-options '--mca btl tcp'
    expect 2 "unknown option --mpi-options; yoke no longer starts mpirun; to use MPI, start the job with mpirun ... yoke train"
    in_time 60 $one --launch 1 --servers 1
    expect 2 "--servers and --quorum need several processes; this job has one"
    in_time 60 train --model softmax --data none-such --launch 3 --out none
    expect 3 "none-such"
}

@test "inconsistent processes: another program, or other data under the same name" {
    cp "$YOKE" other
    cp "${YOKE%/*}"/yoke-mpi-*.so .
    printf 'x' >>other
    by_mpirun -n 2 yoke train --model softmax --data "$digits" --out none --quiet : \
        -n 1 ./other train --model softmax --data "$digits" --out none --quiet
    expect 2 "rank 2 runs a different version"
    mkdir a b c
    for i in 1 2 3 4 5 6 7 8; do echo "$((i % 2)) $((i % 5 + 1)):1.5"; done >a/x.libsvm
    sed 's/^0 3/0 4/' a/x.libsvm >c/x.libsvm
    { cat a/x.libsvm; echo "1 1:1"; } >b/x.libsvm
    one="train --model logreg --data libsvm:x.libsvm --features 9 --test none --out none --quiet"
    for way in "--servers 0" "--servers 1"; do
        by_mpirun -n 2 --wdir a yoke $one $way : -n 1 --wdir b yoke $one $way
        [ "$status" -eq 2 ] || [ "$status" -eq 3 ]
        expect "$status" "rank 2 has different data"
        by_mpirun -n 2 --wdir a yoke $one $way : -n 1 --wdir c yoke $one $way
        [ "$status" -eq 2 ] || [ "$status" -eq 3 ]
        expect "$status" "rank 2 has different data"
        by_mpirun -n 2 --wdir a yoke $one $way : -n 1 --wdir a yoke $one $way
        expect 0
    done
}

@test "mpirun and --launch start the same job; log lines have the rank, results are printed once" {
    by_mpirun -n 3 yoke train --model softmax --data "$digits" --batch 10 --json --out plain
    expect 0 "[0] "
    equal "lines of results" "$(grep -c '"model"' out)" 1
    in_time 60 train --model softmax --data "$digits" --batch 10 --json --out launched --launch 3
    expect 0 "[0] "
    equal "lines of results" "$(wc -l <out)" 1
    same_bits plain launched
    YOKE_SHARED_MEMORY=0 in_time 60 train --model softmax --data "$digits" --batch 10 --quiet --out tcp --launch 3
    expect 0
    same_bits plain tcp
}

@test "replicas on one host: shared memory gives the same bits and counts the same bytes as messages" {
    for one in "lenet5 --batch 33 --epochs 2 --launch 2" "softmax --batch 10 --optimizer adam --launch 3" \
        "lenet5 --batch 33 --launch 4"; do
        in_time 60 train --data "$digits" --model $one --servers 0 --json --out memory
        expect 0 "all-reduced through shared memory"
        read -r sent received _ <<<"$(traffic all-reduce)"
        YOKE_SHARED_MEMORY=0 in_time 60 train --data "$digits" --model $one --servers 0 --json --out messages
        expect 0 "gradients are all-reduced"
        does_not_say "shared memory"
        read -r sent_too received_too _ <<<"$(traffic all-reduce)"
        equal "bytes ($one)" "$sent_too $received_too" "$sent $received"
        same_bits memory messages
        rm -rf memory messages
    done
}

@test "a job does not overwrite a run directory, and config.ini repeats it" {
    in_time 60 train --model softmax --data "$digits" --batch 10 --launch 3 --servers 1 --quiet --out first
    expect 0
    in_time 60 train --model softmax --data "$digits" --batch 10 --launch 3 --servers 1 --quiet --out first
    expect 2 "first already holds a run"
    in_time 60 train --config first/config.ini --quiet --out second
    expect 0
    same_bits first second
}

@test "checkpoints: 3 ranks write one, 2 ranks and one process resume from it, and vice versa" {
    # 60 examples a step: 3 x 20, 2 x 30, 1 x 60
    one="train --model softmax --data synth:digits?examples=1000 --quiet --lr 0.3"
    in_time 60 $one --batch 60 --steps 40 --out whole
    expect 0
    for from in "3 0" "4 2" "1 0"; do
        read -r ranks servers <<<"$from"
        how="--launch $ranks --servers $servers"
        [ "$ranks" -gt 1 ] || how=
        in_time 60 $one --batch $((60 / (ranks - servers))) --steps 25 $how --out start
        expect 0
        for to in "2 0" "4 1" "1 0"; do
            case "$from $to" in "1 0 1 0" | "3 0 2 0" | "4 2 4 1") continue ;; esac # each of these is still resumed from two others
            read -r ranks servers <<<"$to"
            how="--launch $ranks --servers $servers"
            [ "$ranks" -gt 1 ] || how="--launch 0 --servers 0"
            cp -r start go-on
            in_time 60 train --out go-on --resume --batch $((60 / (ranks - servers))) --steps 40 $how --quiet --json
            expect 0
            equal "steps ($from to $to)" "$(result_of steps) $(result_of examples)" "40 2360"
            same_weights whole go-on
            rm -rf go-on
        done
        rm -rf start
    done
}

@test "checkpoints: a job resumed with the same number of ranks gives bit-identical results" {
    for way in "--launch 3 --servers 0" "--launch 3 --servers 1" "--launch 3 --servers 0 --stream always"; do
        one="--model logreg --data $clicks --batch 10 $way --quiet"
        in_time 60 train $one --steps 60 --out whole
        expect 0
        in_time 60 train $one --steps 31 --out part
        expect 0
        in_time 60 train --out part --resume --steps 60 --quiet
        expect 0
        same_bits whole part
        rm -rf whole part
    done
}

@test "checkpoints: an asynchronous job resumes with another number of workers and uses every example once" {
    one="train --model logreg --data synth:ctr?features=500&examples=2003 --test none --batch 7 --mode async --quiet"
    in_time 60 $one --steps 200 --launch 4 --out run
    expect 0
    in_time 60 train --out run --resume --epochs 3 --launch 2 --quiet --json
    expect 0
    equal examples "$(result_of examples)" 6009
    in_time 60 train --out run --resume --epochs 5 --launch 0 --workers 2 --quiet --json
    expect 0
    equal examples "$(result_of examples)" 10015
}

@test "a job whose loss stays above that of an untrained model has diverged; the last checkpoint is kept" {
    local job
    for job in "--servers 1 --mode async" "--servers 0"; do
        # shellcheck disable=SC2086
        in_time 60 train --model softmax --data "$digits" --lr 50 --batch 2 --epochs 5 --launch 3 $job --checkpoint-every 50 --out run --quiet
        expect 1 "training diverged at step " "the mean training loss of the last 5 % of the run" "use a smaller --lr"
        [ "$(grep -c "yoke: error" err)" = 1 ] # the others say nothing
        ls run/checkpoints/step-*/DONE
        rm -r run
    done
}

@test "many asynchronous workers learn: the small cells of ./dev bench learn" {
    python3 "$BATS_TEST_DIRNAME/../bench/learn.py" --test --no-time --yoke "$YOKE"
}
