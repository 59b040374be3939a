#!/usr/bin/env bats
# A model knows its data: whatever is forgotten or different when it is used, the result is right, or there is an error.
#
# Each test trains on day1.csv, and scores the same rows in other forms. `same` compares with the predictions for day1.csv.

setup() {
    load cli
    cli_setup
    awk 'BEGIN { srand(7); n = split("Paris Rome Oslo Lima", city); print "id,price,hour,city,os,clicked"
        for (i = 0; i < 200; i++) { h = int(24 * rand()); p = int(900 * rand()) / 10; c = city[1 + int(n * rand())]
            print "u" i "," p "," h "," c ",os" int(5 * rand()) "," (h / 12 + (c == "Rome") + p / 90 > 1.5 + rand()) } }' >day1.csv
    model='?label=clicked&categorical=city,os&ignore=id&scale=standard'
    learn run "csv:day1.csv$model"
    "$YOKE" predict --checkpoint run --data csv:day1.csv >expected
    [ "$(sort -u expected | wc -l)" -gt 100 ]
}

teardown() { cli_teardown; }

learn() { # RUN SPEC OPTION...
    local out=$1 data=$2
    shift 2
    "$YOKE" train --model logreg --data "$data" --out "$out" --epochs 3 --test none --quiet "$@" >/dev/null
}

table() { # COLUMNS [FILE]: these columns of day1.csv, in this order, with this delimiter
    awk -F, -v list="$1" 'NR == 1 { n = split(list, want, ","); for (i = 1; i <= NF; i++) at[$i] = i }
        { line = ""; for (i = 1; i <= n; i++)
            line = line (i > 1 ? "," : "") (want[i] in at ? $at[want[i]] : NR == 1 ? want[i] : "x" NR); print line }' "${2:-day1.csv}"
}

same() { # SPEC OPTION...: the predictions are those for day1.csv
    local data=$1
    shift
    try predict --checkpoint run --data "$data" "$@"
    expect 0
    cmp out expected
}

refused() { # STATUS WORDS SPEC OPTION...: by predict and eval
    local status_wanted=$1 words=$2 data=$3
    shift 3
    for command in predict eval; do
        try $command --checkpoint run --data "$data" "$@"
        expect "$status_wanted" "$words"
    done
}

@test "options that are forgotten: scale, categorical, ignore, label, encode" {
    same csv:day1.csv
    same "csv:day1.csv$model" # repeated ones agree
    same day1.csv             # the format is detected
    try eval --checkpoint run --data csv:day1.csv
    expect 0
    mv out all
    try eval --checkpoint run --data "csv:day1.csv$model&fit=day1.csv"
    expect 0 "fit is not needed"
    cmp out all
}

@test "columns in another order, more columns, without the label" {
    table os,clicked,hour,city,price,id >moved.csv
    same csv:moved.csv
    table price,hour,city,os >unlabeled.csv
    same csv:unlabeled.csv
    same "csv:unlabeled.csv?scale=standard&fit=day1.csv"
    table browser,os,hour,city,price,age >more.csv
    same csv:more.csv
    expect 0 "2 columns are not in the model, and ignored: age, browser"
    table price,hour,city,os,clicked | sed '2,$s/,[01]$/,/' >blank.csv # labels that are not known yet
    same csv:blank.csv
    table price,hour,city,os,clicked | sed '2,$s/,[01]$/,maybe/' >other.csv
    same csv:other.csv
    refused_by_eval() { try eval --checkpoint run --data "$1"; expect 3 "$2"; }
    refused_by_eval csv:unlabeled.csv "the column 'clicked' is missing; the model needs it (label)"
    refused_by_eval csv:blank.csv "the label is missing"
}

@test "columns that are missing, renamed or doubled" {
    table price,city,os,clicked >fewer.csv
    refused 3 "the column 'hour' is missing; the model needs it (numeric)" csv:fewer.csv
    table price,hour,os,clicked >fewer.csv
    refused 3 "the column 'city' is missing; the model needs it (categorical)" csv:fewer.csv
    sed '1s/price/Price/' day1.csv >renamed.csv
    refused 3 "the column 'price' is missing" csv:renamed.csv
    sed '1s/id/hour/' day1.csv >twice.csv
    refused 3 "another column with the name 'hour'" csv:twice.csv
    sed '1s/price/hour/; 1s/,hour,city/,price,city/' day1.csv >exchanged.csv # the values belong to the names
    try predict --checkpoint run --data csv:exchanged.csv
    expect 0
    ! cmp -s out expected
}

@test "files of another form: delimiter, quotes, blanks, byte-order mark, compression, several files" {
    tr , ';' <day1.csv >semicolons.csv
    same csv:semicolons.csv
    sed '1s/.*/\xef\xbb\xbfid, price ,"hour",city,os , clicked/; 2,$s/,\([A-Z][a-z]*\),/,"\1",/' day1.csv >quoted.csv
    same csv:quoted.csv
    sed 's/$/\r/' day1.csv | gzip >dos.csv.gz
    same csv:dos.csv.gz
    head -n 90 day1.csv >part-1.csv
    (head -n 1 day1.csv; tail -n +91 day1.csv) >part-2.csv
    same 'csv:part-*.csv'
    try predict --checkpoint run --data csv:- <day1.csv
    expect 0
    cmp out expected
}

