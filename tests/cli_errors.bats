#!/usr/bin/env bats
# Provokes every exit status, and checks the message: the file, the record and the byte, the step, the remedy.

setup() { load cli; cli_setup; }
teardown() { cli_teardown; }

# Writes a LIBSVM file of N valid lines with two classes and indices 1 to 9.
good() { # FILE N
    seq "$2" | awk '{ print $1 % 2, ($1 % 9 + 1) ":1" }' >"$1"
}

train() { # SPEC OPTION...
    local data=$1
    shift
    try train --model logreg --data "$data" --out none "$@"
}

@test "1: a diverging run names the step and a remedy" {
    digits --lr 1e9 --out run --checkpoint-every 1
    expect 1 "training diverged at step " "the learning rate 1e+09 (default 0.1) is too large" "use a smaller --lr"
    silent out
    clicks --lr 1e38 --mode async --workers 2 --out none
    expect 1 "training diverged at step "
    # the checkpoint saved before is usable
    digits --lr 1e9 --out other --steps 1
    expect 1
    digits --out other --resume --lr 0.1 --steps 5 --quiet
    expect 0
}

@test "1: a run whose loss stays above that of an untrained model has diverged" {
    set -- --lr 50 --batch 5 --epochs 5 --checkpoint-every 50
    digits "$@" --out run --quiet # 500 steps
    expect 1 "training diverged at step 2" "the mean training loss of the last 5 % of the run (untrained model: 2.303) is " \
        "the learning rate 50 (default 0.1) is too large for this data; use a smaller --lr;" "--no-stop-on-divergence"
    ls run/checkpoints/step-1*/DONE # the last checkpoint is kept
    digits "$@" --mode async --workers 2 --out none --quiet
    expect 1 "training diverged at step 2" "or fewer workers"
    clicks --lr 1e4 --batch 1 --out none --quiet # bursts
    expect 1 "training diverged at step " "(untrained model: 0.6931)"
    digits "$@" --out none --no-stop-on-divergence
    expect 0 "warning: the training loss"
}

@test "initial parameters that are too large: the learning rate is not blamed" {
    for how in '' '--test none' '--test none --workers 2' '--test none --workers 2 --mode async'; do
        # shellcheck disable=SC2086
        try train --model 'dense 8, relu, dense 10' --data 'synth:digits?examples=200' --init uniform:1e38 --out none $how
        expect 1 "loss is nan before the first update, so the initial parameters are too large: use a smaller --init"
        if grep 'learning rate .* is too large' err; then false; fi
    done
    for init in normal:1e-30 normal:1e-38 uniform:1e-45; do # small ones do not overflow, either
        try train --model 'dense 8, relu, dense 10' --data 'synth:digits?examples=200' --init $init --out none \
            --optimizer adam --workers 2 --mode async
        expect 0
    done
}

@test "warnings: a learning rate that raises the loss, a model that is no better than guessing" {
    digits --lr 50 --json --out none
    holds "[w['kind'] for w in $(field warnings)] == ['loss_rose']"
    expect 0 "warning: the training loss" "the loss of a uniform guess, with learning rate 50; try a smaller --lr"
    seq 400 | awk '{ print ($1 % 4 == 0), ($1 % 9 + 1) ":1" }' >noise.libsvm
    train libsvm:noise.libsvm --test libsvm:noise.libsvm
    expect 0 "warning: accuracy 75.00 % is no better than always predicting the majority class (75.00 %)"
}

