#!/usr/bin/env bats
# --lr auto: a short search before training chooses the learning rate. ./dev bench lr measures how good it is.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

clicks='synth:ctr?features=500&nnz=10&examples=20000'

# Values of about 1/30 need a learning rate of about 1,000 times the default.
small() {
    python3 -c 'import random; random.seed(1)
for _ in range(20000):
    x = [random.gauss(0, 1) for _ in range(5)]
    print("1" if sum(x) > 0 else "0", *("%d:%.5f" % (i, v / 30) for i, v in enumerate(x, 1)))' >small.libsvm
    options=(--model logreg --data 'small.libsvm?split=0.9' --test 'small.libsvm?split=0.9..1' --epochs 10 --batch 16)
}

@test "a default that is far too small is replaced; table, report and config.ini have the rate" {
    small
    try train "${options[@]}" --json --quiet --out none
    default=$(field test_loss)
    try train "${options[@]}" --lr auto --json --out run
    expect 0 'searched for' 'default' 'chosen'
    rate=$(field lr)
    holds "$rate >= 1 and $(field test_loss) < 0.8 * $default"
    grep -qx "lr = ${rate%.0}" run/config.ini
    cp out first
    python3 - out "$(nproc)" <<'PY'
import json, sys
s = json.loads(open(sys.argv[1]).read().splitlines()[-1])
trials = s["lr_search"]["trials"]
longest = {t["lr"]: t["steps"] for t in trials}  # of each rate, the last round
assert len(longest) == 9 and s["lr_search"]["lr"] == s["lr"] in longest, trials
assert sum(longest.values()) <= 0.1 * s["steps"] * int(sys.argv[2]), (longest, s["steps"])
PY
    "$YOKE" report run --quiet >/dev/null
    grep -q 'Search for the learning rate' run/report.html
    # --resume continues with that rate, even if --lr auto is given again
    try train --out run --resume --lr auto --epochs 11 --json
    expect 0
    [ "$(field lr)" = "$rate" ]
    ! grep -q 'searched for' err
    # the same run chooses the same rate
    try train "${options[@]}" --lr auto --json --quiet --out none
    expect 0
    python3 -c 'import json
a, b = (json.loads(open(f).read().splitlines()[-1])["lr_search"]["trials"] for f in ("first", "out"))
assert a == b, (a, b)'
}

@test "adam keeps its default if a larger rate is only further in a short search" {
    taskset -c "$(taskset -pc $$ | sed 's/.*: //; s/[-,].*//')" "$YOKE" train --model logreg --epochs 7 --optimizer adam --lr auto \
        --data 'synth:ctr?features=20000&nnz=20&examples=60000&test=5000' --json --quiet --out none >found
    python3 - <<'PY'
import json
s = json.loads(open("found").read().splitlines()[-1])
assert min(s["lr_search"]["trials"], key=lambda t: t["validation_loss"] or 1e9)["lr"] > 0.001 == s["lr"], s["lr_search"]
PY
}

@test "a job searches once, and all of its processes use the rate" {
    small
    for servers in 0 1; do
        try train "${options[@]}" --epochs 20 --lr auto --launch 2 --servers "$servers" --json --out none
        expect 0 'searched for'
        holds "$(field lr) >= 1 and $(field test_loss) < 0.3"
        [ "$(grep -c 'searched for' err)" = 1 ]
    done
}

@test "a search with several parameter groups, with one of them only, and after a warm start" {
    try train --model 'linear + fm 4 name=v + (embed 4 name=v, dense 8, relu, dense 1)' --data "$clicks" --epochs 10 --lr auto --json --quiet --out run
    expect 0
    grep -qE '^lr = linear=.*,v=.*,network=' run/config.ini
    try train --model fm:4 --data "$clicks" --epochs 10 --lr fm=auto,linear=0.07 --json --quiet --out one
    expect 0
    grep -qE '^lr = .*linear=0.07' one/config.ini
    try train --model fm:4 --data "$clicks" --epochs 10 --lr auto --warm-start one --json --quiet --out none
    expect 0
    holds "$(python3 -c 'import json; print(max(t["validation_loss"] for t in json.loads(open("out").read().splitlines()[-1])["lr_search"]["trials"] if t["lr"] == 0.0005))') < 0.6"
    # from a model file, which has no state of the optimizer: ftrl derives its state from the weights
    try train --model logreg --data "$clicks" --optimizer ftrl --epochs 3 --batch 16 --quiet --out ftrl
    try train --model logreg --data "$clicks" --optimizer ftrl --epochs 3 --batch 16 --lr auto --warm-start ftrl/checkpoints/*/model.safetensors \
        --json --quiet --out none
    expect 0
    holds "$(python3 -c 'import json; print(max(t["validation_loss"] for t in json.loads(open("out").read().splitlines()[-1])["lr_search"]["trials"] if t["lr"] == 0.001))') < 0.5"
}

@test "large weights of examples are not mistaken for divergence" {
    awk 'BEGIN { print "y,a,b,w"; for (i = 0; i < 20000; i++) { a = (i * 37 % 101) / 101; b = (i * 53 % 103) / 103
        print (a + b > 1) "," a "," b ",10000000" } }' >heavy.csv
    try train --model logreg --data 'heavy.csv?label=y&weight=w' --epochs 10 --batch 20 --lr auto --out none
    expect 0 'searched for' 'chosen'
    ! grep -q diverged err
}

@test "a stream is sampled" {
    small
    try train "${options[@]}" --stream always --lr auto --json --out none
    expect 0 'searched for'
    holds "$(field lr) >= 1"
}

@test "a run of 1,440 steps is searched; one that is too short, or has more parameters than it can set up, uses the default" {
    try train --model softmax --data 'synth:digits?examples=1500&test=500' --epochs 60 --lr auto --json --out none
    expect 0 'searched for'
    holds "$(field steps) == 1440 and $(field lr) > 0.1"
    for few in "$clicks --steps=5" "synth:ctr?features=5000000&nnz=10&examples=1000 --epochs=60"; do
        try train --model logreg --data $few --lr auto --json --out none
        expect 0 'too short, its data too small, or its model too large, for a search'
        [ "$(field lr)" = 0.1 ]
    done
}

@test "what --lr auto cannot do is an error with a remedy" {
    try train --model logreg --data "$clicks" --lr auto --lr-batch 64 --warm-up 10 --out none
    expect 2 '--lr-batch'
    try train --model logreg --data "$clicks" --steps 1 --quiet --out start
    try train --model logreg --data "$clicks" --lr auto --warm-start start --launch 2 --out none
    expect 2 '--warm-start'
    try train --model logreg --data "$clicks" --lr automatic --out none
    expect 2 'or auto'
}
