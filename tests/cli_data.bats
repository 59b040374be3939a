#!/usr/bin/env bats
# yoke data gen, convert and inspect as a user calls them. YOKE is the program.

setup() {
    [ -n "$YOKE" ] || skip "YOKE does not name the program"
    dir=$(mktemp -d "${BATS_TMPDIR:-/tmp}/yoke-data-XXXXXX")
    cd "$dir"
    # keep stdout and stderr separate
    ask() { "$YOKE" data "$@" 2>"$dir/stderr"; }
    json() { python3 -c "import json, sys; o = json.loads(sys.argv[1].splitlines()[-1]); print($1)" "$output"; }
}

teardown() {
    cd /
    [ -z "${dir:-}" ] || rm -rf "$dir"
}

small='synth:ctr?features=2000&nnz=7&examples=500&test=40&seed=5'

@test "help: --help prints to stdout; without a verb, to stderr with status 2" {
    run ask --help
    [ "$status" -eq 0 ]
    [[ "$output" == *"yoke data inspect"* ]]
    run ask
    [ "$status" -eq 2 ]
    [ -z "$output" ]
    grep -q "yoke data convert" stderr
    run ask chew
    [ "$status" -eq 2 ]
    grep -q "gen, convert, inspect" stderr
}

@test "help: each verb shows examples" {
    for verb in gen convert inspect; do
        run ask "$verb" --help
        [ "$status" -eq 0 ]
        [[ "$output" == *"Examples:"*"yoke data $verb "* ]]
    done
}

@test "usage: missing and invalid arguments are reported with status 2" {
    run ask gen
    [ "$status" -eq 2 ]
    grep -q "SPEC is missing" stderr
    run ask gen synth:digits
    [ "$status" -eq 2 ]
    grep -q -- "--out FILE is missing" stderr
    run ask convert a b --out c
    [ "$status" -eq 2 ]
    run ask inspect "$small" --split both
    [ "$status" -eq 2 ]
    run ask inspect "$small" --first -1
    [ "$status" -eq 2 ]
    run ask inspect "$small" --hash-bits 99
    [ "$status" -eq 2 ]
    run ask gen "$small" --out x --format png
    [ "$status" -eq 2 ]
    grep -q "tfrecord, libsvm, libffm, cache" stderr
    run ask gen "$small" --out x.libsvm.gz
    [ "$status" -eq 2 ]
    grep -q "leave out .gz" stderr
    run ask gen 'synth:ctr?color=red' --out x
    [ "$status" -eq 2 ]
    run ask inspect nonsense:x
    [ "$status" -eq 2 ]
    [ "$(ls)" = stderr ]
}

@test "gen: existing data is rejected with a hint to use convert" {
    printf '1 1:1\n0 2:1\n' >a.libsvm
    run ask gen a.libsvm --out a.cache
    [ "$status" -eq 2 ]
    grep -q "yoke data convert 'a.libsvm' --out a.cache" stderr
    [ ! -e a.cache ]
}

@test "gen: the format follows from the file name extension or --format" {
    ask gen "$small" --out a.tfrecord
    ask gen "$small" --out a.libsvm
    ask gen "$small" --out a.svm
    ask gen "$small" --out a.cache
    ask gen "$small" --out a.bin --format cache
    ask gen "$small" --out b.bin --format libsvm
    cmp a.libsvm a.svm
    cmp a.libsvm b.bin
    cmp a.cache a.bin
    [ "$(head -c 8 a.cache)" = YKCACHE1 ]
    [ "$(wc -l <a.libsvm)" -eq 500 ]
    run ask inspect a.tfrecord
    [[ "$output" == *"format          tfrecord, 1 file"* ]]
}

@test "gen: the same spec gives the same bytes; another split or seed does not" {
    ask gen "$small" --out a.tfrecord
    ask gen "$small" --out b.tfrecord
    ask gen "${small/seed=5/seed=6}" --out c.tfrecord
    ask gen "$small" --out t.libsvm --split test
    cmp a.tfrecord b.tfrecord
    run cmp -s a.tfrecord c.tfrecord
    [ "$status" -eq 1 ]
    [ "$(wc -l <t.libsvm)" -eq 40 ]
}

@test "gen: prints what it has written, also as JSON" {
    run ask gen "$small" --out a.libsvm
    [ "$status" -eq 0 ]
    [[ "$output" == *"a.libsvm: 500 examples, 3500 entries"* ]]
    [[ "$output" == *"MB/s"* ]]
    [ ! -s stderr ]
    run ask gen "$small" --out a.libsvm --json
    [ "$(json 'o["examples"], o["entries"], o["classes"], o["format"], o["bad_records"]')" = "500 3500 2 libsvm 0" ]
    [ "$(json 'o["bytes"]')" = "$(stat -c %s a.libsvm)" ]
    echo '1 1:1' >one.libsvm
    run ask convert one.libsvm --out one.cache
    [[ "$output" == *"one.cache: 1 example, 1 entry, 1 column, 2 classes"* ]]
}