@test "2: errors in the command line are reported" {
    digits --no-such-option
    expect 2 "unknown option --no-such-option; yoke train --help lists the options"
    digits stray
    expect 2 "unexpected argument 'stray'"
    try train --data synth:digits --out none
    expect 2 "--model is missing"
    try train --model softmax --out none
    expect 2 "--data is missing"
    try train --model no-such-model --data 'synth:digits?examples=50' --out none
    expect 2 "no-such-model" softmax
    try train --model softmax --data synth:no-such-set --out none
    expect 2 no-such-set
    try train --model softmax --data nonsense:x --out none
    expect 2 "unknown data format nonsense"
    try train --model softmax --data 'synth:digits?exampels=5' --out none
    expect 2 "unknown option exampels"
    while read -r option value words; do
        digits --out none "$option" "$value"
        expect 2 "$option" "$words"
        silent out
    done <<'END'
--batch ten not a whole number
--batch 1.5 not a whole number
--batch 0x10 not a whole number
--batch 2kk not a whole number
--batch 0 between 1 and
--workers -1 between 1 and
--workers 5000 between 1 and
--lr much not a number
--lr nan not a number; must be 0 or more, or auto
--lr 0x1p-3 not a number
--lr -1 must be 0 or more
--l2 -1 must be 0 or more
--epochs 0 must be 1 or more
--patience -1 must be 0 or more
--l1 1e20 between 0 and 1000000000
--momentum 1.5 between 0 and
--mode both sync, async
--stream often auto, always, never
--optimizer newton the value must be one of: sgd
--lr-schedule linear constant, step, inverse, cosine, one-cycle, plateau
--epochs 1e99 between
END
    digits --epochs 2 --steps 3 --out none
    expect 2 "--epochs and --steps cannot be used together"
    digits --mode sync --staleness 3 --out none
    expect 2 "--mode sync means --staleness 0"
    while read -r option value needed; do
        digits --out none --$option $value
        expect 2 "--$option has no effect without --$needed"
    done <<'END'
adam-betas 0.5,0.9 optimizer adam or adamw
epsilon 1 optimizer adam, adamw, adagrad or rowwise-adagrad
initial-accumulator 1 optimizer adagrad or rowwise-adagrad
lr-decay-every 10 lr-schedule step
lr-patience 2 lr-schedule plateau
agent ssh hosts or --hostfile
restarts 2 launch or --hosts
token-file x join
END
    digits --launch 0 --hosts a:3 --out none
    expect 2 "--launch 0 (a single process) and --hosts or --hostfile cannot be used together"
    digits --network any --deadline 9 --out none
    expect 0 "--network has no effect in one process" "--deadline has no effect in one process"
    digits --resume
    expect 2 "--resume needs --out"
    digits --resume --out none
    expect 2 "--resume needs --out"
    digits --data ''
    expect 2 "--data needs a value: --data SPEC"
    try report ''
    expect 2 "an argument is empty; yoke report --help lists the arguments"
    for command in eval predict; do
        try $command --checkpoint '' --data synth:digits
        expect 2 "--checkpoint needs a value: --checkpoint DIR"
        try $command --data synth:digits
        expect 2 "--checkpoint is missing"
        try $command --checkpoint run
        expect 2 "--data is missing"
        try $command --checkpoint no-such-run --data synth:digits
        expect 2 "no-such-run: cannot read: No such file or directory"
        try $command --checkpoint x --data synth:digits --features many
        expect 2 "--features many"
    done
}

@test "2: a misspelled option or command gets a suggestion" {
    while read -r words; do
        # shellcheck disable=SC2086  # several words
        try ${words%% => *}
        expect 2 "yoke: error: ${words#* => }"
        silent out
    done <<'END'
train --modle softmax => unknown option --modle; did you mean --model?
train --ephocs=3 => unknown option --ephocs; did you mean --epochs?
train --check-point-every 3 => unknown option --check-point-every; did you mean --checkpoint-every?
eval --checkpoints run => unknown option --checkpoints; did you mean --checkpoint?
data inspect synth:digits --hashbits 3 => unknown option --hashbits; did you mean --hash-bits?
sweep a.ini --quik => unknown option --quik; did you mean --quick?
train -batch 10 => unknown option -batch; did you mean --batch?
report run -out page.html => unknown option -out; did you mean --out?
report run -x => unknown option -x; yoke report --help lists the options
trian => unknown command trian; did you mean train?
data insepct => unknown command data insepct; did you mean inspect?
train --data synth:digits --model softmx => unknown --model softmx (did you mean softmax?)
train --data none --model deepfn:4 => unknown --model deepfn:4 (did you mean deepfm?)
train --lr-dec 3 => --lr-dec is ambiguous: it may be --lr-decay or --lr-decay-every
train --batch => --batch needs a value: --batch B
train --json=yes => --json takes no value
END
    # a unique abbreviation, and values that look like options
    digits --epo 1 --out none --quiet
    expect 0
    digits --epochs=1 --out=none --quiet --data --model
    expect 3 "--model"
}

