#!/usr/bin/env bats
# What options mean on the command line, in files and in sweeps: --servers, the number of workers, which runs are the same.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

short='--model softmax --data synth:digits?examples=100 --batch 10 --test none'

@test "--servers is a number or all, in files too" {
    try train $short --servers some --out none
    expect 2 "--servers some: not a whole number, or all"
    try train $short --servers all --launch 2 --out none
    expect 2 "yoke: error: --servers all is not available yet"
    [ "$(wc -l <err)" -eq 1 ] # by the launcher, before any process
    try train $short --servers all --quiet --out run # one process owns all parameters
    expect 0
    grep -qx 'servers = all' run/config.ini
    try train --out run --resume --epochs 2 --launch 2
    expect 2 "--servers all is not available yet"
}

@test "a sweep knows --servers all, and checks every run before the first begins" {
    printf '[train]\nmodel = softmax\ndata = synth:digits?examples=100\nlaunch = 2\n[grid]\nservers = 0 all\n' >a.ini
    try sweep a.ini --out sweep --quiet
    expect 2 "a.ini: the run servers=all: --servers all is not available yet"
    [ ! -e sweep ]
    try sweep a.ini --out sweep --quiet --set 'servers=0 2'
    expect 2 "a.ini: the run servers=2: --servers 2 of 2 processes leaves no worker"
}

@test "workers is the number in all processes, workers_per_process that in each" {
    try train $short --workers 3 --quiet --json --out none
    expect 0
    equal workers "$(said workers), $(said workers_per_process)" "3, 3"
    in_time 60 train $short --launch 3 --servers 1 --quiet --json --out run
    expect 0
    equal workers "$(said workers), $(said workers_per_process)" "2, 1"
    grep -q '"workers_per_process": *1' run/summary.json
}

@test "a job says at its start whether workers can be lost" {
    in_time 60 train $short --launch 2 --out none
    expect 0 "only dedicated servers (--servers K) allow workers to be lost or to join without a restart"
    in_time 60 train $short --launch 2 --mode async --out none
    expect 0 "the servers allow workers to be lost or to join without a restart"
    in_time 60 train $short --launch 2 --servers 1 --out none
    expect 0 "a lost process ends the job: synchronous steps need all workers"
}

@test "runs that differ in options that change no results are repeats" {
    try train $short --quiet --seed 1 --deadline 5 --out a
    try train $short --quiet --seed 2 --deadline 6 --out b
    try report a b -o page.html
    expect 0
    equal columns "$(grep -c '<th[^>]*>deadline' page.html)" 0
}
