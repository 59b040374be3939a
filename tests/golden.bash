# For tests that compare runs with recorded ones (tests/golden/record), on top of cli.bash and cluster.bash.
#
# Runs of one process use every recorded instruction set of this machine. Jobs of several processes, which take longer and use the same
# kernels, use only the best one; with YK_GOLDEN=all, each of them.

golden_setup() {
    cluster_setup || return 1
    RECORD=$BATS_TEST_DIRNAME/golden/record
}

recorded_isas() { # [all]
    "$RECORD" --isas "$YOKE" | awk -v all="${1-${YK_GOLDEN-}}" '$2 == "recorded" && (all == "all" || !n++) { print $1 }'
}

# Checks that all runs of a group give the recorded results. Runs that cannot be compared are skipped with a reason.
golden() { # GROUP [all]; all: with every recorded instruction set
    local isa isas why=
    isas=$(recorded_isas "${@:2}")
    [ -n "$isas" ] || skip "no results are recorded for the instruction sets of this machine"
    for isa in $isas; do
        status=0
        "$RECORD" --check --isa "$isa" "$YOKE" "$1" >out 2>err || status=$?
        cat out err
        case $status in
        0) ;;
        77) why=$(tail -n 1 err) ;;
        *) return 1 ;;
        esac
    done
    [ -z "$why" ] || skip "$why"
}