@test "2: errors in a configuration file are reported with the line" {
    printf 'model = softmax\ndata = synth:digits\n\nbach = 3\n' >a.ini
    try train --config a.ini
    expect 2 "a.ini:4: unknown option bach; did you mean batch?"
    printf 'model = softmax\nbatch = many\n' >a.ini
    try train --config a.ini
    expect 2 "a.ini:2: --batch many"
    printf 'model softmax\n' >a.ini
    try train --config a.ini
    expect 2 "a.ini:1: not a line of the form name = value"
    try train --config none.ini
    expect 2 "none.ini: cannot read"
    for command in "train --config" sweep; do
        # shellcheck disable=SC2086  # several words
        status=0
        timeout 5 "$YOKE" $command /dev/zero >out 2>err || status=$?
        expect 2 "/dev/zero:1: a line of more than 1 MB"
    done
}

@test "--lr 0 keeps the initial weights, for every optimizer that does not divide by it" {
    for way in sgd "momentum --workers 2 --mode async" adagrad "rowwise-adagrad --workers 2 --mode async" adam; do
        for steps in 1 40; do
            # shellcheck disable=SC2086  # several words
            clicks --model fm:4 --lr 0 --l2 0.01 --optimizer $way --steps $steps --out run --quiet
            expect 0
            try predict --checkpoint run --data 'synth:ctr?features=5000&examples=100'
            expect 0
            mv out $steps
            rm -r run
        done
        cmp 1 40
    done
    digits --lr 0 --epochs 2 --out none --quiet # nothing can be learned, which needs no warning
    expect 0
    run ! grep "nothing was learned" err
    clicks --lr 0 --optimizer ftrl --out none
    expect 2 "--lr 0 must be above 0 for --optimizer ftrl, which divides by it"
}

@test "3: bad LIBSVM lines, with file, record and byte" {
    while IFS='|' read -r line words; do
        good a.libsvm 6
        echo "$line" >>a.libsvm
        good more 3
        cat more >>a.libsvm
        for stream in never always; do
            train libsvm:a.libsvm --stream $stream
            expect 3 "a.libsvm: record 7 at byte " "$words" "--skip-bad"
            silent out
        done
        train libsvm:a.libsvm --skip-bad 1 --json --epochs 3 --stream always --workers 2 --mode async
        expect 0 "skipped" "1 bad record was skipped"
        [ "$(field bad_records) $(field examples)" = "1 27" ]
    done <<'END'
0 1:1 x:2|'x:2'
0 1:nan|'1:nan'
0 1:|
zero 1:1|'zero' is not a number
0 0:1|indices start at 1
1.5 1:1|'1.5' is not a class
0 99999999999:1|99999999999
END
}

@test "3: bad TFRecord files, with file, record and byte" {
    good a.libsvm 20
    try data convert libsvm:a.libsvm --out good.tfrecord
    expect 0
    size=$(stat -c %s good.tfrecord)
    cp good.tfrecord flipped.tfrecord
    printf '\377' | dd of=flipped.tfrecord bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
    head -c $((size - 5)) good.tfrecord >cut.tfrecord
    gzip -c good.tfrecord >good.gz
    head -c $(($(stat -c %s good.gz) - 20)) good.gz >cut.gz
    : >empty.tfrecord
    head -c 4000 /dev/zero >zero.tfrecord
    for file in flipped.tfrecord cut.tfrecord cut.gz zero.tfrecord; do
        train tfrecord:$file
        expect 3 "$file: " " at byte "
    done
    train tfrecord:empty.tfrecord
    expect 3 "empty.tfrecord" "empty"
    train tfrecord:good.gz --json
    expect 0
    [ "$(field examples)" = 20 ]
}

@test "3: bad Criteo, idx and cache files" {
    printf '1\t2\t3\n' >short.txt
    train criteo:short.txt
    expect 3 "short.txt: record 1 at byte 0: 3 columns instead of 40"
    mkdir idx
    printf '\0\0\10\3\0\0\0\2\0\0\0\2\0\0\0\2abcd' >idx/train-images-idx3-ubyte
    printf '\0\0\10\1\0\0\0\2\0\1' >idx/train-labels-idx1-ubyte
    train idx:idx --model softmax
    expect 3 "train-images-idx3-ubyte"
    printf 'not idx at all, not at all' >idx/train-images-idx3-ubyte
    train idx:idx --model softmax
    expect 3 "train-images-idx3-ubyte"
    good a.libsvm 20
    try data convert libsvm:a.libsvm --out a.cache
    expect 0
    head -c 100 a.cache >cut.cache
    train cache:cut.cache
    expect 3 "cut.cache"
    head -c 1000 /dev/urandom >random.cache
    train cache:random.cache
    expect 3 "random.cache"
}

