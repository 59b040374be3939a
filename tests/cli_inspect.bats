#!/usr/bin/env bats
# yoke inspect: what a model is, and its weights by feature name.

setup() {
    load cli
    cli_setup
    awk 'BEGIN { srand(7); n = split("Paris Rome Oslo Lima", city); print "id,price,hour,city,os,clicked"
        for (i = 0; i < 200; i++) { h = int(24 * rand()); p = int(900 * rand()) / 10; c = city[1 + int(n * rand())]
            print "u" i "," p "," h "," c ",os" int(5 * rand()) "," (h / 12 + (c == "Rome") + p / 90 > 1.5 + rand()) } }' >day1.csv
    columns='?label=clicked&categorical=city,os&ignore=id&scale=standard'
}

teardown() { cli_teardown; }

learn() { # RUN MODEL SPEC OPTION...
    local out=$1 model=$2 data=$3
    shift 3
    "$YOKE" train --model "$model" --data "$data" --out "$out" --epochs 3 --test none --quiet "$@" >/dev/null
}

inspect() { # ARGUMENT...
    try inspect "$@"
    expect 0
}

# The Python expression is true, where m is the last line of `out`, and w maps the names of features to their rows.
says() { # EXPRESSION
    python3 -c 'import json, sys
m = json.loads(open("out").readlines()[-1])
w = {x["name"]: x for x in m["weights"]}
sys.exit(0 if eval(sys.argv[1]) else 1)' "$1" || { echo "not true: $1"; cat out; return 1; }
}

@test "one-hot columns: names, schema, training; hashed columns have the same weights by name" {
    learn onehot logreg "csv:day1.csv$columns&encode=onehot"
    learn hashed logreg "csv:day1.csv$columns&bits=14"
    inspect onehot --json
    silent err
    says 'len(w) == 11 and {"price", "hour", "city=Rome", "os=os4"} < set(w) and m["features"] == 11'
    says 'm["schema"]["columns"][3]["values"] and m["training"]["state"] == "done" and m["step"] == 12 and m["rows"] is None'
    says '[abs(x["weight"]) for x in m["weights"]] == sorted((abs(x["weight"]) for x in m["weights"]), reverse=True)'
    says '[(f["field"], f["features"]) for f in m["fields"]] == [("price", 1), ("hour", 1), ("city", 4), ("os", 5)]'
    inspect onehot --csv weights --quiet
    tr -d '\r' <out | cut -d , -f 1,4 | sort >by_name
    grep -q '^city=Rome,0\.0' by_name

    inspect hashed --json --data csv:day1.csv
    says 'm["rows"] == 200 and w["price"]["rows"] > 190 and 10 < w["city=Rome"]["rows"] < 90'
    says 'abs(w["city=Rome"]["importance"] - abs(w["city=Rome"]["weight"]) * w["city=Rome"]["rows"] / 200) < 1e-9'
    says 'sorted(f["field"] for f in m["fields"]) == ["city", "hour", "os", "price"]'
    inspect hashed --csv weights --data csv:day1.csv
    tr -d '\r' <out | cut -d , -f 1,4 | sort | diff - by_name

    inspect hashed --top 3 # without data
    grep -q 'names of hashed features; to look them up, add --data' err
    grep -q '^data  *csv: label clicked, 2 numeric (standardized), 2 categorical (hashed, 2^14), 1 ignored' out
    grep -q '^training  *done, epoch 3, step 12, 600 examples' out
    grep -q '^  price  *numeric  *number' out
    grep -q '^largest weights, 3 of 11 that are not 0' out
    [ "$(grep -c '^  hashed [0-9]' out)" -ge 1 ]
    ! grep ' $' out
    learn plain logreg 'csv:day1.csv?label=clicked&ignore=id,city,os'
    inspect plain
    ! grep ' $' out
}

@test "a file without a header; a table in which features share a hash" {
    tail -n +2 day1.csv >plain.csv
    learn run logreg 'csv:plain.csv?label=6&categorical=4,5&ignore=1&scale=standard&features=3'
    inspect run --json --data csv:plain.csv
    says '"column 2" in w and "column 3" in w and m["weights"][2]["rows"] <= 200 and len(w) == 3'
    says 'any("column 4=Rome" in name and "column 5=os4" in name for name in w)'
}

@test "names of hashed features in libsvm, vw, parquet and criteo" {
    printf '1 7:1 50000000001:2\n0 7:1 50000000002:1\n' >keys.svm
    learn svm logreg 'libsvm:keys.svm?bits=12'
    inspect svm --json --data libsvm:keys.svm
    says 'set(w) == {"7", "50000000001", "50000000002"} and w["50000000001"]["weight"] > 0'
    printf '1 |user age:3 city:Rome |item x\n-1 |user age:1 city:Oslo |item y\n' >a.vw
    learn vw logreg 'vw:a.vw?bits=12'
    inspect vw --json --data vw:a.vw
    says 'set(w) == {"user^age", "user^city:Rome", "user^city:Oslo", "item^x", "item^y"}'
    awk 'BEGIN { for (i = 0; i < 2; i++) { printf i; for (k = 0; k < 13; k++) printf "\t"; for (k = 0; k < 26; k++) printf "\t%08x", k + 100 * i
        print "" } }' >a.criteo
    corpus=$BATS_TEST_DIRNAME/../fuzz/corpus/parquet
    learn parquet logreg "parquet:$corpus/v1-dictionary?label=flag&scale=log&bits=10"
    inspect parquet --json --data "parquet:$corpus/v1-dictionary" --top 100
    says '{"city=Paris", "city=Rome", "city=Oslo, Norway", "ratio"} <= set(w)'
    learn criteo logreg 'criteo:a.criteo?bits=16'
    inspect criteo --json --data criteo:a.criteo --top 60
    says 'len(w) == 52 and w["C2=00000001"]["weight"] < 0 < w["C2=00000065"]["weight"]'
}

