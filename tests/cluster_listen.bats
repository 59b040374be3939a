#!/usr/bin/env bats
# Open ports: other hosts cannot reach a job on one host, unless the user chooses otherwise.

setup() { load cli; load cluster; cluster_setup; }
teardown() { cluster_teardown; }

one="train --model softmax --data synth:digits?examples=1003 --batch 2 --epochs 5000"

# Prints "PROGRAM ADDRESS" for each listening TCP socket and each bound UDP socket of this test's jobs.
sockets() { python3 "$BATS_TEST_DIRNAME/strangers.py" --list; }

# Those sockets that other hosts can reach.
open_sockets() {
    sockets >all
    python3 - <<'END'
import ipaddress
for line in open("all"):
    a = ipaddress.ip_address(line.split()[1])
    if not (getattr(a, "ipv4_mapped", None) or a).is_loopback:
        print(line, end="")
END
}

confined() {
    open_sockets >found
    [ ! -s found ] || { echo "other hosts can reach:"; sort found | uniq -c; return 1; }
}

end_job() {
    kill -TERM "$BACKGROUND"
    finish 20
    expect 0
}

@test "--launch: no process listens on a port" {
    begin $one --launch 2 --out none
    wait_for_step 1
    sockets >all
    silent all
    end_job
}

@test "--launch, async, with a joining worker: other hosts cannot reach the job" {
    begin $one --launch 2 --servers 1 --mode async --out run
    wait_for_step 1
    "$YOKE" train --join run >joined 2>&1 3>&- 4>&- &
    local joiner=$!
    for _ in $(seq 200); do
        ! grep -q 'joined the job' joined || break
        pause 0.05
    done
    confined
    if grep "^yoke" all; then return 1; fi
    equal "mode of run/join" "$(stat -c %a run/join)" 600
    end_job
    wait "$joiner"
    grep 'trained on [1-9][0-9]* examples' joined
}

@test "--network any: other hosts can reach the servers; a worker joins by the run directory, or by address and token" {
    begin $one --launch 2 --servers 1 --mode async --network any --out run
    wait_for_step 1
    open_sockets >found
    grep -q '^yoke' found
    cp run/join token
    "$YOKE" train --join run >joined 2>&1 3>&- 4>&- &
    local joiner=$!
    wait_for_message "a worker has joined; 2 are training now"
    "$YOKE" train --join "127.0.0.1:$(sed -n '2s/.*://p' token)" --token-file token >joined2 2>&1 3>&- 4>&- &
    local second=$!
    wait_for_message "a worker has joined; 3 are training now"
    tr 0-9 1-90 <token >wrong
    chmod 600 wrong
    in_time 20 train --join "127.0.0.1:$(sed -n '2s/.*://p' token)" --token-file wrong
    expect 2 "has a different token"
    chmod 644 wrong
    in_time 20 train --join 127.0.0.1:1 --token-file wrong
    expect 2 "--token-file: others can read"
    kill -TERM "$BACKGROUND"
    finish 20
    wait "$joiner" "$second"
    grep 'trained on [1-9][0-9]* examples' joined joined2
    [ ! -e run/join ]
    chmod 600 token
    cp -p token run/join # as left by a job that was killed
    in_time 20 train --join run
    expect 1 "cannot join the job" "check that it is still running"
}

@test "--network local cannot be used with --hosts" {
    in_time 10 $one --hosts a --network local
    expect 2 "--network local"
    in_time 10 $one --network here
    expect 2 "--network here: the value must be one of: local, any"
}

@test "--http listens on the given address only, also if processes use TCP" {
    YOKE_SHARED_MEMORY=0 begin $one --launch 2 --out none --http 0.0.0.0:0
    wait_for_step 1
    open_sockets >found
    [ "$(cat found)" = "yoke 0.0.0.0" ] || { cat found; return 1; }
    end_job
}

# YK_STRANGERS: connections to each port
@test "connections of strangers do not disturb a job, and a worker can still join it" {
    begin $one --launch 3 --servers 1 --mode async --network any --http 0.0.0.0:0 --out run
    wait_for_step 1
    python3 "$BATS_TEST_DIRNAME/strangers.py" "${YK_STRANGERS:-400}" >made 3>&- &
    local strangers=$!
    "$YOKE" train --join run >joined 2>&1 3>&- 4>&- &
    local joiner=$!
    wait_for_message "a worker has joined; 3 are training now"
    wait "$strangers"
    read -r ports _ files memory <made
    equal "ports" "$ports" 2
    holds "$files < 300 and $memory < 20000"
    kill -TERM "$BACKGROUND"
    finish 20
    expect 0
    wait "$joiner"
    ! grep "lost\|died" err
    echo "# ports, connections, and additional files and kB of a process: $(cat made)" >&3
}