@test "convert: a round trip through every format keeps every example" {
    ask gen "$small" --out a.libsvm
    ask convert a.libsvm --out b.tfrecord
    ask convert tfrecord:b.tfrecord --out c.cache
    ask convert c.cache --out d.libsvm
    cmp a.libsvm d.libsvm
}

@test "gen and convert: an unknown extension is status 2, unless --format is given" {
    for name in a.parquet a.csv a; do
        run ask gen "$small" --out "$name"
        [ "$status" -eq 2 ]
        grep -q "$name: the extension is not that of an output format" stderr
        [ ! -e "$name" ]
    done
    ask gen "$small" --out a.parquet --format libsvm
    run ask convert a.parquet --out b.parquet
    [ "$status" -eq 2 ]
    [ ! -e b.parquet ]
}

@test "csv: two threads and two processes train on each line once, in memory and streamed" {
    python3 - <<'END'
with open("a.csv", "w") as f:
    f.write("label,number,word\n")
    for i in range(501):
        f.write(f'{i % 2},{i % 7},"w{i % 13}"\n')
END
    for stream in never always; do
        for how in "--workers 2" "--launch 2"; do
            # shellcheck disable=SC2086  # two words
            "$YOKE" train --model logreg --data 'csv:a.csv?categorical=word' --test none --hash-bits 8 --batch 10 $how \
                --stream "$stream" --out "run-$stream-${how#--}" --quiet
        done
    done
    python3 - <<'END'
import json
for stream in "never", "always":
    threads, processes = (json.load(open(f"run-{stream}-{how} 2/summary.json")) for how in ("workers", "launch"))
    assert threads["examples"] == processes["examples"] == 501, (threads["examples"], processes["examples"])
    assert abs(threads["train_loss"] - processes["train_loss"]) < 1e-6
END
}

# The rows of the files in fuzz/corpus/parquet, as CSV.
parquet_as_csv() {
    python3 - <<'END'
names = "flag,small,count,big,ratio,exact,city,name,day,time"
def null(i, every, value):
    return "" if i % every == 1 else value
from datetime import date, datetime, timedelta
with open("same.csv", "w") as f, open("texts.csv", "w") as texts: # texts: as other programs write the values
    f.write(names + "\n")
    texts.write(names + "\n")
    for i in range(40):
        city = null(i, 7, ("Paris", "Rome", '"Oslo, Norway"')[i % 3])
        f.write(f'{int(i % 3 == 0)},{null(i, 5, i * 7 - 100)},{3000000000 + i % 4},{null(i, 4, (i - 20) * 10**15)},{i / 8 - 2},'
                f'{null(i, 3, i / 16 + 1e9)},{city},{"n" * (i % 11)}{i},{19000 + i},{1.7e9 + i / 2}\n')
        day, time = date(2022, 1, 8) + timedelta(i), str(datetime(2023, 11, 14, 22, 13, 20) + timedelta(seconds=i / 2))
        texts.write(f'{str(i % 3 == 0).lower()},{null(i, 5, i * 7 - 100)},{3000000000 + i % 4},{null(i, 4, (i - 20) * 10**15)},'
                    f'{i / 8 - 2:g},{null(i, 3, f"{i / 16 + 1e9:.14g}")},{city},{"n" * (i % 11)}{i},{day},'
                    f'{time.removesuffix("00000")}\n')
END
}

@test "parquet: a model trained on CSV scores Parquet as CSV, and the other way round" {
    parquet_as_csv
    corpus=$BATS_TEST_DIRNAME/../fuzz/corpus/parquet
    "$YOKE" train --model logreg --data "csv:same.csv?label=flag&scale=standard&categorical=city,name" --out csv --quiet --workers 1 \
        --batch 8
    "$YOKE" train --model logreg --data "parquet:$corpus/v1-plain?label=flag&scale=standard" --out parquet --quiet --workers 1 --batch 8
    cut -d, -f 2- same.csv >unlabeled.csv
    for run in csv parquet; do
        for data in csv:same.csv csv:unlabeled.csv "parquet:$corpus/v1-plain" "$corpus/v2-zstd" "parquet:$corpus/v1-snappy"; do
            "$YOKE" predict --checkpoint "$run" --data "$data" --out p.txt --quiet
            [ -e first.txt ] || cp p.txt first.txt
            cmp first.txt p.txt
        done
        "$YOKE" eval --checkpoint "$run" --data "parquet:$corpus/v2-gzip" --json >out
        [ "$(python3 -c 'import json; print(json.load(open("out"))["examples"])')" = 40 ]
        "$YOKE" predict --checkpoint "$run" --data csv:same.csv --id name --with city,count --csv --out a.txt
        "$YOKE" predict --checkpoint "$run" --data "$corpus/v1-snappy" --id name --with city,count --csv --out b.txt
        cmp a.txt b.txt
        grep -q '^nn2,"Oslo, Norway",3000000002,' b.txt
    done
}

