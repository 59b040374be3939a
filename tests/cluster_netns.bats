#!/usr/bin/env bats
# Three simulated hosts: network namespaces with their own host names and addresses, connected by a bridge at 1 Gbit/s.
# Jobs use TCP between them, and links go down, temporarily or for good. Needs root, iproute2, and a kernel with
# veth, bridges and tbf.

setup_file() {
    # names that no other run of these tests uses; an interface name has at most 15 characters
    LAN=ykl$((BASHPID % 100000))
    HOST=ykh$((BASHPID % 100000))x
    NET=10.$((64 + BASHPID % 64)).$((BASHPID / 64 % 256))
    export LAN HOST NET
    WHY=$(why_not 2>&1) || true
    export WHY
    [ -n "$WHY" ] || WHY=$(build_lan 2>&1) || true
    [ -z "$WHY" ] || remove_lan
}

teardown_file() { remove_lan; }

why_not() {
    [ "$(id -u)" = 0 ] || { echo "creating network namespaces needs root"; return; }
    command -v ip >/dev/null || { echo "ip (iproute2) is not installed"; return; }
    command -v tc >/dev/null || { echo "tc (iproute2) is not installed"; return; }
    unshare --net --uts true 2>/dev/null || { echo "this host does not allow network namespaces"; return; }
}

build_lan() {
    set -e
    ip netns add "$LAN"
    ip -n "$LAN" link add br0 type bridge
    ip -n "$LAN" link set br0 up
    for i in 1 2 3; do
        ip netns add "$HOST$i"
        ip link add "v$i" netns "$LAN" type veth peer name eth0 netns "$HOST$i"
        ip -n "$LAN" link set "v$i" master br0 up
        ip -n "$HOST$i" link set lo up
        ip -n "$HOST$i" addr add "$NET.$i/24" dev eth0
        ip -n "$HOST$i" link set eth0 up
        ip netns exec "$HOST$i" tc qdisc replace dev eth0 root tbf rate 1gbit burst 128kb latency 20ms
    done
    # a fourth host, without a rate limit, from which jobs are started
    ip netns add "${HOST}0"
    ip link add v0 netns "$LAN" type veth peer name eth0 netns "${HOST}0"
    ip -n "$LAN" link set v0 master br0 up
    ip -n "${HOST}0" link set lo up
    ip -n "${HOST}0" addr add "$NET.100/24" dev eth0
    ip -n "${HOST}0" link set eth0 up
    ip netns exec "${HOST}0" ping -c 1 -w 5 "$NET.3" >/dev/null 2>&1 || sleep 1 # bridge addresses take a moment to become reachable
} >/dev/null

remove_lan() {
    local i
    for i in 0 1 2 3; do
        ip netns del "$HOST$i" 2>/dev/null || true
    done
    ip netns del "$LAN" 2>/dev/null || true
}