@test "3: files that do not exist, are unreadable or empty, or have an unknown format" {
    train libsvm:no-such-file
    expect 3 "no-such-file"
    train no-such-file
    expect 3 "no-such-file"
    : >empty
    train empty
    expect 3 "empty: is empty"
    head -c 500 /dev/urandom | tr -d '\0-\177' >blob
    train blob
    expect 3 "blob: cannot detect the format"
    digits --steps 1 --quiet --out run
    try data inspect run
    expect 2 "run: is a run directory, not data; yoke report run shows the run" "yoke eval --checkpoint run"
    for packed in xz bzip2; do
        good lines 9
        $packed -c lines >lines.csv || continue
        train lines.csv
        expect 3 "lines.csv: is compressed with $packed" "${packed%ip2}cat lines.csv | yoke train --data FORMAT:-, such as csv:-"
    done
    printf '# only a comment\n\n' >nothing.libsvm
    for stream in never "always --features 5" "always --features 5 --steps 3" "always --features 5 --mode async --steps 3"; do
        train libsvm:nothing.libsvm --stream $stream
        expect 3 "nothing.libsvm: " "no examples"
    done
    good mine 9
    chmod 0 mine
    [ -r mine ] || { # root reads everything
        train libsvm:mine
        expect 3 "mine"
    }
}

@test "3: an index outside the model, and a class unknown to it" {
    good small.libsvm 40
    train libsvm:small.libsvm --features 5
    expect 3 "small.libsvm" "out of range: 5 features"
    train libsvm:small.libsvm --features 5 --stream always
    expect 3 "small.libsvm" "out of range: 5 features"
    try data convert libsvm:small.libsvm --out small.cache
    expect 0
    train cache:small.cache --features 5
    expect 3 "is out of range for 5 features"
    try train --model logreg --data libsvm:small.libsvm --out run --quiet
    expect 0
    printf '1 3:1\n0 500:1\n' >large.libsvm
    printf '0 1:1\n2 2:1\n1 3:1\n' >classes.libsvm
    try eval --checkpoint run --data libsvm:classes.libsvm
    expect 3 "classes.libsvm: example 2 has class 2, but the model has classes 0 to 1"
    try predict --checkpoint run --data libsvm:classes.libsvm # labels do not matter
    expect 0
    [ "$(wc -l <out)" -eq 3 ]
    for command in eval predict; do
        try $command --checkpoint run --data libsvm:large.libsvm
        expect 3 "large.libsvm: record 2" "500:1" "the model has 9 features, numbered from 1; the file has more features than the training data"
        try $command --checkpoint run --data 'synth:digits?examples=50'
        expect 3 "the rows are dense, but the model was trained on sparse rows"
    done
    try train --model logreg --data libsvm:small.libsvm --test libsvm:large.libsvm --features 9 --out none
    expect 3 "large.libsvm"
    train libsvm:classes.libsvm
    expect 3 "logreg is for two classes, with the labels 0 and 1; the data has labels up to 2: use --model softmax, or change the labels"
    train libsvm:classes.libsvm --model softmax --stream always --features 9
    expect 3 "class 2"
    train libsvm:classes.libsvm --model softmax --stream always
    expect 0
}

@test "4: a directory that cannot be written" {
    touch file
    digits --out file/run
    expect 4 "file" "--out"
    silent out
    good a.libsvm 9
    try train --model logreg --data libsvm:a.libsvm --out run --quiet
    expect 0
    try predict --checkpoint run --data libsvm:a.libsvm --out no/such/directory
    expect 4 "no/such/directory"
    [ ! -w /dev/full ] || {
        status=0
        yes '1 1:1' | head -n 200000 >many.libsvm
        "$YOKE" predict --checkpoint run --data libsvm:many.libsvm >/dev/full 2>err || status=$?
        expect 4 "to stdout: No space left on device"
        status=0
        "$YOKE" eval --checkpoint run --data libsvm:a.libsvm >/dev/full 2>err || status=$?
        expect 4 "stdout"
        status=0
        "$YOKE" train --model logreg --data libsvm:a.libsvm --out none --json >/dev/full 2>err || status=$?
        expect 4 "stdout"
    }
}