@test "libsvm indices, as in the file; pixels and classes of images" {
    printf '1 1:1 3:2\n0 1:1 4:1\n' >a.svm
    learn run logreg libsvm:a.svm
    inspect run --json
    says 'set(w) == {"index 1", "index 3", "index 4"} and w["index 3"]["feature"] == 2'
    learn zero logreg 'libsvm:a.svm?base=0'
    inspect zero --json
    says 'set(w) == {"index 1", "index 3", "index 4"} and w["index 3"]["feature"] == 3'
    learn digits softmax 'synth:digits?examples=200&test=10' --epochs 1
    inspect zero
    grep -qE '^bias +-?[0-9]' out
    inspect digits
    grep -qE '^bias +0 -?[0-9.e-]+, 1 .*, 9 -?[0-9.e-]+$' out
    try inspect digits --csv weights --json
    expect 2 "--csv and --json cannot be combined"
    inspect digits --json --data 'synth:digits?examples=200&test=10' --top 5
    says 'len(m["bias"]) == 10 and abs(sum(m["bias"])) < 1e-5' # gradients of softmax add up to 0
    says 'len(m["weights"]) == 5 and all(x["name"].startswith("pixel ") and x["class"] in "0123456789" for x in m["weights"])'
    says 'm["parameters"] == m["training"]["parameters"] == 7850' # without the padding in memory
}

@test "fm: norms of embeddings by field, from columns and from libffm" {
    learn fm fm:4 "csv:day1.csv$columns&bits=14"
    inspect fm --json --data csv:day1.csv
    says '[f["field"] for f in m["fields"] if f["tensor"] == "fm.weight"] == ["price", "hour", "city", "os"]'
    says 'all(0 < f["mean_norm"] <= f["max_norm"] for f in m["fields"]) and sum(f["features"] for f in m["fields"]) == 22'
    inspect fm
    grep -q '^  hashed categories  *fm.weight' out
    printf '1 0:1:1 1:5:1\n0 0:2:1 1:6:1\n' >a.ffm
    learn ffm deepfm:4 libffm:a.ffm
    inspect ffm --csv fields --data libffm:a.ffm
    grep -q '^field 1,linear.weight,2,' out
    [ "$(grep -c '^field [01],' out)" -ge 4 ]
}

@test "a bare file, a model without a schema, a network" {
    learn run logreg "csv:day1.csv$columns&encode=onehot"
    cp run/checkpoints/step-12/model.safetensors bare.safetensors
    inspect bare.safetensors --json
    says '"city=Rome" in w and m["training"] is None and m["file"] == "bare.safetensors"'
    python3 - <<'END'
import json, struct
data = open("bare.safetensors", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + n])
del header["__metadata__"]["schema"]
text = json.dumps(header).encode().ljust(n)
open("old.safetensors", "wb").write(struct.pack("<Q", n) + text + data[8 + n:])
END
    inspect old.safetensors --json
    says 'm["schema"] is None and "feature 0" in w and len(w) == 11'
    inspect "$BATS_TEST_DIRNAME/fixtures/run-0.1.0/logreg" --json
    says 'm["schema"] is None and m["training"]["state"] == "done" and all(x["name"] == "feature %d" % x["feature"] for x in m["weights"])'
    inspect old.safetensors
    grep -q '^data  *unknown: yoke 0.1 and 0.2' out
    learn net lenet5 'synth:digits?examples=20&test=10' --epochs 1
    inspect net
    grep -q '^model  *lenet5$' out
    grep -qE '^  3\.weight +16x6x5x5 +2400 +[0-9.]+ +[0-9.]+$' out # norms by tensor
    try inspect net --csv weights
    expect 2 "--csv weights: the model net (lenet5) has no such table"
}

@test "errors say what to do" {
    learn run logreg "csv:day1.csv$columns"
    try inspect
    expect 2 "RUN is missing: give the run directory"
    try inspect nowhere
    expect 2 "nowhere: cannot read: No such file"
    try inspect run --csv all
    expect 2 "--csv all: must be weights, fields, tensors or columns"
    cut -d , -f 1-4,6 day1.csv >narrow.csv
    try inspect run --data csv:narrow.csv
    expect 3 "os"
    printf '1 |user age:3\n-1 |user age:1\n' >a.vw
    learn vw logreg 'vw:a.vw?bits=12'
    try inspect vw --data 'vw:a.vw?bits=14'
    expect 2 "hashed into 16384 features, but the model has 4096; leave out the number of hash bits"
    try inspect run --data 'csv:-' <day1.csv
    expect 2 "names of hashed features need two passes; give a file"
    learn damaged logreg "csv:day1.csv$columns"
    printf '{\n"state": "do' >damaged/summary.json
    inspect damaged
    expect 0 "damaged/summary.json: invalid JSON in line 2: " "the training summary is not shown"
    grep -q "training    unknown: the run directory has no valid summary.json" out
    grep -q "^largest weights" out
}
