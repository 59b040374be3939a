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
    expect 0 "fit has no effect: the model's own means and values are used"
    cmp out all
    table price,clicked >other.csv
    for job in "" "--launch 2 --batch 10"; do
        # shellcheck disable=SC2086
        try train --model logreg --data "csv:day1.csv$model&fit=other.csv" --warm-start run --epochs 1 --out none $job
        expect 0 "fit has no effect: the model's own means and values are used"
        [ "$(grep -c "fit has no effect" err)" -eq 1 ]
    done
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

@test "files that are not CSV text" {
    iconv -f UTF-8 -t UTF-16 day1.csv >wide.csv
    try train --model logreg --data csv:wide.csv --out none
    expect 3 "wide.csv: zero bytes in the first line: this is not CSV text; convert UTF-16 to UTF-8"
    { printf 'PAR1\000'; cat day1.csv; } >table.csv
    refused 3 "not CSV text; use parquet:FILES" csv:table.csv
}

@test "columns that are missing, renamed or doubled" {
    table price,city,os,clicked >fewer.csv
    refused 3 "the column 'hour' is missing; the model needs it (numeric); the columns are: price, city, os, clicked" csv:fewer.csv
    table price,hour,os,clicked >fewer.csv
    refused 3 "the column 'city' is missing; the model needs it (categorical)" csv:fewer.csv
    learn weighted "csv:day1.csv?label=clicked&weight=price&ignore=id,city,os"
    table hour,clicked >fewer.csv
    "$YOKE" predict --checkpoint weighted --data csv:day1.csv >wanted
    try predict --checkpoint weighted --data csv:fewer.csv # needs no weights
    expect 0
    cmp out wanted
    for use in "eval --checkpoint weighted" "train --model logreg --out none --warm-start weighted" \
        "train --model logreg --out none --data csv:day1.csv?label=clicked&weight=price&ignore=id,city,os --test"; do
        case $use in *test) ;; *) use+=" --data" ;; esac
        # shellcheck disable=SC2086
        try $use csv:fewer.csv
        expect 3 "csv:fewer.csv: the column 'price' is missing; the model needs it (weight)"
    done
    sed '1s/price/Price/' day1.csv >renamed.csv
    refused 3 "the column 'price' is missing" csv:renamed.csv
    sed '1s/id/hour/' day1.csv >twice.csv
    refused 3 "a second column named 'hour', but the model has only one" csv:twice.csv
    try train --model logreg --data "csv:twice.csv$model" --out none # twice, already in training
    expect 2 "ignore: no column 'id'"
    try train --model logreg --data "csv:twice.csv?categorical=city,os" --out none
    expect 2 "columns 1 and 3 are both named 'hour', and a model finds columns by name: rename one, or add ignore=3 to the spec"
    try data inspect csv:twice.csv
    expect 0
    sed '1s/clicked/bought/' day1.csv >unknown.csv
    try data inspect csv:unknown.csv
    expect 0 "choose the label with ?label=NAME"
    grep -q "^classes  *not known: no column is the label" out
    sed 's/^u//' twice.csv >numbers.csv
    learn ignores "csv:numbers.csv?categorical=city,os&ignore=1" # but one of them may be ignored
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
    refused 3 "the data has no header, but the training data had one: add ?header=0" csv:bare.csv
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
    expect 3 "the data has a header, but the training data had none: add ?header=1 to match the columns by position, or ?header=0 if"
    table id,price >short.csv
    try predict --checkpoint positions --data csv:short.csv # an option would not help
    expect 3 "2 columns, but the model was trained on 6"
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
    expect 0 "there is no header: the first column is the label; to choose another, add ?label=NUMBER" "label column 1, 2 numeric"
}

@test "the index of pandas is no feature, or there is a warning" {
    printf ',__index_level_0__,x,y\n0,0,2,0\n1,1,3,1\n' >a.csv
    try train --model logreg --data csv:a.csv --test none --out none
    expect 0 "column 1 has no name, and is a feature: if it is the index of a pandas table, add ignore=1 to the spec" \
        "label y, 2 numeric, the index of pandas ignored"
    try train --model logreg --data 'csv:a.csv?ignore=1&categorical=__index_level_0__' --test none --out none
    expect 0 "label y, 1 numeric, 1 categorical (hashed, 2^16), 1 ignored"
    if grep 'has no name' out err; then false; fi
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
    expect 3 "the label '1' is not listed in classes="
}

