#!/usr/bin/env bats
# Untrusted files: configurations, sweeps and run directories. None of them starts a program, opens a port,
# writes or reads elsewhere, or hangs.

setup() {
    load cli
    load cluster
    cluster_setup
    FORGIVEN=yes
    # the programs of an attacker; ssh is found in PATH
    mkdir bin
    printf '#!/bin/sh\necho "$0 $*" >>"%s/ran"\n' "$TEST_DIR" >bin/ssh
    cp bin/ssh evil
    chmod +x evil bin/ssh
    PATH=$TEST_DIR/bin:$PATH
}

teardown() { cluster_teardown; }

one='model = softmax
data = synth:digits?examples=200
steps = 5'

# Prints the lines of a configuration that exploit an option.
exploit_lines() { # OPTION
    case $1 in
    agent) printf 'hosts = elsewhere\nagent = %s\n' "$TEST_DIR/evil" ;;
    hosts) printf 'hosts = -oProxyCommand=%s\n' "$TEST_DIR/evil" ;;
    hostfile) printf 'elsewhere slots=1\n' >there && printf 'hostfile = %s\n' "$TEST_DIR/there" ;;
    http) printf 'http = 0\n' ;;
    esac
}

nothing_ran() {
    [ ! -e ran ] || { echo "it ran:"; cat ran; return 1; }
}

run_with() { # LINES: creates a run directory, r, whose config.ini has these lines
    mkdir -p r
    printf '%s\n%s\n' "$one" "$1" >r/config.ini
}

resumes_without() { # OPTION
    run_with "$(exploit_lines "$1")"
    in_time 20 train --out r --resume
    nothing_ran
    expect 0 "r/config.ini: ignored:" "$1" "on the command line"
    [ "$(grep -c 'ignored' err)" -eq 1 ]
    does_not_say 'http://'
    # and the resumed run has removed the option
    does_not_mention "$1"
}

does_not_mention() { # OPTION
    if grep -q "^$1 *=" r/config.ini; then
        cat r/config.ini
        return 1
    fi
}

@test "--resume: the agent of a run directory is not run" { resumes_without agent; }
@test "--resume: the hosts of a run directory are not reached" { resumes_without hosts; }
@test "--resume: the hostfile of a run directory is not read" { resumes_without hostfile; }
@test "--resume: the http of a run directory opens no port" { resumes_without http; }

config_refused() { # OPTION
    printf '%s\n%s\n' "$one" "$(exploit_lines "$1")" >mine.ini
    in_time 20 train --config mine.ini --out none
    nothing_ran
    expect 2 "mine.ini:$(grep -nm 1 -e '^http' -e '^host' -e '^agent' mine.ini | cut -d: -f1): a file cannot set" \
        "on the command line"
}

@test "--config: agent is refused" { config_refused agent; }
@test "--config: hosts is refused" { config_refused hosts; }
@test "--config: hostfile is refused" { config_refused hostfile; }
@test "--config: http is refused" { config_refused http; }

sweep_refused() { # OPTION
    printf '[train]\n%s\n[grid]\nbatch = 5\n%s\n' "$one" "$(exploit_lines "$1")" >s.ini
    in_time 20 sweep s.ini --out s --no-report
    nothing_ran
    expect 2 "s.ini:" "a file cannot set" "--set"
    [ ! -e s ]
}

@test "sweep: agent is refused" { sweep_refused agent; }
@test "sweep: hosts is refused" { sweep_refused hosts; }
@test "sweep: hostfile is refused" { sweep_refused hostfile; }
@test "sweep: http is refused" { sweep_refused http; }

@test "sweep: these options can be set on the command line" {
    printf '[train]\n%s\n[grid]\nbatch = 5\n' "$one" >s.ini
    printf 'shift\nexec sh -c "$*"\n' >agent
    in_time 30 sweep s.ini --out s --no-report --set http=0 --set hosts=there:2 --set 'agent="sh agent"'
    expect 0
    grep -q 'http://' s/*/log.txt
    grep -q -- '; on the command line: --agent sh agent' s/*/config.ini
    # the same command finds the finished run
    in_time 30 sweep s.ini --out s --no-report --set http=0 --set hosts=there:2 --set 'agent="sh agent"'
    expect 0 "1 of 1 runs are already complete"
}

@test "other options that apply to one invocation are also refused in files" {
    for line in 'out = elsewhere' 'resume = true' 'config = other.ini' 'join = run' 'network = any'; do
        printf '%s\n%s\n' "$one" "$line" >mine.ini
        in_time 20 train --config mine.ini
        expect 2 "mine.ini:4: a file cannot set ${line%% *};"
    done
    [ ! -e elsewhere ] && [ ! -e runs ]
}