@test "parquet: as categories, and with --with, values have the texts of a CSV file" {
    parquet_as_csv
    corpus=$BATS_TEST_DIRNAME/../fuzz/corpus/parquet
    options='label=flag&classes=false,true&ignore=name&categorical=small,count,big,ratio,exact,city,day,time&encode=onehot'
    for data in csv:texts.csv "parquet:$corpus/v1-plain"; do
        rm -rf run
        "$YOKE" train --model logreg --data "$data?$options" --out run --quiet --workers 1 --batch 8 --test none
        "$YOKE" predict --checkpoint run --data csv:texts.csv --with flag,big,ratio,day,time --csv --out a.txt 2>err
        "$YOKE" predict --checkpoint run --data "$corpus/v1-snappy" --with flag,big,ratio,day,time --csv --out b.txt 2>>err
        cmp a.txt b.txt
        grep -q '^true,-2000000000000000,0.25,2022-01-26,2023-11-14 22:13:29,' b.txt
        [ ! -s err ] || { cat err; false; }
    done
    # the other way round, values may be written differently: the model knows their types
    python3 - <<'PY'
import csv
rows = list(csv.reader(open("texts.csv")))
column = {name: i for i, name in enumerate(rows[0])}
for row in rows[1:]:
    for name, change in (("small", lambda s: s + ".0"), ("ratio", lambda s: str(float(s)) + "0"), ("flag", str.title),
                         ("day", lambda s: s + "T23:00"), ("time", lambda s: s.replace(" ", "T") + "Z")):
        if row[column[name]]:
            row[column[name]] = change(row[column[name]])
csv.writer(open("written.csv", "w"), lineterminator="\n").writerows(rows)
PY
    for encode in onehot hash; do
        rm -rf run
        "$YOKE" train --model logreg --data "parquet:$corpus/v1-plain?${options%&encode*}&encode=$encode" --out run --quiet \
            --workers 1 --batch 8 --test none
        for data in csv:texts.csv csv:written.csv; do
            "$YOKE" predict --checkpoint run --data "$data" --csv --out "${data#csv:}.txt" 2>err
            [ ! -s err ] || { cat err; false; }
        done
        cmp texts.csv.txt written.csv.txt
    done
    days=$(rev texts.csv | cut -d, -f 2 | rev | tail -n +2 | sed '3s/$/ 12:00/' | paste -sd,)
    rm -rf run # labels, too, and names of classes
    "$YOKE" train --model softmax --data "parquet:$corpus/v1-plain?label=day&classes=$days&ignore=name" --out run --quiet --workers 1 --test none
    "$YOKE" eval --checkpoint run --data csv:written.csv --quiet --json | grep -q '"examples":40'
    tail -n +2 texts.csv >bare.csv # columns without names, which Parquet always has
    "$YOKE" train --model logreg --data "csv:bare.csv?label=1&classes=false,true&numeric=2" --out bare --quiet --test none 2>/dev/null
    run "$YOKE" predict --checkpoint bare --data "$corpus/v1-plain"
    [ "$status" -eq 3 ]
    [[ "$output" == *"the columns have names, but the model was trained on data without a header"* ]]
}

@test "parquet: two threads and two processes train on each row once, in memory, streamed, and from a cache" {
    corpus=$BATS_TEST_DIRNAME/../fuzz/corpus/parquet
    data="parquet:$corpus/v1-snappy,$corpus/v1-pages?label=flag&scale=standard&bits=8"
    ask convert "$data" --out a.cache
    for how in "--workers 2 --stream never" "--workers 2 --stream always" "--launch 2 --stream never" "--launch 2 --stream always" cache; do
        [ "$how" != cache ] || { data=cache:a.cache; how="--workers 2"; }
        # shellcheck disable=SC2086  # several words
        "$YOKE" train --model logreg --data "$data" --test none --batch 5 $how --mode sync --epochs 2 --out none --json >>out
    done
    python3 - <<'END'
import json
runs = [json.loads(line) for line in open("out") if line.startswith("{")]
assert [r["examples"] for r in runs] == [160] * 5, runs
assert abs(runs[0]["train_loss"] - runs[2]["train_loss"]) < 1e-6
END
}

