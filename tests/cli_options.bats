#!/usr/bin/env bats
# Options on the command line, in files and in sweeps: --servers, the number of workers, which runs count as repeats.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

short='--model softmax --data synth:digits?examples=100 --batch 10 --test none'

@test "--servers is a number or all, also in files" {
    try train $short --servers some --out none
    expect 2 "--servers some: not a whole number; must be between 0 and" ", or all"
    in_time 60 train $short --servers all --launch 2 --json --out none
    expect 0 "each with 1 worker and a shard of the parameters"
    equal placement "$(result_of placement)" '"shards"'
    try train $short --servers all --quiet --out run # one process owns all parameters
    expect 0
    grep -qx 'servers = all' run/config.ini
    in_time 60 train --out run --resume --epochs 2 --launch 2
    expect 0 "a shard of the parameters"
}

@test "a sweep accepts --servers all, and checks every run before it starts the first" {
    printf '[train]\nmodel = softmax\ndata = synth:digits?examples=100\nlaunch = 2\n[grid]\nservers = 0 all\n' >a.ini
    in_time 60 sweep a.ini --out sweep --quiet
    expect 0
    grep -q '"placement": *"shards"' sweep/servers-all/summary.json
    rm -r sweep
    try sweep a.ini --out sweep --quiet --set 'servers=0 2'
    expect 2 "a.ini: the run servers=2: --servers 2 of 2 processes leaves no worker"
    [ ! -e sweep ]
}

@test "workers counts those of all processes, workers_per_process those of each" {
    try train $short --workers 3 --quiet --json --out none
    expect 0
    equal workers "$(result_of workers), $(result_of workers_per_process)" "3, 3"
    in_time 60 train $short --launch 3 --servers 1 --quiet --json --out run
    expect 0
    equal workers "$(result_of workers), $(result_of workers_per_process)" "2, 1"
    grep -q '"workers_per_process": *1' run/summary.json
    in_time 60 train $short --launch 3 --servers 1 --workers 2 --quiet --json --out none
    expect 0
    equal workers "$(result_of workers), $(result_of workers_per_process)" "4, 2"
}

@test "a job logs at its start whether workers can be lost or join" {
    in_time 60 train $short --launch 2 --out none
    expect 0 "only dedicated servers (--servers K) allow workers to be lost or to join without a restart"
    in_time 60 train $short --launch 2 --mode async --servers 1 --out run
    expect 0 "the servers allow workers to be lost or to join without a restart"
    in_time 60 train $short --launch 2 --mode async --servers 1 --out none
    expect 0 "workers cannot join this job: it has no run directory"
    seq 40 | awk '{ print $1 % 2, ($1 % 9 + 1) ":1" }' >a.libsvm
    in_time 60 train --model logreg --data libsvm:a.libsvm --stream always --test none --launch 2 --mode async --servers 1 --out streamed
    expect 0 "40 examples, streamed, 9 columns"
    expect 0 "workers cannot join this job: its data is streamed"
    in_time 60 train --join run
    expect 2 "a job prints whether workers can join"
    in_time 60 train --join run --launch 2
    expect 2 "--launch cannot be used with --join"
    in_time 60 train --join run --out elsewhere
    expect 2 "--out cannot be used with --join"
    in_time 60 train --join run --dry-run
    expect 2 "--dry-run cannot be used with --join"
    in_time 60 train $short --launch 2 --servers 1 --out none
    expect 0 "a lost process ends the job: synchronous steps need all workers"
}

@test "runs that differ only in options without effect on results are repeats" {
    try train $short --quiet --seed 1 --deadline 5 --out a
    try train $short --quiet --seed 2 --deadline 6 --out b
    try report a b -o page.html
    expect 0
    equal columns "$(grep -c '<th[^>]*>deadline' page.html)" 0
}
