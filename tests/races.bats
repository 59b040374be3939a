#!/usr/bin/env bats
# Whole runs under ThreadSanitizer: of build-tsan only (CMakeLists.txt). A data race ends the run with status 66.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

run='--model fm:4 --data synth:ctr?examples=4000&features=100000 --steps 300 --eval-every 100 --quiet'

@test "a server does not change what the workers of its process read when they start" {
    in_time 120 train $run --launch 2 --servers all --mode async --workers 2
    expect 0
}

@test "threads with a staleness bound have no races except those of lock-free updates" {
    in_time 120 train $run --workers 3 --staleness 3
    expect 0
}

@test "the threads of a synchronous process find keys and send gradients together without races" {
    for data in "" "--stream always"; do
        in_time 120 train $run --launch 2 --servers all --mode sync --workers 3 $data
        expect 0
    done
}

@test "the threads of an asynchronous process send gradients while others have no examples yet" {
    in_time 120 train ${run/fm:4/deepfm:4} --launch 2 --servers all --mode async --workers 3
    expect 0
}