@test "parquet: inspect shows the rows; damage and what is not supported are status 3, with file, row group and byte" {
    corpus=$BATS_TEST_DIRNAME/../fuzz/corpus/parquet
    run ask inspect "$corpus/v1-snappy?label=flag"
    [ "$status" -eq 0 ]
    [[ "$output" == *"parquet, 1 file"*"examples        40"* ]]
    grep -qE '^day +numeric +date +0 +40 +2022-01-08, 2022-01-09, 2022-01-10, ' <<<"$output"
    grep -qE '^time +numeric +timestamp +0 +40 +2023-11-14 22:13:20, 2023-11-14 22:13:20.5, ' <<<"$output"
    run ask inspect "parquet:$corpus/refused?label=x"
    [ "$status" -eq 3 ]
    grep -q "refused: column 'price': DECIMAL cannot be read; leave it out with ignore=" stderr
    cp "$corpus/v2-zstd" damaged.parquet
    printf '\377\377\377' | dd of=damaged.parquet bs=1 seek=900 conv=notrunc status=none
    run ask inspect 'parquet:damaged.parquet?label=flag'
    [ "$status" -eq 3 ]
    grep -q "damaged.parquet: row group 0, column '.*', page at byte [0-9]*: its checksum is wrong" stderr
    head -c 1000 "$corpus/v2-zstd" >short.parquet
    run ask inspect 'parquet:short.parquet?label=flag'
    [ "$status" -eq 3 ]
    grep -q "short.parquet: at byte 996: the file does not end with PAR1" stderr
}

@test "split: one file gives training and test data, the same in one and three processes, and after --resume" {
    "$YOKE" data gen 'synth:ctr?features=300&nnz=9&examples=3001' --out a.libsvm >/dev/null
    gzip -k a.libsvm
    "$YOKE" data convert a.libsvm --out a.cache >/dev/null
    "$YOKE" data convert a.libsvm --out 'a.tfrecord' >/dev/null
    n=0
    split() { # DATA OPTION...
        local data=$1
        shift
        n=$((n + 1))
        case $data in *\?*) data="$data&" ;; *) data="$data?" ;; esac
        "$YOKE" train --model logreg --features 300 --epochs 2 --data "${data}split=0.9" --test "${data}split=0.9..1" --out run-$n --quiet "$@"
    }
    split a.libsvm --batch 30
    split a.libsvm.gz --batch 30
    split a.cache --batch 30
    split 'tfrecord:a.tfrecord?block=20000' --batch 10 --launch 3
    split 'tfrecord:a.tfrecord?block=20000' --batch 30 --stream always
    split 'tfrecord:a.tfrecord?block=20000' --batch 10 --launch 3 --stream always
    split 'tfrecord:a.tfrecord?block=20000' --batch 30 --stream always --epochs 1
    "$YOKE" train --resume --out run-7 --epochs 2 --quiet
    "$YOKE" train --model logreg --features 300 --data 'libsvm:-?split=0.9' --test none --quiet --out run-8 <a.libsvm
    python3 - <<'END'
import json
runs = [json.load(open(f"run-{i}/summary.json")) for i in range(1, 8)]
rows = json.load(open("run-8/summary.json"))["examples"]
assert 2600 < rows < 2800, rows
assert all(r["examples"] == 2 * rows for r in runs), [r["examples"] for r in runs]
for a, b in (0, 1), (0, 2), (0, 3), (4, 6):
    assert abs(runs[a]["test_loss"] - runs[b]["test_loss"]) < 1e-5, (a, b, runs[a], runs[b])
END
    for part in 0.9 0.9..1; do
        "$YOKE" data convert "a.cache?split=$part" --out part.libsvm >/dev/null
        cat part.libsvm >>both.libsvm
    done
    cmp <(sort a.libsvm) <(sort both.libsvm)
    # the training set of generated data, not its test set
    run ask inspect 'synth:digits?examples=100&split=0.9' --split test
    [ "$status" -eq 2 ]
    run ask inspect "a.libsvm?split=0.9..0.9"
    [ "$status" -eq 2 ]
    grep -q "split=0.9..0.9: must be a fraction of the rows" stderr
}