@test "4: a write error names the file, and the previous checkpoint is usable" {
    clicks --steps 20 --out run --quiet --log-every 100 # its metrics stay below the limit
    expect 0
    clicks --steps 40 --out whole --quiet
    expect 0
    status=0
    (
        ulimit -f 8 # in blocks of 512 or 1024 bytes; the model has 20 kB
        exec "$YOKE" train --out run --resume --steps 40 --quiet
    ) >out 2>err || status=$?
    expect 4 "run/checkpoints/" "safetensors: cannot write" "ulimit -f"
    silent out
    [ "$(ls run/checkpoints)" = step-20 ]
    try eval --checkpoint run --data 'synth:ctr?features=5000&examples=5000'
    expect 0
    try train --out run --resume --steps 40 --quiet
    expect 0
    cmp run/checkpoints/step-40/model.safetensors whole/checkpoints/step-40/model.safetensors
}

@test "4: a full disk" {
    mkdir disk
    mount -t tmpfs -o size=60k none disk 2>/dev/null || skip "mounting a small file system needs root"
    clicks --steps 40 --checkpoint-every 10 --out disk/run --quiet # one checkpoint takes 32 kB
    first=$status
    mv err said
    status=0
    "$YOKE" eval --checkpoint disk/run --data 'synth:ctr?features=5000&examples=5000' >out 2>err || status=$?
    umount disk
    expect 0
    status=$first
    mv said err
    expect 4 "disk/run/checkpoints/" "No space left on device; the disk is full"
}

@test "damaged checkpoints are skipped with a warning" {
    clicks --steps 20 --checkpoint-every 10 --out run --quiet
    expect 0
    printf x | dd of=run/checkpoints/step-20/model.safetensors bs=1 seek=9000 conv=notrunc 2>/dev/null
    try eval --checkpoint run --data 'synth:ctr?features=5000&examples=5000'
    expect 0 "warning: run/checkpoints/step-20: skipping this checkpoint: the size or checksum"
    try train --out run --resume --steps 30
    expect 0 "skipping this checkpoint" "resuming from run/checkpoints/step-10"
    mkdir -p other/checkpoints
    cp -r run/checkpoints/step-30 other/checkpoints
    printf x >>other/checkpoints/step-30/model.safetensors
    for damaged in other other/checkpoints/step-30; do
        try eval --checkpoint $damaged --data 'synth:ctr?features=5000&examples=5000'
        expect 2 "error: $damaged: no complete checkpoint: other/checkpoints/step-30 is damaged: the size or checksum of a file differs"
    done
    for file in run/checkpoints/*/model.safetensors; do printf x >>"$file"; done
    try train --out run --resume --steps 40
    expect 2 "run/checkpoints/step-30 is damaged: the size or checksum" "or remove this directory to start from the beginning"
    rm run/checkpoints/*/DONE
    try eval --checkpoint run --data 'synth:ctr?features=5000&examples=5000'
    expect 2 "no complete checkpoint: run/checkpoints/step-30 is incomplete: it has no DONE file"
}

# Replaces text in the metadata of one file with text of the same length, and updates DONE.
edit_metadata() { # CHECKPOINT FILE FROM TO
    python3 - "$@" <<'END'
import sys
directory, file, old, new = sys.argv[1], sys.argv[2], sys.argv[3].encode(), sys.argv[4].encode()

def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff

with open(f"{directory}/{file}", "r+b") as f:
    data = f.read()
    assert data.count(old) == 1 and len(old) == len(new), data[:400]
    f.seek(0)
    f.write(data.replace(old, new))
with open(f"{directory}/DONE", "w") as done:
    for name in "model.safetensors", "state.safetensors":
        data = open(f"{directory}/{name}", "rb").read()
        done.write("%s %d %08x\n" % (name, len(data), crc32c(data)))
END
}