@test "host names that begin with - are refused" {
    for hosts in -oProxyCommand=x a,-oProxyCommand=x:2 a@-oX ,-oX; do
        in_time 20 train --model softmax --data synth:digits --hosts "$hosts" --out none
        expect 2 "--hosts: '-o" "cannot begin with '-'"
    done
    for line in '-oProxyCommand=x slots=1' 'a,-oX:2' '"-oX"' ' -oX' 'user@-oX' '/* */-oX'; do
        printf '# - mine\nlocal-host_1.x slots=1 # - one\n%s\n' "$line" >hosts
        in_time 20 train --model softmax --data synth:digits --hostfile hosts --out none
        expect 2 "hosts:3: '-o" "cannot begin with '-'"
    done
    nothing_ran
}

@test "--join: the options of a foreign run directory are ignored, with one warning" {
    begin train --model softmax --data 'synth:digits?examples=1003' --batch 2 --epochs 2000 --mode async --servers 1 --launch 2 --out r
    wait_for_step 1
    printf 'agent = %s\nhosts = -oProxyCommand=x\nhttp = 0\n' "$TEST_DIR/evil" >>r/config.ini
    status=0
    timeout 20 "$YOKE" train --join r >out 2>joined &
    local joiner=$!
    for _ in $(seq 200); do
        ! grep -q 'joined the job' joined || break
        pause 0.05
    done
    kill -TERM "$BACKGROUND"
    finish 20
    wait "$joiner"
    grep -q 'joined the job' joined
    [ "$(grep -c 'r/config.ini: ignored: agent, hosts, http;' joined)" -eq 1 ] || { cat joined; return 1; }
    nothing_ran
}

@test "--join: RUN/join must be a private file of this user" {
    run_with ''
    echo "$(printf '%064d' 0) --mca x" >r/join
    chmod 600 r/join
    in_time 10 train --join r
    expect 3 "RUN/join" "damaged"
    chmod 604 r/join
    in_time 10 train --join r
    expect 2 "r/join" "others can read" "chmod 600"
    if [ "$(id -u)" -eq 0 ]; then
        chmod 600 r/join
        chown 12345 r/join
        in_time 10 train --join r
        expect 2 "r/join" "belongs to another user"
    fi
    rm r/join
    mkfifo r/join
    in_time 10 train --join r
    expect 2 "others can read or change r/join"
}

@test "--resume: nothing is written through links" {
    echo mine >precious
    mkdir elsewhere
    for name in metrics.jsonl summary.json worker-0 checkpoints; do
        rm -rf r
        run_with ''
        case $name in
        *.*) ln -s "$TEST_DIR/precious" "r/$name" ;;
        *) ln -s "$TEST_DIR/elsewhere" "r/$name" ;;
        esac
        in_time 20 train --out r --resume
        expect 4 "r/$name: cannot be used: it is a symbolic link"
        [ "$(cat precious)" = mine ] && [ -z "$(ls elsewhere)" ]
    done
    rm -r r
    run_with ''
    mkfifo r/metrics.jsonl
    in_time 20 train --out r --resume
    expect 4 "r/metrics.jsonl"
    rm r/*
    mkfifo r/config.ini
    in_time 20 train --out r --resume
    expect 3 "r/config.ini: not a regular file"
    # the run directory itself may be a link
    rm -r r
    mkdir real
    ln -s real r
    run_with ''
    in_time 20 train --out r --resume
    expect 0
}

@test "sweep: nothing is written through links" {
    printf '[train]\n%s\n[grid]\nbatch = 5\n' "$one" >s.ini
    mkdir -p s/batch-5
    touch s/plan.txt
    echo mine >precious
    ln -s "$TEST_DIR/precious" s/batch-5/log.txt
    in_time 20 sweep s.ini --out s --no-report --force
    expect 4 "s/batch-5/log.txt: cannot write: it is a symbolic link"
    [ "$(cat precious)" = mine ]
}

@test "report: FIFOs, links and huge files are errors and do not block it" {
    try train --model softmax --data 'synth:digits?examples=200' --steps 5 --quiet --out good
    expect 0
    for name in config.ini summary.json worker-0/resources.jsonl; do
        for how in fifo link huge; do
            rm -rf r
            cp -r good r
            rm -f "r/$name"
            case $how in
            fifo) mkfifo "r/$name" ;;
            link) ln -s "$TEST_DIR/good/$name" "r/$name" ;;
            huge) truncate -s 90G "r/$name" ;;
            esac
            in_time 10 report r -o r.html
            case $how in
            huge) expect 3 "r/$name" "too large" ;;
            *) expect 3 "r/$name: not a regular file" ;;
            esac
        done
    done
    for link in /dev/full "$TEST_DIR/precious"; do # a link in place of the report is not followed
        rm -rf r
        cp -r good r
        ln -s "$link" r/report.html
        in_time 10 report r
        expect 4 "r/report.html: cannot create: it is a symbolic link"
    done
    cp -r good many
    for i in $(seq 300); do echo "x$i = 1"; done >>many/config.ini
    in_time 10 report many -o r.html
    expect 3 "many/config.ini:258: more than 256 options"
    rm -rf r
    cp -r good r
    rm r/metrics.jsonl
    mkfifo r/metrics.jsonl
    in_time 10 report r -o r.html
    expect 2 "no run directory here or below"
}

@test "report: text from a run directory is escaped" {
    local bad='</script><img src=x onerror=alert(1)>"'"'"'<svg onload=1>'
    try train --model softmax --data 'synth:digits?examples=200' --steps 5 --quiet --out "one"
    expect 0
    printf 'augment = %s\n%s = 1\nx; touch pwned # = 2\n' "$bad" "$bad" >>one/config.ini
    sed -i '1s/.*/; Run it again: true; touch pwned/' one/config.ini
    python3 - "$bad" <<'END'
