#!/usr/bin/env bats
# Fields from the data to the model: `embed` has one vector per field.

setup() {
    load cli
    cli_setup
    MODEL='embed 2, dense 1'
    CLICKS='synth:ctr?features=200&nnz=5&examples=300'
    "$YOKE" train --model "$MODEL" --data "$CLICKS" --dry-run >out 2>err || skip "no model of this program uses fields"
}
teardown() { cli_teardown; }

embed() { # OPTION...
    try train --model "$MODEL" --batch 30 --quiet --json "$@"
}

@test "fields: text, TFRecords and a cache of the same rows give the same model" {
    "$YOKE" data gen "$CLICKS" --out a.ffm >log
    for copy in a.tfrecord a.cache; do
        "$YOKE" data convert a.ffm --out "$copy" >log
    done
    for data in a.ffm a.tfrecord a.cache; do
        embed --data $data --features 200 --stream always --out run
        expect 0
        loss=${loss:-$(field train_loss)}
        [ "$(field train_loss)" = "$loss" ]
        grep -qa '"fields":"5"' run/checkpoints/step-10/model.safetensors
        "$YOKE" eval --checkpoint run --data a.ffm >log
        rm -r run
    done
}

@test "fields: data with other fields is an error" {
    "$YOKE" data gen "$CLICKS" --out a.ffm >log
    sed '1s/ 4:/ 7:/' a.ffm >more.ffm
    sed 's/ [0-9]*:\([0-9]*\):/ \1:/g' a.ffm >none.libsvm
    embed --data a.ffm --test more.ffm --features 200 --out none
    expect 3 "more.ffm: the rows have 8 fields, but those of a.ffm have 5"
    embed --data a.ffm --test 'libsvm:none.libsvm?base=0' --features 200 --out none
    expect 3 "have 1 field, but those of a.ffm have 5"
    embed --data a.ffm --features 200 --optimizer keyed=adagrad,dense=adam --out run
    expect 0
    try eval --checkpoint run --data more.ffm
    expect 3 "more.ffm: near example 0: field 7 is out of range for the model, which has 5 fields"
    try eval --checkpoint run --data 'libsvm:none.libsvm?base=0'
    expect 3 "the rows have no field numbers, but the model was trained on 5 fields"
    embed --data a.ffm --features 200 --optimizer keyed=adagrad,dense=sgd --warm-start run --out other
    expect 2 "--warm-start" "use --optimizer keyed=adagrad,dense=adam"
    embed --data more.ffm --features 200 --warm-start run --out none
    expect 3 "--warm-start: more.ffm has 8 fields, but run was trained on 5"
}

@test "fields: a warm start gives new features the initial vectors of a new run" {
    "$YOKE" data gen "$CLICKS" --out a.ffm >log
    sed 's/ [0-9]*:19[0-9]:1//g' a.ffm >first.ffm
    embed --data first.ffm --optimizer sgd --out first
    expect 0
    embed --data a.ffm --warm-start first --steps 1 --lr 1e-30 --optimizer sgd --out second
    expect 0
    embed --data a.ffm --steps 1 --lr 1e-30 --optimizer sgd --out new
    expect 0
    python3 - <<'END'
import json, struct, sys

def table(run, step):
    with open(f"{run}/checkpoints/step-{step}/model.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    del header["__metadata__"]
    name = max(header, key=lambda n: header[n]["shape"][0])
    return data[slice(*header[name]["data_offsets"])]

first, second, new = table("first", 10), table("second", 1), table("new", 1)
known = len(first)
assert 0 < known < len(new) == len(second)
assert second[:known] == first and second[known:] == new[known:] and first != new[:known]
END
}
