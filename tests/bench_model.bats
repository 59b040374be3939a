#!/usr/bin/env bats
# The performance model: its arithmetic, and the tables of docs/performance-model.md.

@test "the performance model computes what its page says" {
    python3 "$BATS_TEST_DIRNAME/bench_model.py"
}