@test "vw: rows equal those of a second implementation; compressed, streamed, from a pipe, by three processes, without labels" {
    reference=$BATS_TEST_DIRNAME/vw_reference.py
    python3 "$reference" write a.vw
    ask convert 'vw:a.vw?weights=ignore' --hash-bits 12 --skip-bad 2000 --out a.libsvm
    python3 "$reference" check a.vw a.libsvm 12
    python3 - <<'END'
import random
r = random.Random(3)
with open("b.vw", "w") as f:
    for i in range(2000):
        user, ad = r.randrange(50), r.randrange(30)
        f.write(f"{1 if (user + ad) % 3 == 0 else -1} |user u{user} age:{user / 50} |ad:0.5 a{ad} 'x\n")
with open("new.vw", "w") as f:
    f.write("|user u3 age:0.06 |ad:0.5 a3 'x\n'tag |user u4 age:0.08 |ad:0.5 a3 'x\n")
END
    gzip -k b.vw
    "$YOKE" train --model logreg --hash-bits 10 --data b.vw --test none --batch 30 --out run-1 --quiet
    "$YOKE" train --model logreg --hash-bits 10 --data b.vw.gz --test none --batch 30 --out run-2 --quiet
    "$YOKE" train --model logreg --hash-bits 10 --data vw:- --test none --stream never --batch 30 --out run-3 --quiet <b.vw
    "$YOKE" train --model logreg --hash-bits 10 --data 'vw:b.vw*' --test none --batch 10 --launch 3 --stream always --out run-4 --quiet
    "$YOKE" train --model deepfm:4 --hash-bits 10 --data 'vw:b.vw?namespaces=user,ad&split=0.9' \
        --test 'vw:b.vw?namespaces=user,ad&split=0.9..1' --epochs 5 --out run-5 --quiet
    python3 - <<'END'
import json
runs = [json.load(open(f"run-{i}/summary.json")) for i in range(1, 6)]
assert [r["examples"] for r in runs[:4]] == [2000, 2000, 2000, 4000]
assert runs[0]["train_loss"] == runs[1]["train_loss"] == runs[2]["train_loss"]
assert runs[4]["test_auc"] > 0.6, runs[4]["test_auc"]
END
    "$YOKE" predict --checkpoint run-1 --data new.vw >plain
    printf "'last|user u3 age:0.06 |ad:0.5 a3 'x\n" >>new.vw
    "$YOKE" predict --checkpoint run-1 --data new.vw --id tag >tagged
    [ "$(cut -d, -f1 tagged | xargs)" = "tag tag last" ] # the first line has none
    [ "$(sed 1d tagged | cut -d, -f2 | head -n 2)" = "$(cat plain)" ]
    run "$YOKE" predict --checkpoint run-1 --data new.vw --id user
    [ "$status" -eq 2 ]
    [[ "$output" == *"no column 'user'; the only column of vw data is 'tag'"* ]]
    printf '1 |a x\n1 1 0.5 |a x\n' >weights.vw
    run ask inspect weights.vw
    [ "$status" -eq 3 ]
    grep -q "weights.vw: line 2 at byte 11: the initial prediction is 0.5, but only 0 is supported" stderr
    ask inspect 'vw:weights.vw?weights=ignore' >/dev/null
    run "$YOKE" train --model deepfm:4 --data b.vw --test none --out none --quiet
    [ "$status" -eq 2 ]
    [[ "$output" == *"?namespaces=user,ad"* ]]
}

@test "train and convert read standard input once" {
    ask gen "$small" --out a.libsvm
    ask gen "$small" --out b.libsvm --split test
    ask convert - --out c.libsvm <a.libsvm
    cmp a.libsvm c.libsvm
    "$YOKE" train --model logreg --data libsvm:- --test b.libsvm --features 2000 --out piped --quiet <a.libsvm
    "$YOKE" train --model logreg --data a.libsvm --test b.libsvm --features 2000 --stream always --out read --quiet
    final='import json, sys; print(json.load(open(sys.argv[1] + "/summary.json"))["test_loss"])'
    [ "$(python3 -c "$final" piped)" = "$(python3 -c "$final" read)" ]
    status=0
    "$YOKE" train --out piped --resume <a.libsvm 2>stderr || status=$?
    [ "$status" -eq 2 ]
    grep -q "a run that read standard input cannot be resumed" stderr
}