@test "options that contradict the model name the column and both values" {
    refused 2 "column 2 (price): scale is log here, but standard in the model" "csv:day1.csv?scale=log"
    refused 2 "column 2 (price): scale is none here, but standard in the model" "csv:day1.csv?scale=none"
    refused 2 "column 4 (city): encode is onehot here, but hash in the model" "csv:day1.csv?encode=onehot"
    refused 2 "column 2 (price): its role is categorical here, but numeric in the model" "csv:day1.csv?categorical=price"
    refused 2 "column 4 (city): its role is numeric here, but categorical in the model" "csv:day1.csv?numeric=city"
    refused 2 "column 3 (hour): its role is categorical here, but numeric" "csv:day1.csv?numeric=price"
    refused 2 "column 3 (hour): its role is ignored here, but numeric in the model" "csv:day1.csv?ignore=hour"
    refused 2 "column 3 (hour): its role is label here, but numeric in the model" "csv:day1.csv?label=hour"
    refused 2 "column 1 (id): its role is categorical here, but ignored in the model" "csv:day1.csv?categorical=id"
    refused 2 "missing is ? here, but not given in the model" "csv:day1.csv?missing=?"
    refused 2 "column 4 (city): the number of features (bits, features) is 1024 here, but 65536" "csv:day1.csv?bits=10"
    refused 2 "is 2048 here, but 65536 in the model" csv:day1.csv --hash-bits 11
    refused 2 "is 999 here, but 65536 in the model" csv:day1.csv --features 999
    same csv:day1.csv --hash-bits 16
}

@test "values: new categories, missing and bad ones" {
    sed '2,$s/,Rome,/,Bonn,/' day1.csv >new.csv
    sed '2,$s/,Rome,/,,/' day1.csv >empty.csv
    try predict --checkpoint run --data csv:empty.csv
    expect 0
    mv out without
    learn onehot "csv:day1.csv$model&encode=onehot"
    for run in run onehot; do
        "$YOKE" predict --checkpoint $run --data csv:new.csv >new
        "$YOKE" predict --checkpoint $run --data csv:empty.csv >empty
        "$YOKE" predict --checkpoint $run --data csv:day1.csv >full
        ! cmp -s empty full
    done
    cmp new empty # one-hot: a value that was not in the training data counts as missing
    sed '5s/^u3,[0-9.]*/u3,cheap/' day1.csv >bad.csv
    refused 3 "bad.csv: line 5 at byte" csv:bad.csv
    expect 3 "column 2 (price): 'cheap' is not a number; the column is numeric in the model"
}

@test "data without a header" {
    tail -n +2 day1.csv >bare.csv
    refused 3 "the columns have no names, but those of the model have: add ?header=0" csv:bare.csv
    same "csv:bare.csv?header=0"
    learn positions "csv:bare.csv?label=6&categorical=4,5&ignore=1&scale=standard"
    for data in bare.csv 'day1.csv?header=1'; do
        try predict --checkpoint positions --data "csv:$data"
        expect 0
        cmp out expected
    done
    cut -d, -f1-5 bare.csv >short.csv
    try predict --checkpoint positions --data csv:short.csv
    expect 0
    cmp out expected
    try eval --checkpoint positions --data csv:short.csv
    expect 3 "5 columns, but the model was trained on 6"
    cut -d, -f1-4 bare.csv >short.csv
    try predict --checkpoint positions --data csv:short.csv
    expect 3 "4 columns, but the model was trained on 6"
    try predict --checkpoint positions --data csv:day1.csv
    expect 3 "the columns have names, but those of the model have none: add ?header=1"
}

@test "the label is never chosen silently" {
    printf 'is_mobile,price,bought\n1,2,0\n0,3,1\n' >a.csv
    try train --model logreg --data csv:a.csv --out none
    expect 2 "no column is named label, target, y, click, clicked or class" "?label=NAME; the columns are: is_mobile, price, bought"
    for name in Label TARGET y click clicked Class; do
        sed "1s/bought/$name/" a.csv >b.csv
        try train --model logreg --data csv:b.csv --test none --out none
        expect 0 "label $name, 2 numeric"
    done
    sed '1s/is_mobile/click/; 1s/bought/y/' a.csv >b.csv
    try train --model logreg --data csv:b.csv --out none
    expect 2 "columns 1 (click) and 3 (y) may both be the label: add ?label=1 or ?label=3"
    tail -n 2 a.csv >b.csv
    try train --model logreg --data csv:b.csv --test none --out none
    expect 0 "the columns have no names: the first one is the label; ?label=NUMBER chooses another" "label column 1, 2 numeric"
}