@test "predict and eval agree about a probability of exactly 0.5" {
    printf 'x,label\n1,1\n-1,0\n0,0\n0,0\n' >ties.csv
    "$YOKE" train --model logreg --no-bias --data csv:ties.csv --test none --batch 4 --out ties --quiet
    try eval --checkpoint ties --data csv:ties.csv
    expect 0
    grep -q "^accuracy  *100.00 %" out
    for raw in "" --raw; do
        try predict --checkpoint ties --data csv:ties.csv --csv $raw
        expect 0
        [ "$(tail -n +2 out | cut -d, -f2 | tr -d '\n')" = 1000 ]
    done
    try predict --checkpoint ties --data csv:ties.csv --threshold 0.5
    expect 0
    [ "$(tail -n +2 out | cut -d, -f2 | tr -d '\n')" = 1011 ]
}

@test "predict: --id, --with, --threshold, --raw; CSV and JSON" {
    sed '2,$s/1$/yes/; 2,$s/0$/no/; 3s/^u1,/"u,""1""",/' day1.csv >named.csv
    learn named "csv:named.csv$model&classes=no,yes"
    table id,city,os,hour,price >new.csv
    sed -i '3s/^u1,/"u,""1""",/' new.csv
    try predict --checkpoint named --data csv:new.csv --id id --with os,city
    expect 0
    [ "$(head -n 1 out)" = id,os,city,probability,class ]
    mv out once
    learn numbers "csv:day1.csv$model" --model linear
    try predict --checkpoint numbers --data csv:day1.csv --threshold 0.5
    expect 2 "--threshold is for models with classes; this one predicts numbers"
    try predict --checkpoint named --data csv:new.csv --id id --with id,os,os,city # as many as the file has, but some twice
    expect 0
    cut -d, -f 2,4- out | tail -n +4 | cmp - <(tail -n +4 once)
    mv once out
    tail -n +2 out | sed 's/"u,""1"""/u1/' | awk -F, '{ print $4; if ($5 != ($4 >= 0.5 ? "yes" : "no")) exit 1 }' >p
    cmp p expected
    tail -n +2 out | cut -d, -f1-3 >cells
    table id,os,city | tail -n +2 | sed '2s/^u1,/"u,""1""",/' | cut -d, -f1-3 | cmp - cells
    try predict --checkpoint named --data csv:new.csv --id 1 --json --threshold 0.2 --raw
    expect 0
    python3 - <<'END'
import json, math
for line, p in zip(open("out"), map(float, open("expected"))):
    j = json.loads(line)
    assert j["1"].startswith("u"), j
    assert abs(j["scores"][0] - math.log(p / (1 - p))) < 1e-3 and j["class"] == ("yes" if p >= 0.2 else "no"), (j, p)
END
    learn by_id "csv:day1.csv${model/ignore=id/id=id}" # a column that is not a feature, and says what the row is
    try inspect by_id
    expect 0
    grep -q "label clicked, 2 numeric (standardized), 2 categorical (hashed, [^)]*), id id$" out
    for data in csv:day1.csv 'csv:day1.csv?id=id' 'csv:day1.csv?ignore=id' csv:new.csv; do
        try predict --checkpoint by_id --data $data
        expect 0
        cmp out expected
    done
    try predict --checkpoint by_id --data 'csv:day1.csv?id=city'
    expect 2 "column 4 (city): its role is id here, but categorical in the model"
    try predict --checkpoint run --data csv:day1.csv --csv --out file.csv
    expect 0
    silent out
    [ "$(head -n 1 file.csv)" = probability,class ]
    grep -q ',1$' file.csv
    try predict --checkpoint run --data csv:day1.csv --id user
    expect 2 "no column 'user'; the columns are: id, price"
    sed 's/id,/class,/' day1.csv >class.csv # a column with the name of an output
    for form in --csv --json; do
        try predict --checkpoint run --data csv:class.csv $form --with city,class
        expect 2 "--id or --with class: the predictions would have two columns of this name: specify the column by its number"
        try predict --checkpoint run --data csv:class.csv $form --with city,1
        expect 0
    done
    sed '1s/id,/"a ""b""",/' day1.csv >quotes.csv
    try predict --checkpoint run --data csv:quotes.csv --with 'a "b",city'
    expect 0
    [ "$(head -n 1 out)" = '"a ""b""",city,probability,class' ]
    try predict --checkpoint run --data csv:day1.csv --json --id id --with city,id
    expect 2 "--id or --with id: the predictions would have two columns of this name"
    try predict --checkpoint run --data csv:day1.csv --threshold 2
    expect 2 "--threshold 2: must be between 0 and 1"
    "$YOKE" train --model softmax --data 'csv:day1.csv?label=hour&ignore=id,city,os' --out many --quiet --test none >/dev/null
    try predict --checkpoint many --data csv:day1.csv --csv
    expect 0
    [[ "$(head -n 1 out)" = probability_0,probability_1,*,probability_23,class ]]
    try predict --checkpoint many --data csv:day1.csv --with probability_1
    expect 2 "--id or --with probability_1: the predictions would have two columns of this name"
    printf 'y,a\n"p""q",1\n日本語,2\ns,3\n' >names.csv
    "$YOKE" train --model softmax --data 'csv:names.csv?classes=p"q,日本語,s' --out names --quiet --test none >/dev/null
    try predict --checkpoint names --data csv:names.csv --csv
    expect 0
    [ "$(head -n 1 out)" = '"probability_p""q",probability_日本語,probability_s,class' ]
    try eval --checkpoint names --data csv:names.csv
    expect 0
    grep -qx ' *p"q  日本  s' out # not a part of a character
    try predict --checkpoint many --data csv:day1.csv --threshold 0.5
    expect 2 "--threshold is for models with two classes and one output"
    try predict --checkpoint many --data synth:digits --id a
    expect 2 "synth data has no columns that could be added to predictions: a"
    for spec in libsvm:missing cache:missing images:missing; do # before the missing file
        try predict --checkpoint many --data "$spec" --id a
        expect 2 "${spec%:*} data has no columns that could be added to predictions: a"
    done
    try predict --checkpoint many --data csv:missing --id a
    expect 3 "missing: no such file"
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

@test "options that decide what the features are: base of libsvm and vw, namespaces of vw" {
    awk 'BEGIN { srand(3); for (i = 0; i < 300; i++) { a = rand(); b = rand(); c = rand(); y = a - b > 0.1 * (rand() - 0.5)
        print y, (i % 3 ? "0:" a : ""), "1:" b, "2:" c >"a.libsvm"; print y, "1:" b, "2:" c >"b.libsvm"
        print y, "2:" b, "3:" c >"c.libsvm"
        print y " |user u" int(9 * a) " |ad a" int(9 * b) >"a.vw" } }'
    learn zero 'libsvm:a.libsvm?base=0'
    for data in b.libsvm libsvm:b.libsvm 'libsvm:b.libsvm?base=0'; do
        try predict --checkpoint zero --data "$data"
        expect 0
        cp out "${data##*[:.]}"
    done
    cmp libsvm 'libsvm?base=0'
    try eval --checkpoint zero --data a.libsvm # has indices 0
    expect 0
    try train --model logreg --data 'libsvm:a.libsvm?base=0' --test b.libsvm --json --quiet --out none --epochs 3
    expect 0
    auc=$(field test_auc)
    try train --model logreg --data 'libsvm:a.libsvm?base=0' --test 'libsvm:c.libsvm?base=1' --json --quiet --out none --epochs 3 # describes the file
    expect 0
    holds "$auc > 0.6 and $auc == $(field test_auc)"
    learn more libsvm:a.libsvm --warm-start zero --launch 2
    try inspect more
    expect 0
    grep -q "index 0 " out
    awk 'BEGIN { srand(4); for (i = 0; i < 100; i++) { x = int(9 * rand()); line = (x > 4) "\t" x
        for (k = 0; k < 38; k++) line = line "\t"; print line }}' >a.criteo
    learn values 'criteo:a.criteo?numeric=value' --hash-bits 10
    "$YOKE" eval --checkpoint values --data 'criteo:a.criteo?numeric=value' >wanted
    try eval --checkpoint values --data a.criteo
    expect 0
    cmp out wanted
    try eval --checkpoint values --data 'criteo:a.criteo?numeric=bucket'
    expect 2 "criteo:a.criteo?numeric=bucket: numeric is bucket here, but value in the model: leave out this option"
    learn fields 'vw:a.vw?namespaces=user,ad' --model deepfm:4 --hash-bits 10
    try predict --checkpoint fields --data vw:a.vw
    expect 0
    try predict --checkpoint fields --data 'vw:a.vw?namespaces=ad,user'
    expect 2 "namespaces is ad,user here, but user,ad in the model: leave out this option"
}

