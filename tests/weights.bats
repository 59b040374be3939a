#!/usr/bin/env bats
# Weights of examples and classes: a row of weight 2 equals the row twice, in every format, model and placement.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

# 60 rows of 3 classes or 2, with 5 numbers each. w.*: with a weight of 0 to 3; d.*: each row as often as its weight says (138 rows).
tables() {
    python3 - <<'END'
import random
random.seed(5)
rows = [(i % 3, i // 3 % 4, [round(random.gauss((i % 3) * (j - 2), 1), 3) for j in range(5)]) for i in range(60)]
for name, classes in ("two", 2), ("three", 3):
    with open(f"w.{name}.csv", "w") as w, open(f"d.{name}.csv", "w") as d, open(f"w.{name}.svm", "w") as s, open(f"d.{name}.svm", "w") as t:
        print("label,importance,a,b,c,d,e", file=w)
        print("label,a,b,c,d,e", file=d)
        for y, weight, x in rows:
            y = y % classes
            print(y, weight, *x, sep=",", file=w)
            entries = " ".join(f"{j + 1}:{v}" for j, v in enumerate(x))
            print(f"{y}:{weight} {entries}", file=s)
            for _ in range(weight):
                print(y, *x, sep=",", file=d)
                print(f"{y} {entries}", file=t)
END
}

same='--lr 0.3 --seed 1 --json --quiet'
wide="--epochs 6 $same"

@test "a row of weight 2 equals the row twice: formats and models" {
    tables
    for one in "logreg|svm|two|" "logreg|svm|two|--optimizer adagrad" "fm:4|svm|two|" "logreg|csv|two|" "softmax|csv|three|--l2 0.01" \
        "linear + (embed 3, dense 4, tanh, dense 1)|svm|two|" "dense 6, tanh, dense 3|csv|three|--optimizer momentum"; do
        IFS='|' read -r model format name options <<<"$one"
        weight=1
        [ "$format" = svm ] || weight=importance
        query=
        case $model in *embed*) query="fields=position" ;; esac
        try train --model "$model" $wide $options --data "d.$name.$format${query:+?$query}" --test "d.$name.$format${query:+?$query}" --batch 90 --out twice
        expect 0
        loss=$(result_of test_loss)
        try train --model "$model" $wide $options --data "w.$name.$format?weight=$weight${query:+&$query}" --test "w.$name.$format?weight=$weight${query:+&$query}" --batch 60 --out weighted
        expect 0
        close "$(result_of test_loss)" "$loss"
        grep -q '"test_metrics":{"examples":60,"weight":90,' out
        same_weights twice weighted
        rm -r twice weighted
    done
}

@test "a row of weight 2 equals the row twice: processes, threads and servers; resumed runs have the same bits" {
    tables
    for one in "logreg|svm|two|1|--optimizer adagrad" "softmax|csv|three|importance|--optimizer momentum" "fm:4|svm|two|1|"; do
        IFS='|' read -r model format name weight options <<<"$one"
        try train --model "$model" $wide $options --data "d.$name.$format" --batch 90 --out twice
        expect 0
        for way in "--workers 3 --batch 20" "--launch 2 --servers 0 --batch 30" "--launch 2 --workers 2 --servers all --batch 15" \
            "--launch 3 --servers 1 --batch 30"; do
            case "$model $way" in fm*"servers 0"*) continue ;; esac
            in_time 60 train --model "$model" $wide $options --data "w.$name.$format?weight=$weight" $way --out weighted
            expect 0
            same_weights twice weighted
            rm -r weighted
        done
        rm -r twice
    done
    in_time 60 train --model logreg $same --data 'w.two.svm?weight=1' --launch 2 --servers all --batch 7 --steps 12 --out whole
    expect 0
    in_time 60 train --model logreg $same --data 'w.two.svm?weight=1' --launch 2 --servers all --batch 7 --steps 5 --out parts
    expect 0
    in_time 60 train --resume --out parts --steps 12 --json --quiet
    expect 0
    cmp whole/checkpoints/step-*12/model.safetensors parts/checkpoints/step-*12/model.safetensors
}

@test "weights: streams, one example per step, caches, and bad weights" {
    tables
    try train --model logreg $wide --data 'w.two.svm?weight=1' --batch 60 --workers 1 --stream always --features 5 --out stream
    expect 0
    try train --model logreg $wide --data 'w.two.svm?weight=1' --batch 60 --out memory
    expect 0
    same_weights stream memory
    # a step of one example depends on its weight only if that is 0
    try train --model logreg --seed 1 --json --quiet --data 'w.two.svm?weight=1' --batch 1 --epochs 2 --lr 0.1 --out burst
    expect 0
    try train --model logreg --seed 1 --json --quiet --data 'w.two.svm?weight=1' --batch 1 --epochs 2 --lr 0.1 --workers 1 --lr-schedule step --out single
    expect 0
    same_weights burst single
    sed -i '7s/:[0-9]* /:-1 /' w.two.svm
    try train --model logreg --data 'w.two.svm?weight=1' --out bad
    expect 3 "record 7" "is not LABEL:WEIGHT with a weight of at least 0"
    try train --model logreg --data w.two.svm --out bad
    expect 3 "if the lines begin with LABEL:WEIGHT, add ?weight=1"
    sed -i '3s/^\([0-9]*\),[0-9]*/\1,many/' w.two.csv
    try train --model logreg --data 'w.two.csv?weight=importance' --out bad
    expect 3 "line 3" "column 2 (importance): the weight 'many' is not a number of at least 0"
    try train --model logreg --data 'w.two.csv?weight=label' --out bad
    expect 2 "weight=label is also the label"
}