setup() {
    load cli
    load cluster
    [ -z "$WHY" ] || skip "$WHY"
    cluster_setup
    # HOST COMMAND...: runs the command in that host's namespace and under its name; like ssh, it is another process, which
    # forwards stdin and stdout
    cat >agent <<END
#!/bin/sh
name=$HOST\${1##*.}
shift
cat 2>/dev/null | ip netns exec "\$name" setsid unshare --uts sh -c 'hostname "\$0"; exec sh -c "\$*"' "\$name" "\$@" | cat
END
    for i in 1 2 3; do echo "$NET.$i slots=2"; done >hosts
    HOSTS=$NET.1,$NET.2,$NET.3
    # the launcher runs in its own namespace, as on a fourth host
    cat >start <<END
#!/bin/sh
exec ip netns exec "${HOST}0" unshare --uts sh -c 'hostname "\$0"; exec "\$@"' "${HOST}0" "$YOKE" "\$@"
END
    chmod +x agent start
}

teardown() {
    [ -z "$WHY" ] || return 0
    for i in 1 2 3; do ip -n "$HOST$i" link set eth0 up; done
    cluster_teardown
}

link() { # up|down HOST
    ip -n "$HOST$2" link set eth0 "$1"
}

# Starts a job on the three hosts; `finish` waits for it.
begin_there() { # OPTION...
    : >out
    : >err
    ./start train "$@" --agent "$TEST_DIR/agent" >out 2>err 3>&- 4>&- &
    BACKGROUND=$!
}

there() { # OPTION...
    begin_there "$@"
    finish 40
}

sync="--model softmax --data synth:digits?examples=1003 --batch 4 --eval-every 100 --checkpoint-every 100 --deadline 2 --json"

@test "three hosts: replicas and servers, with --hosts and --hostfile, equal one process" {
    one="--model softmax --data synth:digits?examples=507"
    in_time 60 train $one --batch 30 --quiet --out serial
    expect 0
    there $one --batch 10 --hosts "$HOSTS" --json --out replicas
    expect 0
    equal ranks "$(result_of ranks) $(result_of servers)" "3 0"
    same_weights serial replicas
    # three hosts, not one with three processes
    [ "$(grep -o "\"$HOST[123]\"" out | sort -u | wc -l)" -eq 3 ]
    # every byte was sent from one host to another
    python3 - "$HOST" <<'END'
import json, sys
s = json.load(open("replicas/summary.json"))
pairs = {(h["host"], to): n for h in s["hosts"] for to, n in h["sent_to"].items()}
assert len(pairs) == 6 and min(pairs.values()) > 0 and sum(pairs.values()) == s["bytes_sent"], (pairs, s["bytes_sent"])
assert all(h["transport"] and h["cpu"] for h in s["hosts"]), s["hosts"]
END
    try report replicas --format markdown
    expect 0
    grep -q "^| .* | to ${HOST}1 | to ${HOST}2 | to ${HOST}3 |" replicas/report.md
    there $one --batch 15 --hosts "$HOSTS" --servers 1 --json --out server
    expect 0
    equal ranks "$(result_of ranks) $(result_of servers)" "3 1"
    same_weights serial server
    there $one --batch 15 --hostfile hosts --launch 3 --servers 1 --mode async --json --out async
    expect 0
    equal examples "$(result_of examples)" 507
    equal bytes "$(result_of bytes_sent)" "$(result_of bytes_received)"
}

@test "workers join from hosts that have no process of the job, by the run directory and by address" {
    begin_there ${sync/--eval-every 100/--eval-every 1000} --mode async --servers 2 --hosts "$NET.1,$NET.2,$NET.2" --steps 10000000 --out run
    wait_for_step 1000
    grep -q "^$NET.1:" run/join
    grep -q "^$NET.2:" run/join
    ./agent "$NET.3" "$YOKE" train --join "$PWD/run" >joined 2>&1 3>&- 4>&- &
    wait_for_message "a worker has joined; 2 are training now"
    cp run/join token
    ./start train --join "$(sed -n 2p token)" --token-file token >joined2 2>&1 3>&- 4>&- &
    wait_for_message "a worker has joined; 3 are training now"
    wait_for_step_after "a worker has joined; 3 are training now"
    link down 3
    wait_for_message "declared lost"
    kill -TERM "$BACKGROUND"
    finish 20
    expect 0 "stopped at step"
    for _ in $(seq 200); do
        ! grep -q 'trained on [1-9][0-9]* examples' joined2 || break
        pause 0.05
    done
    grep 'trained on [1-9][0-9]* examples' joined2
    for _ in $(seq 400); do # the worker on the host that was cut off notices after the heartbeat timeout
        [ -n "$(processes)" ] || break
        pause 0.05
    done
    grep -E 'yoke: error: server ([01]) \(rank \1\)' joined
}

@test "sync: a link goes down and comes back; with --restarts, results are bit-identical" {
    begin_there $sync --hosts "$HOSTS" --steps 1000000 --restarts 9 --out run
    wait_for_step 400
    link down 2
    wait_for_message "restart 1 of 9"
    link up 2
    wait_for_step_after "resuming from"
    kill -TERM "$BACKGROUND"
    finish 20
    expect 0 "restarting from the last checkpoint"
    there $sync --hosts "$HOSTS" --steps "$(result_of steps)" --quiet --out whole
    expect 0
    same_bits whole run
}

@test "sync: a link that stays down ends the job, and the error names a rank and its host" {
    begin_there $sync --hosts "$HOSTS" --steps 1000000 --out run
    wait_for_step 400
    link down 2
    finish 15
    expect 1 "rank" "on host $HOST"
}

@test "async: after a host becomes unreachable, the others continue" {
    begin_there --model softmax --data 'synth:digits?examples=1003' --batch 2 --epochs 8 --mode async --servers 1 --eval-every 200 \
        --deadline 2 --hosts "$HOSTS" --json --out run
    wait_for_step 200
    link down 3
    finish 40
    expect 0 "rank 2"
    equal examples "$(result_of examples)" 8024
}

@test "sync: when all processes of a host are killed, the error names their ranks and the host" {
    for line in "2 2, 3 --servers 0" "1 0, 1 --servers all"; do
        read -r host first second servers <<<"$line"
        # shellcheck disable=SC2086  # several words
        begin_there $sync --hostfile hosts --steps 1000000 $servers --out run
        wait_for_step 400
        ip netns pids "$HOST$host" | xargs kill -KILL 2>/dev/null || true
        finish 20
        expect 1 "yoke: error: the job was lost: ranks " "ranks $first $second on host $NET.$host" "has died, or cannot be reached"
        grep -qE "\"error\".*($NET.$host|$HOST$host)" run/summary.json # the chief may have written it
        rm -r run
    done
}

@test "the host of a parameter server dies: the job ends with a summary, or restarts; a launcher that dies or hangs ends all hosts" {
    async="--model softmax --data synth:digits?examples=1003 --batch 2 --epochs 9999 --mode async --servers 1 --eval-every 200 --deadline 2"
    begin_there $async --hosts "$HOSTS" --checkpoint-every 100 --restarts 1 --json --out run
    wait_for_step 400
    ip netns pids "${HOST}1" | xargs kill -KILL
    wait_for_message "restart 1 of 1"
    wait_for_step_after "resuming from"
    ip netns pids "${HOST}1" | xargs kill -KILL
    finish 10
    expect 1 "the job was lost: rank 0 on host $NET.1 was lost: the host has died, or cannot be reached"
    grep -q "\"error\".*rank 0 on host $NET.1" run/summary.json
    no_process_is_left
    rm -r run
    begin_there $async --hosts "$HOSTS" --out run
    wait_for_step 200
    kill -KILL "$BACKGROUND"
    finish 5
    no_process_is_left
    # a launcher that hangs, or whose host has died, sends no heartbeats
    rm -r run
    begin_there $async --hosts "$HOSTS" --out run
    wait_for_step 200
    kill -STOP "$BACKGROUND"
    for _ in $(seq 300); do
        [ "$(processes)" != "$BACKGROUND" ] || break
        pause 0.05
    done
    equal processes "$(processes)" "$BACKGROUND"
    kill -KILL "$BACKGROUND"
    finish 5
}
