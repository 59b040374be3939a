#!/usr/bin/env bats
# --resume of a finished job changes nothing in any mode. A job that was killed after its last checkpoint, or resumes
# with more epochs, is bit-identical to an uninterrupted run. cli_resume.bats tests one process.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

digits='synth:digits?examples=507'
clicks='synth:ctr?features=500&examples=1003'

@test "a finished synchronous job with a server: resuming it changes nothing, once or twice" {
    in_time 60 train --model softmax --data "$digits" --batch 10 --launch 3 --servers 1 --mode sync --epochs 2 --quiet --out run
    expect 0
    finished run 2
}

@test "finished jobs of every kind: resuming them changes nothing" {
    while read -r how; do
        in_time 60 train --batch 10 --launch $how --quiet --out run
        expect 0
        finished run || { echo "--launch $how"; return 1; }
        rm -rf run
    done <<END
4 --servers 2 --model logreg --data $clicks --steps 23 --stream always
3 --servers 1 --model softmax --data $digits --epochs 2 --stream always --checkpoint-every 26
3 --servers 0 --model softmax --data $digits --epochs 2 --checkpoint-every 17
3 --servers 0 --model logreg --data $clicks --steps 23 --stream always --local-steps 4
3 --servers 1 --model softmax --data $digits --epochs 2 --local-steps 4
4 --servers 2 --model softmax --data $digits --steps 23 --local-steps 4
3 --servers 1 --model logreg --data $clicks --steps 23 --mode async --stream always
3 --servers 1 --model softmax --data $digits --epochs 2 --staleness 4
3 --servers 1 --model softmax --data $digits --steps 23 --mode async --local-steps 4 --stream always
4 --servers 1 --model softmax --data $digits --epochs 2 --quorum 2 --stream always
4 --servers 2 --model logreg --data $clicks --steps 23 --quorum 1
END
}

@test "killed just after the last checkpoint: parameters and curve of an uninterrupted run" {
    for how in "--servers 1" "--servers 1 --local-steps 4"; do
        in_time 60 train --model softmax --data "$digits" --batch 10 --epochs 2 --launch 3 $how --quiet --out whole
        expect 0
        cp -r whole run
        rm run/summary.json
        grep -v '"step":52,' whole/metrics.jsonl >run/metrics.jsonl || true
        in_time 60 train --out run --resume --quiet --json
        expect 0
        equal "steps, epochs, examples" "$(result_of steps) $(result_of epochs) $(result_of examples)" "52 2 1014"
        diff -r whole/checkpoints run/checkpoints
        diff <(evaluations whole) <(evaluations run)
        rm -rf whole run
    done
}

@test "rank 0 is killed between a checkpoint and what follows it: each evaluation is there once" {
    # 26 steps per epoch: the first checkpoint is in an epoch, the second at its end, the last at the end of the job
    while read -r how; do
        one="train --model softmax --data $digits --batch 10 --eval-every 13 --checkpoint-every 13 --quiet $how"
        in_time 60 $one --out whole
        expect 0
        for step in 13 26 52; do
            YOKE=$HOOKS YK_KILL_SAVED=$step in_time 60 $one --out run
            [ "$status" -ne 0 ]
            in_time 60 train --out run --resume --quiet
            expect 0
            diff <(evaluations whole) <(evaluations run) || { echo "$how, killed at step $step"; return 1; }
            same_bits whole run
            rm -r run
        done
        rm -r whole
    done <<END
--launch 3 --servers 1 --epochs 2
--launch 3 --servers 1 --validation 0.2 --epochs 3
--launch 2 --servers 0 --epochs 2
--workers 2 --epochs 2
END
    for way in "--servers 1" "--servers 2 --validation 0.2"; do
        one="train --model softmax --data $digits --batch 10 --epochs 4 --mode async --eval-every 13 --checkpoint-every 13 --launch 4 $way"
        YOKE=$HOOKS YK_KILL_SAVED=40 in_time 60 $one --quiet --out run
        [ "$status" -ne 0 ]
        step=$(find run/checkpoints/step-*/DONE | tr -dc '0-9\n' | sort -n | tail -n 1)
        in_time 60 train --out run --resume --quiet
        expect 0
        equal "evaluations of step $step" "$(evaluations run | grep -c "\"step\":$step,")" 1
        equal "evaluations that are there twice" "$(evaluations run | grep -o '"step":[0-9]*' | sort | uniq -d)" ""
        rm -r run
    done
}