@test "a model with one output needs no pass over dense data to count classes" {
    seq 80 | awk 'BEGIN { print "a,b,y" } { print $1 % 7 ",0." $1 % 9 "," $1 % 2 }' >a.csv
    for model in logreg linear; do
        "$YOKE" train --model $model --data csv:- --out none --quiet --lr 0.001 --json <a.csv >piped
        "$YOKE" train --model $model --data csv:a.csv --stream always --out none --lr 0.001 --json >read 2>stderr
        run ! grep "reading all data once" stderr
        final='import json, sys; print(json.load(open(sys.argv[1]))["train_loss"])'
        [ "$(python3 -c "$final" piped)" = "$(python3 -c "$final" read)" ]
    done
    sed -i '70s/.$/3/' a.csv
    run "$YOKE" train --model logreg --data csv:- --out none --quiet <a.csv
    [ "$status" -eq 3 ]
    [[ $output == *"an example has class 3, but 2 classes are expected; use --model softmax"* ]]
    run "$YOKE" train --model logreg --data csv:- --out none </dev/null
    [ "$output" = "yoke: error: -: is empty" ]
}

@test "convert: the output may replace the input" {
    ask gen "$small" --out a.libsvm
    cp a.libsvm b.libsvm
    ask convert libsvm:a.libsvm --out a.libsvm
    cmp a.libsvm b.libsvm
}

@test "convert: only data is written to a pipe; a link is not replaced" {
    ask gen "$small" --out a.libsvm
    ln -s /proc/self/fd/1 stdout # as /dev/stdout
    "$YOKE" data convert "$small" --out stdout --format libsvm 2>/dev/null | cat >b.libsvm
    cmp a.libsvm b.libsvm
    "$YOKE" data convert "$small" --out stdout --format libsvm --quiet 2>/dev/null >c.libsvm
    cmp a.libsvm c.libsvm
    "$YOKE" data convert "$small" --out stdout --format libsvm --quiet 2>/dev/null >>c.libsvm
    cat a.libsvm a.libsvm | cmp - c.libsvm
    [ -L stdout ]
    # what another link names is replaced, also if it is the input, and stays if anything fails
    ask convert "$small" --out a.cache
    ln -s a.cache link.cache
    ask convert cache:link.cache --out link.cache
    cmp a.cache <(cat link.cache)
    [ -L link.cache ]
    run ask convert libsvm:missing --out link.cache
    [ "$status" -eq 3 ]
    [ -s a.cache ]
}

@test "convert: bad records are errors (status 3, no file), or are skipped and counted" {
    printf '1 1:1\n0 2:nan\n1 3:1\nhello\n0 1:1\n' >a.libsvm
    run ask convert libsvm:a.libsvm --out a.cache
    [ "$status" -eq 3 ]
    grep -q "a.libsvm: record 2 at byte" stderr
    [ ! -e a.cache ]
    run ask convert libsvm:a.libsvm --out a.cache --skip-bad 1
    [ "$status" -eq 3 ]
    run ask convert libsvm:a.libsvm --out a.cache --skip-bad 2
    [ "$status" -eq 0 ]
    [[ "$output" == *"3 examples"*"2 bad records skipped"* ]]
    run ask inspect a.cache --json
    [ "$(json 'o["examples"]')" = 3 ]
    [ "$(ls -a | grep -c tmp)" -eq 0 ]
}

@test "convert: a write error gives status 4 and keeps the existing file" {
    mkdir directory
    run ask gen "$small" --out directory/none/a.cache
    [ "$status" -eq 4 ]
    [ "$(ls directory)" = "" ]
    run ask gen "$small" --out /dev/full --format libsvm
    [ "$status" -eq 4 ]
    run ask inspect none.libsvm
    [ "$status" -eq 3 ]
}

@test "convert: Criteo text is hashed into the requested number of columns" {
    for label in 0 1 0; do
        printf '%s' "$label"
        for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do printf '\t%d' "$((i * label))"; done
        for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26; do printf '\t%08x' "$i$label"; done
        printf '\n'
    done >day.txt
    ask convert day.txt --hash-bits 10 --out day.cache
    run ask inspect day.cache --json
    [ "$(json 'o["columns"]')" = 1024 ]
    [ "$(json 'o["examples"]')" = 3 ]
    [ "$(json 'o["class_counts"]')" = "[2, 1]" ]
    run ask inspect day.txt --hash-bits 10 --json
    [ "$(json 'o["format"]')" = criteo ]
    [ "$(json 'o["features"]["index_most"] < 1024')" = True ]
}

@test "64-bit keys: --hash-bits hashes them, and the error without it suggests it" {
    printf '1 18446744073709551615:1 7:1\n0 7:1\n' >big.libsvm
    run ask inspect big.libsvm
    [ "$status" -eq 3 ]
    grep -q -e "--hash-bits" stderr
    run ask inspect big.libsvm --hash-bits 12 --json
    [ "$status" -eq 0 ]
    [ "$(json 'o["columns"]')" = 4096 ]
    [ "$(json 'o["features"]["index_most"] < 4096')" = True ]
}

