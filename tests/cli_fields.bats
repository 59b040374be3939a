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
    expect 3 "more.ffm: example 1: field 7 is out of range for the model, which has 5 fields"
    try eval --checkpoint run --data 'libsvm:none.libsvm?base=0'
    expect 3 "the rows have no field numbers, but the model was trained on 5 fields"
    embed --data a.ffm --features 200 --optimizer keyed=adagrad,dense=sgd --warm-start run --out other
    expect 2 "--warm-start" "use --optimizer keyed=adagrad,dense=adam"
    embed --data more.ffm --features 200 --warm-start run --out none
    expect 3 "--warm-start: more.ffm has 8 fields, but run was trained on 5"
}

@test "fields: without field numbers, the position is the field, or the data is refused" {
    "$YOKE" data gen "$CLICKS" --out a.libsvm --format libsvm >log
    sed '7s/ [^ ]*$//' a.libsvm >short.libsvm
    try train --model "$MODEL" --data a.libsvm --test a.libsvm --batch 30 --json --out run
    expect 0 "5 fields: the rows have no field numbers, so the position of an entry in its row is its field"
    loss=$(field test_loss)
    holds "abs($("$YOKE" eval --checkpoint run --data a.libsvm --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["loss"])') - $loss) < 1e-6"
    try predict --checkpoint run --data short.libsvm
    expect 3 "short.libsvm: example 7: a row has 4 entries instead of 5"
    for how in '--launch 2 --servers 0' '--launch 3 --servers 1'; do # all ranks agree
        # shellcheck disable=SC2086
        try train --model "$MODEL" --data a.libsvm --test a.libsvm --batch 15 --json --quiet --out jobs $how
        expect 0
        holds "abs($(field test_loss) - $loss) < 1e-6"
        grep -qa '"fields":"5","fields_by":"position"' jobs/checkpoints/step-10/model.safetensors
        rm -r jobs
        # shellcheck disable=SC2086
        try train --model "$MODEL" --data short.libsvm --batch 15 --out none $how
        expect 2 "?fields=position"
    done
    for model in "$MODEL" deepfm:2 wide-deep:2; do
        try train --model "$model" --data short.libsvm --out none
        expect 2 "libffm:" "?fields=position" "?fields=one"
        try train --model "$model" --data 'libsvm:short.libsvm?fields=position' --out none
        expect 3 "short.libsvm: record 7"
    done
    try train --model fm:2 --data short.libsvm --out none # uses no fields
    expect 0
    embed --data 'libsvm:short.libsvm?fields=position' --skip-bad 1 --out none
    expect 0
    embed --data a.libsvm --stream always --out none
    expect 2 "?fields=position"
    embed --data 'libsvm:a.libsvm?fields=position' --stream always --out none
    expect 0
    embed --data 'libsvm:short.libsvm?fields=position&nfields=5' --features 200 --stream always --out none
    expect 3 "short.libsvm: record 7" "4 entries instead of 5"
    embed --data 'libsvm:short.libsvm?fields=one' --stream always --out one
    expect 0
    "$YOKE" eval --checkpoint one --data short.libsvm >log
    "$YOKE" data convert 'libsvm:a.libsvm?fields=position' --out a.ffm >log
    embed --data a.ffm --out none
    expect 0
    embed --data a.ffm --warm-start run --out none
    expect 3 "--warm-start: the fields of a.ffm are field numbers, but those of run are positions"
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