@test "a finished streaming job resumes with more epochs: bit-identical to an uninterrupted run" {
    one="train --model logreg --data $clicks --stream always --batch 40 --launch 4 --servers 2 --quiet"
    in_time 60 $one --epochs 3 --out whole
    expect 0
    in_time 60 $one --epochs 1 --out run
    expect 0
    in_time 60 train --out run --resume --epochs 3 --quiet
    expect 0
    same_bits whole run
    diff <(evaluations whole) <(evaluations run)
}

@test "SIGINT to an asynchronous streaming job: its state is stopped, not done" {
    begin train --model logreg --data "$clicks" --stream always --batch 2 --mode async --epochs 1000000 --eval-every 200 --launch 3 \
        --json --out run
    wait_for_step 200
    kill -INT "$BACKGROUND"
    finish 20
    expect 0 "stopped at step"
    equal state "$(result_of state)" '"stopped"'
}

@test "--resume refuses data with a different number of examples: servers, replicas, shards" {
    seq 400 | awk '{ print $1 % 2, ($1 % 9 + 1) ":1" }' >a.libsvm
    for how in "3 --servers 1" "2 --servers 0 --mode sync" "2 --mode async"; do
        rm -rf run
        cp a.libsvm b.libsvm
        try train --model logreg --data libsvm:b.libsvm --features 10 --launch $how --batch 10 --quiet --out run
        expect 0
        head -n 10 a.libsvm >>b.libsvm
        try train --resume --out run --epochs 2 --quiet
        expect 3 "was written with 400 training examples, but libsvm:b.libsvm has 410"
    done
}

@test "a plateau, a norm and nesterov: the same parameters on threads, replicas, shards and servers, also after a resume" {
    # step 50 is between two reductions of the learning rate; logreg with --l2 decays lazily
    for model in "softmax --data $digits" "logreg --data $clicks --l2 1e-4 --optimizer sgd"; do
        one="train --optimizer nesterov --model $model --test none --validation 0.2 --lr-schedule plateau --lr-decay 0.5 --lr 0.5
            --clip-norm 0.3 --eval-every 10 --batch 10 --quiet"
        in_time 60 $one --workers 2 --steps 90 --out whole
        expect 0
        [ "$(grep -o '"learning_rate":[0-9.]*' whole/metrics.jsonl | uniq | wc -l)" -gt 2 ]
        for how in "2 --servers 0" "2 --servers all" "4 --servers 2"; do
            in_time 60 $one --launch $how --steps 50 --out run
            expect 0
            in_time 60 train --out run --resume --steps 90 --quiet
            expect 0
            cmp whole/checkpoints/step-90/model.safetensors run/checkpoints/step-90/model.safetensors || { echo "--launch $how"; return 1; }
            diff <(grep -o '"learning_rate":[0-9.]*' whole/metrics.jsonl | uniq) <(grep -o '"learning_rate":[0-9.]*' run/metrics.jsonl | uniq)
            rm -rf run
        done
        rm -rf whole
    done
}

@test "asynchronous linear models on a cache: examples are assigned in chunks, also after a resume" {
    try data gen 'synth:ctr?features=20000&examples=40000' --split train --out clicks.cache --quiet
    expect 0
    in_time 60 train --model logreg --data clicks.cache --test none --launch 2 --servers all --mode async --batch 100 --epochs 1 --quiet --out run
    expect 0
    python3 - run/checkpoints/step-*/state.safetensors <<'END' # the kind of the cursor, and the rows of a chunk
import json, struct, sys
with open(sys.argv[1], "rb") as f:
    begin = struct.unpack("<Q", f.read(8))[0]
    at = json.loads(f.read(begin))["place"]["data_offsets"][0]
    f.seek(8 + begin + at)
    assert struct.unpack("<Q", f.read(8))[0] >> 8 == 2000
END
    in_time 60 train --out run --resume --epochs 2 --quiet
    expect 0
    grep -q '"examples": 80000,' run/summary.json
}