@test "all data of a run is hashed in the same way" {
    awk 'BEGIN { srand(3); for (i = 0; i < 200; i++) { a = rand(); b = rand(); y = a > b
        print y, 1 + int(9 * a) ":1", 11 + int(9 * b) ":1" >"a.libsvm"; print y " |user u" int(9 * a) " |ad a" int(9 * b) >"a.vw" } }'
    for data in libsvm:a.libsvm vw:a.vw; do
        for other in '' '?features=1024'; do
            try train --model logreg --data "$data?bits=10" --test "$data$other" --validation "$data$other" --batch 20 --json --quiet --out none$other
            expect 0
            holds "$(field test_auc) > 0.9 and $(field validation_auc) == $(field test_auc) and $(field parameters) == 1025"
        done
        try train --model logreg --data "$data?bits=10" --test "$data?bits=11" --out no
        expect 2 "$data?bits=11: the keys are hashed into 2048 features, but those of the training data are hashed into 1024 features"
        try train --model logreg --data "$data?bits=10" --hash-bits 11 --out no
        expect 2 "$data?bits=10: ?bits=10 contradicts --hash-bits 11: leave out one of them"
        try train --model logreg --data "$data?features=999" --features 1000 --out no
        expect 2 "$data?features=999: ?features=999 contradicts --features 1000: leave out one of them"
        rm -rf none*
    done
    learn hashed 'vw:a.vw?bits=10'
    learn more vw:a.vw --warm-start hashed --launch 2
    learn plain a.libsvm --features 1024
    try eval --checkpoint plain --data a.libsvm --hash-bits 10
    expect 2 "a.libsvm: the keys are hashed, but those of the training data were not"
    try train --model logreg --data a.libsvm --test 'libsvm:a.libsvm?bits=10' --out no
    expect 2 "the keys are hashed into 1024 features, but those of the training data are not hashed"
}