@test "classes by name" {
    sed '2,$s/1$/yes/; 2,$s/0$/no/' day1.csv >named.csv
    learn named "csv:named.csv$model&classes=no,yes"
    try predict --checkpoint named --data csv:named.csv
    expect 0
    cmp out expected
    try eval --checkpoint named --data csv:named.csv --json
    expect 0
    holds "$(field accuracy) > 0.7"
    try eval --checkpoint named --data 'csv:named.csv?classes=yes,no'
    expect 2 "column 6 (clicked): classes is yes,no here, but no,yes in the model"
    try eval --checkpoint named --data csv:day1.csv
    expect 3 "the label '1' is not in classes="
}

@test "data of another format" {
    printf '1 1:1 2:1\n0 70:1\n' >a.libsvm
    refused 2 "the model was trained on csv data, whose features are not those of libsvm" a.libsvm
    learn sparse a.libsvm
    try predict --checkpoint sparse --data "csv:day1.csv?label=clicked&categorical=city,os&ignore=id"
    expect 2 "the model was trained on libsvm data, whose features are not those of csv"
    try train --model logreg --data a.libsvm --test "csv:day1.csv?categorical=city,os&ignore=id" --out none
    expect 2 "whose features are not those of csv"
}

@test "--warm-start: other columns, order, scales and bits" {
    (head -n 1 day1.csv; tail -n 100 day1.csv | sed 's/,\([0-9]\)/,1\1/') >day2.csv
    learn wanted "csv:day2.csv$model" --warm-start run
    table city,hour,clicked,os,price day2.csv >moved.csv
    learn moved csv:moved.csv --warm-start run
    "$YOKE" predict --checkpoint wanted --data csv:day1.csv >wanted.txt
    "$YOKE" predict --checkpoint moved --data csv:day1.csv >moved.txt
    cmp wanted.txt moved.txt
    table city,clicked,os,price day2.csv >fewer.csv
    try train --model logreg --data csv:fewer.csv --warm-start run --out none
    expect 3 "the column 'hour' is missing"
    try train --model logreg --data 'csv:day2.csv?scale=log' --warm-start run --out none
    expect 2 "scale is log here, but standard in the model"
    try train --model logreg --data csv:day2.csv --hash-bits 20 --warm-start run --out none
    expect 2 "is 1048576 here, but 65536 in the model"
    file=$(ls run/checkpoints/step-*/model.safetensors) # alone, without its run directory
    cp $file model.safetensors
    try predict --checkpoint model.safetensors --data csv:moved.csv
    expect 0
    learn file csv:moved.csv --warm-start model.safetensors
}

@test "--resume: the columns are those of the run" {
    table os,clicked,hour,city,price,id >moved.csv
    cp -r run again
    try train --resume --out again --epochs 4 --data csv:moved.csv --quiet
    expect 0
    try train --resume --out run --epochs 4 --quiet
    expect 0
    "$YOKE" predict --checkpoint run --data csv:day1.csv >a
    "$YOKE" predict --checkpoint again --data csv:day1.csv >b
    cmp a b
    ! cmp -s a expected
    table os,clicked,city,price,id >fewer.csv
    try train --resume --out run --epochs 5 --data csv:fewer.csv
    expect 3 "the column 'hour' is missing"
    try train --resume --out run --epochs 5 --data "csv:day1.csv?scale=none"
    expect 2 "scale is none here, but standard in the model"
}

@test "models without a schema still work, and a damaged one is refused" {
    python3 - run/checkpoints/step-*/model.safetensors <<'END'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
head = json.loads(data[8:8 + n])
def write(path, text):
    if text is None:
        del head["__metadata__"]["schema"]
    else:
        head["__metadata__"]["schema"] = text
    out = json.dumps(head).encode()
    out += b" " * (-len(out) % 8)
    open(path, "wb").write(struct.pack("<Q", len(out)) + out + data[8 + n:])
good = head["__metadata__"]["schema"]
write("bad.safetensors", good[:-9])
write("other.safetensors", good.replace('"hash"', '"crash"'))
write("new.safetensors", good.replace('"version":1', '"version":2'))
write("old.safetensors", None)
END
    for file in bad other new; do
        try predict --checkpoint $file.safetensors --data csv:day1.csv
        expect 3 "$file.safetensors: its schema"
    done
    try predict --checkpoint old.safetensors --data "csv:day1.csv$model&fit=day1.csv"
    expect 0
    cmp out expected
    learn continued "csv:day1.csv$model" --warm-start old.safetensors # with its number of features
}

@test "two processes use the schema of the chief" {
    [ -n "$(command -v mpirun)" ] || skip "needs mpirun"
    learn two "csv:day1.csv$model&encode=onehot" --launch 2 --mode sync --batch 10
    learn one "csv:day1.csv$model&encode=onehot" --workers 2 --mode sync --batch 10
    "$YOKE" predict --checkpoint one --data csv:day1.csv >a
    "$YOKE" predict --checkpoint two --data csv:day1.csv >b
    paste a b | awk '{ d = $1 - $2; if (d > 1e-5 || d < -1e-5) exit 1 }'
}
