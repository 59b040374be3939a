#!/usr/bin/env bats
# Weights of examples and classes: a row of weight 2 equals the row twice, in every format, model and placement.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

# 60 rows of 3 classes or 2, with 5 numbers each. w.*: with a weight of 0 to 3; d.*: each row as often as its weight says (90 rows).
tables() {
    python3 - <<'END'
import random
random.seed(5)
weight = [[0, 1, 2, 2], [0, 1, 2, 3], [1, 1, 2, 3]]
rows = [(i % 3, weight[i % 3][i // 3 % 4], [round(random.gauss((i % 3) * (j - 2), 1), 3) for j in range(5)]) for i in range(60)]
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
    for one in "logreg|svm|two|" "logreg|svm|two|--optimizer adagrad" "fm:4|svm|two|" "logreg|csv|two|" "softmax|csv|three|--l2 0.01 --class-weight balanced" \
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
        loss=$(result_of train_loss)
        for way in "--workers 3 --batch 20" "--launch 2 --servers 0 --batch 30" "--launch 2 --workers 2 --servers all --batch 15" \
            "--launch 3 --servers 1 --batch 30"; do
            case "$model $way" in fm*"servers 0"*) continue ;; esac
            in_time 60 train --model "$model" $wide $options --data "w.$name.$format?weight=$weight" $way --out weighted
            expect 0
            same_weights twice weighted
            close "$(result_of train_loss)" "$loss"
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

@test "weights: streams, one example per step, and bad weights" {
    tables
    try train --model logreg $wide --data 'w.two.svm?weight=1' --batch 60 --workers 1 --stream always --features 5 --out stream
    expect 0
    try train --model logreg $wide --data 'w.two.svm?weight=1' --batch 60 --out memory
    expect 0
    same_weights stream memory
    # a step of one example depends on its weight only if that is 0
    try train --model logreg --seed 1 --json --quiet --data 'w.two.svm?weight=1' --batch 1 --epochs 2 --lr 0.1 --out burst
    expect 0
    loss=$(result_of train_loss)
    try train --model logreg --seed 1 --json --quiet --data 'w.two.svm?weight=1' --batch 1 --epochs 2 --lr 0.1 --workers 1 --lr-schedule step --out single
    expect 0
    same_weights burst single
    close "$(result_of train_loss)" "$loss"
    # the training loss is divided by the sum of the weights, whatever the batches: here, the model is always the untrained one
    for way in "--batch 1" "--batch 7 --workers 2 --mode async" "--batch 7 --launch 2 --servers 0 --local-steps 2" "--batch 7 --launch 3 --servers 1 --mode async" \
        "--batch 7 --launch 2 --servers all --mode async"; do
        in_time 60 train --model logreg --seed 1 --json --quiet --data 'w.two.svm?weight=1' --epochs 1 --lr 1e-9 $way --out none
        expect 0
        close "$(result_of train_loss)" 0.693147
        close "$(python3 -c 'import json; print(max(p["train_loss"] or 0 for p in json.loads(open("out").read().splitlines()[-1])["processes"]))')" 0.693147
    done
    # without any weight, nothing is learned; a worker may have none
    sed 's/:[0-9]* /:0 /' w.two.svm >zero.svm
    for way in "--batch 1" "--features 5 --stream always" "--workers 2 --mode async" "--launch 3 --servers 1"; do
        in_time 60 train --model logreg --data 'zero.svm?weight=1' --epochs 2 $way --out none
        expect 3 "zero.svm?weight=1: all examples that the run used have zero weight, so it learned nothing: use other weights, or none"
    done
    sed '2s/:0 /:1 /' zero.svm >one.svm
    in_time 60 train --model logreg --data 'one.svm?weight=1' --no-shuffle --batch 1 --steps 1 --launch 2 --servers 0 --out none
    expect 0
    try eval --checkpoint memory --data 'zero.svm?weight=1'
    expect 3 "zero.svm?weight=1: all examples have zero weight: use other weights, or none"
    sed -i '7s/:[0-9]* /:-1 /' w.two.svm
    try train --model logreg --data 'w.two.svm?weight=1' --out bad
    expect 3 "record 7" "is not LABEL:WEIGHT with a weight of at least 0"
    try train --model logreg --data w.two.svm --out bad
    expect 3 "if the lines begin with LABEL:WEIGHT, add ?weight=1"
    sed -i '3s/^\([0-9]*\),[0-9]*/\1,many/' w.two.csv
    try train --model logreg --data 'w.two.csv?weight=importance' --out bad
    expect 3 "line 3" "column 2 (importance): the weight 'many' is not a non-negative number"
    try train --model logreg --data 'w.two.csv?weight=label' --out bad
    expect 2 "weight=label is also the label"
}

@test "a row of weight 2 equals the row twice: TFRecord, Vowpal Wabbit and caches; labels that are numbers" {
    tables
    python3 - <<'END'
import struct
def crc(data):
    c = 0xffffffff
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = c >> 1 ^ (0x82f63b78 & -(c & 1))
    c ^= 0xffffffff
    return struct.pack("<I", ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff)
def varint(v):
    return bytes([v]) if v < 128 else bytes([v & 127 | 128]) + varint(v >> 7)
def field(number, data):
    return bytes([number << 3 | 2]) + varint(len(data)) + data
def feature(name, kind, packed):
    return field(1, field(1, name.encode()) + field(2, field(kind, field(1, packed))))
for floats in False, True:
    with open("floats.tfr" if floats else "w.tfr", "wb") as out, open("floats.vw" if floats else "w.vw", "w") as vw:
        for line in open("w.two.svm"):
            first, *entries = line.split()
            y, weight = first.split(":")
            index, value = zip(*((int(e.split(":")[0]) - 1, float(e.split(":")[1])) for e in entries))
            label = feature("y", 2, struct.pack("<f", int(y) + 0.5)) if floats else feature("y", 3, varint(int(y)))
            data = field(1, label + feature("w", 2, struct.pack("<f", float(weight))) + feature("ids", 3, b"".join(map(varint, index)))
                         + feature("x", 2, struct.pack("<5f", *value)))
            out.write(struct.pack("<Q", len(data)) + crc(struct.pack("<Q", len(data))) + data + crc(data))
            print(int(y) + 0.5 if floats else y, weight, "| " + " ".join(f"{i}:{v}" for i, v in zip(index, value)), file=vw)
with open("floats.svm", "w") as out:
    for line in open("w.two.svm"):
        first, rest = line.split(" ", 1)
        y, weight = first.split(":")
        print(f"{int(y) + 0.5}:{weight} {rest}", end="", file=out)
END
    for one in "logreg|w.two.svm|w.tfr|w.vw" "linear|libsvm:floats.svm|floats.tfr|floats.vw"; do
        IFS='|' read -r model svm tfr vw <<<"$one"
        try train --model $model $wide --lr 0.05 --data "$svm?weight=1" --test "$svm" --batch 60 --out svm
        expect 0
        loss=$(result_of test_loss)
        try train --model $model $wide --lr 0.05 --data "tfrecord:$tfr?label=y&weight=w&index=ids&value=x" --test "tfrecord:$tfr" --batch 60 --out tfr
        expect 0
        close "$(result_of test_loss)" "$loss"
        same_weights svm tfr
        for data in "svm $svm" "tfr $tfr"; do # the model keeps the options
            try eval --checkpoint ${data% *} --data ${data#* } --json
            expect 0
            close "$(field loss)" "$loss"
        done
        try predict --checkpoint tfr --data $tfr
        expect 0
        try predict --checkpoint svm --data $svm
        expect 2 "$svm: lines of the training data begin with LABEL:WEIGHT, which looks like an entry: add ?weight=1 if these do, too, or ?weight=0"
        try predict --checkpoint svm --data "$svm?weight=1"
        expect 0
        try train --model $model $wide --lr 0.05 --data "vw:$vw" --test "vw:$vw" --batch 60 --out none
        expect 0
        close "$(result_of test_loss)" "$loss"
        rm -r svm tfr
    done
    # a cache keeps weights and numbers; other formats cannot
    for one in "logreg|w.two.svm|" "logreg|w.two.csv|" "linear|libsvm:floats.svm|--regression"; do
        IFS='|' read -r model data option <<<"$one"
        weight=1
        case $data in *.csv) weight=importance ;; esac
        try data convert "$data?weight=$weight" $option --out a.cache
        expect 0
        try data inspect a.cache
        expect 0
        try train --model $model $wide --lr 0.05 --data "$data?weight=$weight" --test "$data?weight=$weight" --batch 60 --out direct
        expect 0
        loss=$(result_of test_loss)
        try train --model $model $wide --lr 0.05 --data a.cache --test a.cache --batch 60 --out cached
        expect 0
        close "$(result_of test_loss)" "$loss"
        same_weights direct cached
        rm -r direct cached
    done
    try train --model logreg --data a.cache --out bad
    expect 2 "a.cache: the labels are numbers: use --loss squared"
    try data convert 'w.two.svm?weight=1' --out a.libsvm
    expect 2 "the examples have weights, which only the cache format can store"
    try train --model logreg --data 'tfrecord:w.tfr?label=y&index=ids&weight=v' --out bad
    expect 3 "record 1 at byte 0: there is no number in the feature 'v'"
}

@test "class weights: factors of the weights, balanced, and errors" {
    tables
    for data in "d.two.csv --class-weight 0=1,1=3" "d.three.csv --class-weight balanced"; do
        try train --model softmax $wide --data $data --batch 90 --out classes
        expect 0
        # the same by a column of weights
        python3 - "${data%% *}" <<'END'
import sys
lines = [line.split(",", 1) for line in open(sys.argv[1]).read().split()][1:]
count = {y: sum(y == z for z, _ in lines) for y in "012"}
weight = {"0": 1, "1": 3} if "two" in sys.argv[1] else {y: len(lines) / 3 / count[y] for y in "012"}
open("column.csv", "w").write("label,w,a,b,c,d,e\n" + "".join(f"{y},{weight[y]},{rest}\n" for y, rest in lines))
END
        try train --model softmax $wide --data 'column.csv?weight=w' --batch 90 --out column
        expect 0
        same_weights classes column
        rm -r classes column
    done
    try train --model logreg --data d.two.svm --class-weight 0=1,2=3 --out bad
    expect 2 "--class-weight 0=1,2=3: '2=3' is not CLASS=WEIGHT: CLASS must be from 0 to 1; WEIGHT must be at least 0"
    # names, also of classes that look like numbers
    sed '2,$s/^0/1/; t; 2,$s/^1/2/' d.two.csv >names.csv
    try train --model logreg --data 'names.csv?classes=1,2' --test none --class-weight 1=2 --out named
    expect 0 "class weights: 1 2, 2 1"
    try train --model logreg --data d.two.csv --test none --class-weight 0=2 --out numbers
    expect 0 "class weights: 0 2, 1 1"
    same_weights named numbers
    in_time 60 train --model logreg --data d.two.csv --test none --class-weight balanced --launch 2 --servers 1 --steps 1 --out none
    expect 0 "class weights: balanced"
    sed '2,$s/^0/z=1/; 2,$s/^1/z/' d.two.csv >names.csv
    try train --model logreg --data 'names.csv?classes=z=1,z' --test none --class-weight z=1=2,z=1 --out none
    expect 0 "class weights: z=1 2, z 1"
    try train --model logreg --data 'names.csv?classes=z=1,z' --class-weight 0=2 --out bad
    expect 2 "--class-weight 0=2: '0=2' is not CLASS=WEIGHT: CLASS must be one of: z=1, z; WEIGHT must be at least 0"
    try train --model logreg --data d.two.svm --class-weight 0=1,0=3 --out bad
    expect 2 "--class-weight 0=1,0=3: class 0 is given twice"
    try train --model logreg --data d.two.svm --class-weight 0=0,1=0 --out bad
    expect 2 "--class-weight 0=0,1=0: all weights are 0"
    try train --model logreg --data d.two.svm --features 5 --stream always --class-weight balanced --out bad
    expect 2 "--class-weight balanced needs data in memory"
    try train --model linear --data d.two.svm --class-weight 0=1 --out bad
    expect 2 "--class-weight: --loss squared has no classes"
}

@test "regression: labels are numbers in training, evaluation and predictions; other losses" {
    python3 -c '
for i in range(90):
    x = i % 10 / 10, i // 10 / 9
    print(3 + 2 * x[0] - x[1], *(f"{j + 1}:{v:.6g}" for j, v in enumerate(x)))' >numbers.svm
    for model in linear "fm:2 --optimizer sgd" "linear + (embed 4, dense 6, tanh, dense 1) --optimizer sgd"; do
        name=${model%% --*} options=
        [ "$name" = "$model" ] || options=--${model#* --}
        try train --model "$name" --loss squared $options --data libsvm:numbers.svm?fields=position --test libsvm:numbers.svm?fields=position --epochs 30 \
            --batch 10 --lr 0.1 --json --quiet --out run
        expect 0
        holds "$(result_of test_loss) < 0.05 and '$(result_of test_accuracy)' == 'null'"
        loss=$(result_of test_loss)
        try eval --checkpoint run --data libsvm:numbers.svm?fields=position --json
        expect 0
        close "$(result_of loss)" "$loss"
        try predict --checkpoint run --data libsvm:numbers.svm?fields=position --csv
        expect 0
        equal "header" "$(head -n 1 out)" prediction
        python3 -c '
import sys
predicted = [float(x) for x in open("out").read().split()[1:]]
labels = [float(line.split()[0]) for line in open("numbers.svm")]
mean = sum((a - b) ** 2 for a, b in zip(predicted, labels)) / 90
assert abs(mean / float(sys.argv[1]) - 1) < 1e-3, mean' "$loss"
        rm -r run
    done
    try train --model softmax --loss squared --data libsvm:numbers.svm --out bad
    expect 2 "--model softmax cannot be trained with --loss squared; use --model linear"
    try train --model fm:4 --loss softmax --data libsvm:numbers.svm --out bad
    expect 2 "--model fm:4 cannot be trained with --loss softmax; use --model softmax or a network"
    try train --model linear --loss absolute --data libsvm:numbers.svm --out bad
    expect 2 "--loss absolute: unknown loss; use one of: logistic, softmax, squared, hinge"
}