@test "a binary cache keeps the schema of a table" {
    "$YOKE" data convert "csv:day1.csv$model&bits=14" --out day1.cache --quiet
    learn cached cache:day1.cache --test "csv:day1.csv"
    table clicked,os,hour,id,city,price >other.csv
    "$YOKE" predict --checkpoint cached --data cache:day1.cache >wanted
    try predict --checkpoint cached --data csv:other.csv
    expect 0
    cmp out wanted
    sed '2,$s/1$/yes/; 2,$s/0$/no/' day1.csv >named.csv
    "$YOKE" data convert "csv:named.csv$model&classes=no,yes" --out named.cache --quiet
    try train --model logreg --data named.cache --test named.cache --class-weight yes=2 --out none --json
    expect 0 "class weights: no 1, yes 2"
    field test_metrics | grep -q '"name": "yes"'
    refused 2 "day1.cache: its schema differs from that of the model" cache:day1.cache # another number of bits
    learn same "csv:day1.csv$model&bits=14"
    try predict --checkpoint same --data cache:day1.cache
    expect 0
    try train --model logreg --data cache:day1.cache --features 99999 --out none
    expect 2 "its schema has 16384 features; leave out --features"
    printf x | dd of=day1.cache bs=1 seek=$(($(stat -c %s day1.cache) - 9)) conv=notrunc status=none
    try predict --checkpoint cached --data cache:day1.cache
    expect 3 "the schema is damaged: its checksum is wrong"
    printf x | dd of=day1.cache bs=1 seek=$(($(stat -c %s day1.cache) - 1)) conv=notrunc status=none
    try predict --checkpoint cached --data cache:day1.cache
    expect 3 "the schema does not end with a zero byte"
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
    learn two "csv:day1.csv$model&encode=onehot" --launch 2 --mode sync --batch 10
    learn one "csv:day1.csv$model&encode=onehot" --workers 2 --mode sync --batch 10
    "$YOKE" predict --checkpoint one --data csv:day1.csv >a
    "$YOKE" predict --checkpoint two --data csv:day1.csv >b
    paste a b | awk '{ d = $1 - $2; if (d > 1e-5 || d < -1e-5) exit 1 }'
}