@test "libffm: fields survive a conversion to a cache and back" {
    printf '1 0:3:0.5 4:17:1 9:17:1\n0 2:2:1\n' >a.ffm
    ask convert a.ffm --out a.cache
    ask convert a.cache --out b.ffm
    cmp a.ffm b.ffm
    run ask inspect a.ffm --json
    [ "$(json 'o["format"]')" = libffm ]
    [ "$(json 'o["fields"]')" = 10 ]
}

@test "libffm: the fields of generated data and of CSV columns are written" {
    ask gen 'synth:ctr?features=50&nnz=3&examples=4' --out a.ffm
    [ "$(cut -d' ' -f2- a.ffm | tr ' ' '\n' | cut -d: -f1 | sort -u | tr '\n' ' ')" = "0 1 2 " ]
    printf 'label,a,b\n1,2,x\n0,3,y\n' >a.csv
    ask convert 'csv:a.csv?categorical=b' --hash-bits 8 --out b.ffm
    grep -q '^1 0:0:2 1:' b.ffm
    ask convert 'csv:a.csv?categorical=b&fields=1' --hash-bits 8 --out b.cache
    run ask inspect b.cache --json
    [ "$(json 'o["fields"]')" = 2 ]
}

@test "synth:ctr with interactions: the best possible AUC is known, and a linear model falls short" {
    run "$YOKE" train --model logreg --data 'synth:ctr?features=500&examples=10000&interactions=1' --batch 10 \
        --out none --quiet --json
    [ "$status" -eq 0 ]
    [ "$(json 'o["best_auc"] > 0.84')" = True ]
    [ "$(json 'o["test_auc"] < o["best_auc"] - 0.05')" = True ]
}

@test "inspect: classes, entries, features and records of sparse data" {
    printf '1 1:1 5:0.5 9:-2\n0 5:1\n0\n0 5:3 1000:1\n' >a.libsvm
    run ask inspect a.libsvm --first 2
    [ "$status" -eq 0 ]
    [[ "$output" == *"format          libsvm, 1 file, "*" bytes on disk"* ]]
    [[ "$output" == *"examples        4"* ]]
    [[ "$output" == *"always predicting class 0: accuracy 75.00 %"* ]]
    [[ "$output" == *"columns         1000"* ]]
    [[ "$output" == *"entries         6; per example: minimum 0, mean 1.50, maximum 3; 1 example has no entries"* ]]
    [[ "$output" == *"indices from 0 to 999, 4 distinct"* ]]
    [[ "$output" == *"values          from -2 to 3"* ]]
    [[ "$output" == *"feature 4 (in 75.0 % of the examples)"* ]]
    [[ "$output" == *"1  class 1, 3 entries: 0 4:0.5 8:-2"* ]]
    [[ "$output" == *"2  class 0, 1 entry: 4"* ]]
    [[ "$output" != *"  3  class"* ]]
    [[ "$output" == *"####"* ]]
}

@test "inspect: one value per example is not \"1 values\"" {
    printf 'label,x\n1,2\n0,3\n1,4\n' >a.csv
    run ask inspect csv:a.csv
    [[ "$output" == *"shape           1 value per example, floats"* ]]
}

@test "inspect: labels that are numbers, and no labels" {
    printf 'label,x\n1.5,2\n0,3\n4.5,4\n' >a.csv
    run ask inspect csv:a.csv
    [ "$status" -eq 3 ]
    grep -q "for regression, use --loss squared, or --regression in yoke data" "$dir/stderr"
    run ask inspect csv:a.csv --regression
    [[ "$output" == *"labels          numbers from 0 to 4.5, mean 2"* ]]
    [[ "$output" == *"1  label 1.5, 1 value: 2"* ]]
    [[ "$output" != *"class"* ]]
    run ask inspect csv:a.csv --regression --json
    [ "$(json 'o["classes"], o["majority_share"], o["labels"]["mean"], o["first"][0]["label"]')" = "0 None 2.0 1.5" ]
    run ask inspect 'csv:a.csv?label=none' --first 1
    [[ "$output" == *"classes         not known"*"    1  2 values: 1.5 2"* ]]
}