@test "a checkpoint with a newer format version is rejected; one without a version is read" {
    clicks --steps 20 --out run --quiet
    expect 0
    local data='synth:ctr?features=5000&examples=5000' at=run/checkpoints/step-20
    edit_metadata $at model.safetensors '"format_version":"1"' '"format_version":"7"'
    for command in eval predict; do
        try $command --checkpoint run --data "$data"
        expect 3 "$at/model.safetensors: format version 7, written by yoke" "reads versions up to 1" "or a newer one"
    done
    edit_metadata $at model.safetensors '"format_version":"7"' '"farmot_version":"7"'
    try eval --checkpoint run --data "$data"
    expect 0
    edit_metadata $at state.safetensors '"format_version":"1"' '"format_version":"7"'
    try train --out run --resume --steps 30
    expect 3 "$at/state.safetensors: format version 7"
    edit_metadata $at state.safetensors '"format_version":"7"' '"farmot_version":"7"'
    try train --out run --resume --steps 30
    expect 0 "resuming from $at"
}

@test "--hash-bits and --features are errors where they have no effect" {
    printf '1,0.5,2\n0,1,1\n' >dense.csv
    try train --model logreg --data csv:dense.csv --hash-bits 10 --out none
    expect 2 "--hash-bits 10 has no effect: csv:dense.csv has dense rows, without keys; leave it out"
    try train --model logreg --data 'synth:ctr?examples=100' --hash-bits 10 --out none
    expect 2 "--hash-bits 10 has no effect: synth:ctr?examples=100 has keys that are not hashed; leave it out"
    try train --model logreg --data csv:dense.csv --test none --quiet --out run
    expect 0
    for command in "train --model logreg --out none --data" "eval --checkpoint run --data" "predict --checkpoint run --data" \
        "data inspect" "data convert --out a.cache"; do
        try $command csv:dense.csv --features 9
        expect 2 "--features 9 has no effect: csv:dense.csv has dense rows of 2 columns; leave it out"
        try $command 'csv:dense.csv?bits=9'
        expect 2 "csv:dense.csv?bits=9: bits has no effect: there are no categorical columns; leave it out"
    done
    printf 'y,a,b\n1,x,2\n0,y,1\n' >onehot.csv
    table='csv:onehot.csv?categorical=a&encode=onehot'
    learn="train --model logreg --test none --quiet --data"
    try $learn "$table" --out onehot
    expect 0
    for command in "$learn $table" "eval --checkpoint onehot --data csv:onehot.csv?encode=onehot"; do
        try $command --features 9
        expect 2 "--features 9 has no effect: ${command##* } has one-hot rows of 3 columns; leave it out"
        try $command --hash-bits 9
        expect 2 "--hash-bits 9 has no effect: ${command##* } has keys that are not hashed; leave it out"
        for option in bits features; do
            try $command\&$option=9
            expect 2 "$option has no effect: categories are not hashed, but encoded by value; leave it out"
        done
    done
}

@test "eval: keys are hashed as in training, and another --hash-bits is an error" {
    seq 1 200 | awk '{ print $1 % 2, $1 * 1000003 ":1", $1 % 2 + 5 ":1" }' >a.libsvm
    try train --model logreg --data a.libsvm --hash-bits 10 --batch 10 --epochs 3 --quiet --out run
    expect 0
    try eval --checkpoint run --data a.libsvm --hash-bits 10 --json
    expect 0
    loss=$(field loss)
    try eval --checkpoint run --data a.libsvm --json
    expect 0
    [ "$(field loss)" = "$loss" ]
    try eval --checkpoint run --data a.libsvm --features 1024 --json
    expect 0
    [ "$(field loss)" = "$loss" ]
    try eval --checkpoint run --data a.libsvm --hash-bits 9
    expect 3 "512 columns, but the model was trained on 1024; use the same --hash-bits or --features as in training"
}

@test "results go to the stdout that is open: shared with other programs, a socket, or closed" {
    digits --epochs 1 --quiet --out run
    { echo first; "$YOKE" eval --checkpoint run --data 'synth:digits?examples=100' --json; echo last; } >all
    [ "$(wc -l <all)" = 3 ]
    [ "$(sed -n '1p;3p' all | tr '\n' ' ')" = "first last " ]
    python3 - <<'END'
import os, socket, subprocess
for command in ("eval", "predict"):
    a, b = socket.socketpair()
    args = [os.environ["YOKE"], command, "--checkpoint", "run", "--data", "synth:digits?examples=5"]
    assert subprocess.run(args, stdout=b).returncode == 0
    assert a.recv(100)
END
    status=0
    "$YOKE" train --model softmax --data 'synth:digits?examples=100' --out closed <&- >&- 2>&- || status=$?
    [ $status = 4 ]
    if grep -v '^{' closed/metrics.jsonl; then false; fi
}