@test "a pipeline: train on day 1, warm-start on day 2, score day 3 without labels; equal to a reference to 1e-5" {
    (head -n 1 day1.csv; tail -n 120 day1.csv | sed 's/^u/v/; s/,Rome,/,Bonn,/') >day2.csv
    table id,os,city,hour,price | tail -n 80 | (echo id,os,city,hour,price; cat) >day3.csv
    for encode in onehot dense hash; do
        "$YOKE" train --model logreg --data "csv:day1.csv$model&encode=$encode" --batch 200 --epochs 30 --lr 0.5 --test none \
            --out $encode-1 --quiet >/dev/null
        "$YOKE" train --model logreg --data csv:day2.csv --warm-start $encode-1 --batch 120 --epochs 10 --lr 0.5 --test none \
            --out $encode-2 --quiet >/dev/null
        "$YOKE" predict --checkpoint $encode-2 --data csv:day3.csv --id id >$encode.csv
        # with scikit-learn's encoders if they are installed
        command python3 - $encode.csv <<'END'
import csv, math, sys
days = [list(csv.DictReader(open(f"day{d}.csv"))) for d in (1, 2, 3)]
numeric, categorical = ["price", "hour"], ["city", "os"]
def table(rows, names, convert):
    return [[convert(r[c]) for c in names] for r in rows]
try:
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    scaler = StandardScaler().fit(table(days[0], numeric, float))
    values = OneHotEncoder(handle_unknown="ignore").fit(table(days[0], categorical, str))
    def encode(rows):
        return [list(a) + list(b) for a, b in zip(scaler.transform(table(rows, numeric, float)),
                                                  values.transform(table(rows, categorical, str)).toarray())]
except ImportError:
    stat = {}
    for c in numeric:
        x = [float(r[c]) for r in days[0]]
        mean = sum(x) / len(x)
        stat[c] = mean, math.sqrt(sum((v - mean) ** 2 for v in x) / len(x))
    known = [(c, v) for c in categorical for v in sorted({r[c] for r in days[0]})]
    def encode(rows):
        return [[(float(r[c]) - stat[c][0]) / stat[c][1] for c in numeric] + [float(r[c] == v) for c, v in known] for r in rows]
hashed = sys.argv[1] == "hash.csv"
if hashed: # a new category has a feature of its own
    old = encode
    def encode(rows):
        return [x + [float(r["city"] == "Bonn")] for x, r in zip(old(rows), rows)]
w, b = [0.0] * len(encode(days[0][:1])[0]), 0.0
z = lambda x: b + sum(i * j for i, j in zip(w, x))
for rows, epochs in (days[0], 30), (days[1], 10):
    X, y = encode(rows), [float(r["clicked"]) for r in rows]
    for _ in range(epochs): # a step uses all rows
        e = [1 / (1 + math.exp(-z(x))) - t for x, t in zip(X, y)]
        w = [v - 0.5 * sum(k * x[i] for k, x in zip(e, X)) / len(X) for i, v in enumerate(w)]
        b -= 0.5 * sum(e) / len(X)
got = list(csv.DictReader(open(sys.argv[1])))
assert [r["id"] for r in got] == [r["id"] for r in days[2]] and len(got) == 80
worst = max(abs(float(r["probability"]) - 1 / (1 + math.exp(-z(x)))) for r, x in zip(got, encode(days[2])))
assert worst < 1e-5, worst
END
    done
}

@test "data inspect: the columns of a table" {
    sed '3s/^\(u1,\)[^,]*/\1/; 1s/clicked/bought/; s/Oslo/Malmö/' day1.csv >a.csv
    try data inspect csv:a.csv --first 0
    expect 0 "no column is named label, target, y, click, clicked or class" "these columns are not numeric: id,city,os"
    try data inspect "csv:a.csv?label=bought&categorical=city,os&ignore=id" --first 0
    expect 0
    silent err
    grep -qE '^column +role +type +missing +distinct +values$' out
    grep -qE '^id +ignored +text +0 +200 +u0, u1, u2, \.\.\.$' out
    grep -qE '^price +numeric +number +1 +1[0-9]+ ' out
    grep -qE '^hour +numeric +integer +0 +24 ' out
    grep -qE '^city +categorical +text +0 +4 ' out
    grep -qE '^bought +label +integer +0 +2 +[01], [01]$' out
    grep -q Malmö out
    try data inspect "csv:-?label=bought&categorical=city,os&ignore=id" --first 0 --json <a.csv
    expect 0
    [ "$(field table | python3 -c 'import json, sys; t = json.load(sys.stdin); print(t[1]["missing"], t[3]["role"], t[3]["distinct"])')" = "1 categorical 4" ]
}