import json, sys
bad = sys.argv[1]
def spoil(x):
    if isinstance(x, dict):
        return {(k if k in known else bad): spoil(v) for k, v in x.items()}
    return [spoil(v) for v in x] if isinstance(x, list) else bad if isinstance(x, str) else x
s = json.load(open("one/summary.json"))
known = set()
def names(x):
    if isinstance(x, dict):
        known.update(x)
        for v in x.values(): names(v)
    elif isinstance(x, list):
        for v in x: names(v)
names(s)
known.discard("pull")
s = spoil(s)
s["state"] = "failed"
s["advice"] = ""
s["processes"] = 2 * s["processes"]
json.dump(s, open("one/summary.json", "w"))
lines = [json.loads(l) for l in open("one/worker-0/resources.jsonl")]
for l in lines:
    for k in ("host", "role", "what"):
        if k in l: l[k] = bad
lines.append({"kind": "alert", "what": bad[:15], "begin": 0, "seconds": 1, "level": 1})
open("one/worker-0/resources.jsonl", "w").write("".join(json.dumps(l) + "\n" for l in lines))
END
    cp -r one "$TEST_DIR/<img src=x>"
    in_time 20 report one '<img src=x>' -o r.html --svg svg --title "$bad"
    expect 0
    # the script of the report, and no tag or attribute from the run directory
    [ "$(grep -o '<script' r.html | wc -l)" -eq 1 ]
    [ "$(grep -o '</script' r.html | wc -l)" -eq 1 ]
    if grep -n -e '<img' -e '<svg on' -e '"'"'<svg" r.html svg/*; then return 1; fi
    # commands offered for copying do not contain it
    if grep -o '[^<>]*touch pwned[^<>]*' r.html | grep -vx 'x; touch pwned #'; then return 1; fi
    sed -i 's/"verdict": *"[^,]*",/"verdict": "",/' one/summary.json # an empty sentence
    in_time 20 report one -o r.html
    expect 0
    if grep -n -e '<img' -e '<svg on' r.html; then return 1; fi
}

@test "messages: control characters from a file do not reach the terminal" {
    run_with "$(printf 'batch = \033]0;x\007\302\2332J')"
    in_time 20 train --out r --resume
    expect 2 "r/config.ini:4: --batch ?]0;x?"
    if grep -q "$(printf '\033')" err || grep -q "$(printf '\302\233')" err; then return 1; fi
}

@test "messages and tables on a terminal: characters that change the direction of text are replaced" {
    local name
    name=$(printf 'a\342\200\256b\342\201\246\330\234\033\342\202\254') # U+202E U+2066 U+061C ESC, and a euro sign
    in_time 20 train --model logreg --data "$name"
    expect 3 "a???b??????€: no such file"
    command -v script >/dev/null || skip "no script"
    echo "1 1:1" >"$name"
    script -qec "'$YOKE' data inspect 'libsvm:$name'" typescript >/dev/null
    grep -qF "libsvm:a???b??????€" typescript
    in_time 20 data inspect "libsvm:$name" # not a terminal
    expect 0
    grep -qF "libsvm:$name" out
}