@test "inspect: JSON has the same figures" {
    printf '1 1:1 5:0.5 9:-2\n0 5:1\n0\n0 5:3 1000:1\n' >a.libsvm
    run ask inspect a.libsvm --json
    [ "$status" -eq 0 ]
    [ "$(json 'o["majority_share"]')" = 0.75 ]
    [ "$(json 'o["features"]["distinct"]')" = 4 ]
    [ "$(json 'o["features"]["most_frequent"][0]["count"]')" = 3 ]
    [ "$(json 'o["features"]["power_law"][0]["share"]')" = 1.0 ]
    [ "$(json 'o["entries_per_example"]["most"]')" = 3.0 ]
    [ "$(json 'sum(b["examples"] for b in o["entries_per_example"]["bars"])')" = 4 ]
    [ "$(json 'o["first"][0]["index"]')" = "[0, 4, 8]" ]
    [ "$(json 'o["first"][0]["value"]')" = "[1.0, 0.5, -2.0]" ]
    [ "$(json 'len(o["first"])')" = 3 ]
    [ "$(json 'o["height"]')" = None ]
}

@test "inspect: images are drawn" {
    run ask inspect 'synth:digits?examples=30' --first 2
    [ "$status" -eq 0 ]
    [[ "$output" == *"format          synth; training set"* ]]
    [[ "$output" == *"shape           28 x 28 pixels, 784 values per example, bytes"* ]]
    [[ "$output" == *"1: class "*"2: class "* ]]
    [ "$(grep -c '^ |.\{28\}| |.\{28\}|$' <<<"$output")" -eq 14 ]
    grep -q '[%@]' <<<"$output"
    run ask inspect 'synth:digits?examples=30&test=20' --split test --json
    [ "$(json 'o["examples"]')" = 20 ]
    [ "$(json 'o["split"]')" = test ]
    [ "$(json 'len(o["first"][0]["value"])')" = 784 ]
}

@test "inspect: a cache is verified, and damage is detected" {
    ask gen "$small" --out a.cache
    run ask inspect a.cache
    [ "$status" -eq 0 ]
    [[ "$output" == *"all checksums match"* ]]
    [[ "$output" == *"probabilities   known"* ]]
    size=$(stat -c %s a.cache)
    printf '\377' | dd of=a.cache bs=1 seek=$((size - 3)) conv=notrunc status=none
    run ask inspect a.cache
    [ "$status" -eq 3 ]
    grep -q "a.cache: at byte .*checksum" stderr
    [ -z "$output" ]
}

@test "inspect: --split test is rejected for data without a test split" {
    printf '1 1:1\n0 2:1\n' >a.libsvm
    run ask inspect a.libsvm --split test
    [ "$status" -eq 2 ]
    grep -q "has no test set" stderr
}

@test "inspect: an index outside --features is bad data" {
    printf '1 1:1\n0 20:1\n' >a.libsvm
    run ask inspect a.libsvm --features 10
    [ "$status" -eq 3 ]
    grep -q "record 2" stderr
    run ask inspect a.libsvm --features 30 --json
    [ "$(json 'o["columns"]')" = 30 ]
}

@test "inspect: a write error on stdout gives status 4" {
    run sh -c '"$1" data inspect "$2" >/dev/full' sh "$YOKE" "$small"
    [ "$status" -eq 4 ]
    run sh -c '"$1" data inspect "$2" --json >/dev/full' sh "$YOKE" "$small"
    [ "$status" -eq 4 ]
}

@test "a signal ends a long run with status 1 and leaves no file behind" {
    # in the foreground: otherwise timeout sends the signal twice, and the second signal ends the program at once
    run timeout --foreground --preserve-status -s TERM 1 "$YOKE" data gen 'synth:ctr?examples=1000000000' --out big.libsvm
    [ "$status" -eq 1 ]
    [[ "$output" == *"stopped by a signal while generating"* ]]
    [ -z "$(ls)" ]
}

@test "csv: the columns of the test data are found by name" {
    printf 'label,a,b\n1,2,x\n0,3,y\n' >a.csv
    printf 'label,b,a\n1,x,2\n0,y,3\n' >swapped.csv
    printf 'a,c,b,label\n2,5,x,1\n3,5,y,0\n' >more.csv
    printf 'label,b\n1,x\n0,y\n' >fewer.csv
    pair() { # TEST STATUS WORDS
        run "$YOKE" train --model logreg --data 'csv:a.csv?categorical=b' --test "csv:$1" --out none --mode sync
        [ "$status" -eq "$2" ]
        [[ "$output" == *"$3"* ]]
    }
    pair a.csv 0 ""
    same="$(grep '^test loss' <<<"$output")"
    pair swapped.csv 0 "$same"
    pair more.csv 0 "$same"
    [[ "$output" == *"1 column is not in the model, and ignored: c"* ]]
    pair fewer.csv 3 "the column 'a' is missing"
    pair 'a.csv?scale=log' 2 "column 2 (a): scale is log here, but none in the model"
}