@test "predict: data without labels, in other formats" {
    "$YOKE" train --model softmax --data 'synth:digits?examples=200&test=50' --out digits --quiet --test none >/dev/null
    python3 - <<'END'
import os, struct, zlib
pixels = bytes(i * 37 % 256 for i in range(28 * 28 * 3))
open("three-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 0x803, 3, 28, 28) + pixels)
os.mkdir("new")
part = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
for k in range(3):
    rows = b"".join(b"\0" + pixels[784 * k + 28 * i:784 * k + 28 * i + 28] for i in range(28))
    open(f"new/{k}.png", "wb").write(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", 28, 28, 8, 0, 0, 0, 0))
                                     + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b""))
END
    try predict --checkpoint digits --data idx:three-images-idx3-ubyte
    expect 0
    [ "$(wc -l <out)" -eq 3 ]
    sort out >wanted
    try predict --checkpoint digits --data images:new # a directory of images, without directories of classes
    expect 0
    sed 's/ new.*//' out | sort | cmp - wanted
    mkdir -p pets/a pets/b
    cp new/0.png new/1.png pets/a
    cp new/2.png pets/b
    learn pets 'images:pets?size=14x20&fit=pad&channels=1' --model softmax
    "$YOKE" predict --checkpoint pets --data 'images:new?size=14x20&fit=pad&channels=1' >wanted_sizes
    try predict --checkpoint pets --data images:new
    expect 0
    cmp out wanted_sizes
    try predict --checkpoint pets --data images:pets --json # by name
    expect 0
    grep -q '"class":"[ab]","file":"pets/[ab]/' out
    mkdir -p some/b
    cp new/2.png some/b
    try eval --checkpoint pets --data images:some --json # only the second class
    expect 0
    field classes | grep -q '^\[{"name": "a", "weight": 0, .*{"name": "b", "weight": 1, '
    mv out wanted
    mkdir more && cp -r pets/a pets/b more # caches keep names and sizes
    "$YOKE" data convert "images:more?size=14x20&fit=pad&channels=1" --out more.cache --quiet
    "$YOKE" data convert 'images:some?size=14x20&fit=pad&channels=1' --out some.cache --quiet
    try eval --checkpoint pets --data some.cache --json
    expect 0
    cmp out wanted
    learn cached more.cache --model softmax --test some.cache
    try eval --checkpoint cached --data images:some --json
    field classes | grep -q '^\[{"name": "a", "weight": 0, .*{"name": "b", "weight": 1, '
    mkdir more/c && cp new/2.png more/c
    try train --model softmax --data images:more --warm-start pets --out none
    expect 3 "more/c: the model has no class with this name"
    mv some/b some/c
    "$YOKE" predict --checkpoint pets --data images:some >/dev/null
    "$YOKE" data convert 'images:some?size=14x20&fit=pad&channels=1' --out some.cache --quiet
    try eval --checkpoint pets --data some.cache
    expect 3 "some.cache: the model has no class with the name 'c'"
    try eval --checkpoint pets --data images:some
    expect 3 "some/c: the model has no class with this name"
    try predict --checkpoint pets --data 'images:new?fit=crop'
    expect 2 "fit=crop: the model was trained with fit=pad: leave out this option"
    try eval --checkpoint digits --data images:new
    expect 3 "no images (.jpg, .jpeg, .png) in class directories"
    try eval --checkpoint digits --data idx:three-images-idx3-ubyte
    expect 3 "three-labels-idx1-ubyte"
    printf '1 1:1 7:2\n0 3:1\n' >a.libsvm
    learn sparse a.libsvm
    "$YOKE" predict --checkpoint sparse --data a.libsvm >wanted
    printf '1:1 7:2\n3:1\n' >b.libsvm
    printf '5 1:1 7:2\n9 3:1\n' >c.libsvm # classes that the model does not have: labels are ignored
    for data in b c; do
        try predict --checkpoint sparse --data libsvm:$data.libsvm
        expect 0
        cmp out wanted
    done
    try eval --checkpoint sparse --data libsvm:c.libsvm
    expect 3 "has class"
    "$YOKE" data convert a.libsvm --out a.tfrecord >/dev/null
    try predict --checkpoint sparse --data 'tfrecord:a.tfrecord?label=later' # a label that the file does not have
    expect 0
    cmp out wanted
    try eval --checkpoint sparse --data 'tfrecord:a.tfrecord?label=later'
    expect 3 "later"
}

@test "predictions do not overwrite the data" {
    ln -s day1.csv link.csv
    cp day1.csv kept.csv
    try predict --checkpoint run --data csv:day1.csv --out link.csv
    expect 2 "is one of the files of --data"
    cmp day1.csv kept.csv
}

@test "a warning names values that are written differently than in training" {
    warning="have no weight in the model: unless --l1 set it to 0, they did not occur in its training data"
    sed '2,$s/,\(Paris\|Rome\|Oslo\|Lima\),os/, \1, os/' day1.csv >blanks.csv
    try predict --checkpoint run --data csv:blanks.csv
    expect 0 "csv:blanks.csv: 100 % of the hashed features in the first 200 rows $warning"
    try predict --checkpoint run --data csv:day1.csv
    expect 0
    ! grep -q warning err
    learn onehot "csv:day1.csv$model&encode=onehot"
    tr A-Z a-z <day1.csv >lower.csv
    try eval --checkpoint onehot --data csv:lower.csv
    expect 0 "no value of these columns occurred in the training data, so predictions ignore them (in quotes: a value from the training data): column 4 (city) ('"
    ! grep -q "(os)" err
    awk -F, 'BEGIN { OFS = FS } NR > 1 { $5 = "x" $5 } 1' lower.csv >both.csv
    try eval --checkpoint onehot --data csv:both.csv
    [ "$(grep -c warning err)" = 1 ] # one for all columns
    expect 0 "column 4 (city) ('" "column 5 (os) ('"
    try eval --checkpoint onehot --data csv:day1.csv
    expect 0
    ! grep -q warning err
    awk 'BEGIN { srand(3); for (i = 0; i < 200; i++) { x = rand(); print (x > rand() ? 1 : -1) " |user age:" x " |ad b" i % 4 } }' >a.vw
    learn words vw:a.vw
    sed 's/|user/|users/; s/|ad/|ads/' a.vw >b.vw
    try eval --checkpoint words --data vw:b.vw
    expect 0 "vw:b.vw: 100 % of the hashed features in the first 200 rows $warning"
}

@test "times, days and numbers are not mistaken for each other" {
    awk 'BEGIN { print "label,a"; for (i = 0; i < 50; i++) print i % 2 "," i % 7 }' >day1.csv
    learn times 'csv:day1.csv?numeric=a&scale=standard'
    schema() { # TYPE: the model as if the column had this type in its training data
        rm -rf typed && cp -r times typed
        local file=typed/checkpoints/*/model.safetensors
        # shellcheck disable=SC2086
        python3 - $file "$1" <<'PY'
import json, struct, sys
path, kind = sys.argv[1:]
data = open(path, "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + n])
schema = json.loads(header["__metadata__"]["schema"])
schema["columns"][1]["type"] = kind
header["__metadata__"]["schema"] = json.dumps(schema)
text = json.dumps(header).encode()
text += b" " * (-(len(text) + 8) % 64)
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + data[8 + n:])
PY
        cp $file typed.safetensors
    }
    schema TIMESTAMP
    try predict --checkpoint typed.safetensors --data csv:day1.csv
    expect 0 "column 2 (a) has the type number here, but TIMESTAMP in the training data: times given as numbers are seconds since 1970"
    awk -F, 'NR > 1 { $2 = "2024-02-0" $2 + 1 } { print $1 "," $2 }' day1.csv >days.csv
    try predict --checkpoint typed.safetensors --data csv:days.csv
    expect 0
    ! grep -q warning err
    schema INT64
    try predict --checkpoint typed.safetensors --data csv:day1.csv
    expect 0
    ! grep -q warning err
}
