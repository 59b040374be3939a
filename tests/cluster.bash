# Helpers for tests of jobs of several processes; needs cli.bash.
#
#     setup() { load cli; load cluster; cluster_setup; }
#     teardown() { cluster_teardown; }
#
# Every process of a test's jobs has YK_JOB=TEST_DIR in its environment. Helpers use it to find and signal processes, and to
# end them when a test fails. A test that leaves a process, or a file in TMPDIR, fails.

cluster_setup() {
    cli_setup || return 1
    export YK_JOB=$TEST_DIR OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # short, because paths of sockets are limited
    TMPDIR=$(mktemp -d /tmp/ykt.XXXXXX)
    export TMPDIR
    BACKGROUND=
    FORGIVEN= # if set, files may be left behind
}

cluster_teardown() {
    local left=0
    no_process_is_left || left=1
    end_all
    [ "$left" -ne 0 ] || no_file_is_left || left=1
    rm -rf "$TMPDIR"
    unset TMPDIR
    cli_teardown
    return $left
}

# The process ids of this test's jobs: launchers, agents, ranks, mpirun and its daemons. Not the shells of the test itself.
processes() {
    local file pid
    grep -lszx -- "YK_JOB=$YK_JOB" /proc/[0-9]*/environ 2>/dev/null | while read -r file; do
        pid=${file#/proc/}
        pid=${pid%/environ}
        case $(readlink "/proc/$pid/exe" 2>/dev/null) in
        "$YOKE"* | */orterun | */orted | */mpiexec* | */hydra* | */prte*) echo "$pid" ;;
        esac
    done
}

rank_pid() { # RANK: its process id
    local file pid
    grep -lszx -- "YK_JOB=$YK_JOB" /proc/[0-9]*/environ 2>/dev/null |
        xargs -r grep -lszx -e "YOKE_RANK=$1" -e "OMPI_COMM_WORLD_RANK=$1" -e "PMI_RANK=$1" 2>/dev/null | while read -r file; do
        pid=${file#/proc/}
        pid=${pid%/environ}
        [[ "$(readlink "/proc/$pid/exe" 2>/dev/null)" != "$YOKE"* ]] || echo "$pid"
    done | head -n 1
}

signal_rank() { # SIGNAL RANK
    local pid
    for _ in $(seq 100); do
        pid=$(rank_pid "$2")
        [ -z "$pid" ] || break
        pause 0.05
    done
    [ -n "$pid" ] || { echo "no process has rank $2"; tail -n 5 err; return 1; }
    kill "-$1" "$pid"
}

no_process_is_left() {
    local pid
    for _ in $(seq 100); do
        [ -n "$(processes)" ] || return 0
        pause 0.05
    done
    echo "left behind:"
    for pid in $(processes); do
        tr '\0' ' ' <"/proc/$pid/cmdline"
        echo
    done
    return 1
}

end_all() {
    local pid
    for pid in $(processes); do
        kill -KILL "$pid" 2>/dev/null || true
    done
    [ -z "$BACKGROUND" ] || wait "$BACKGROUND" 2>/dev/null || true
}

# Of Open MPI, too, unless a job under mpirun failed.
no_file_is_left() {
    [ -z "$FORGIVEN" ] || return 0
    [ -z "$(find "$TMPDIR" -type f -o -type s)" ] || { echo "left in TMPDIR:"; find "$TMPDIR"; return 1; }
}

# Runs the program with a timeout; the status is 124 if it hangs.
in_time() { # SECONDS ARGUMENT...
    status=0
    timeout -k 2 "$1" "$YOKE" "${@:2}" >out 2>err || status=$?
}

# The same under mpirun: options of mpirun come before the program, and ":" separates programs.
by_mpirun() { # WORD... ("yoke" is the program)
    local word words=()
    for word; do
        [ "$word" = yoke ] && word=$YOKE
        if [ "$word" = : ] && mpirun --version | grep -q 'Open MPI) 5\.0\.7'; then
            skip "the mpirun of Open MPI 5.0.7 crashes if it starts several programs"
        fi
        words+=("$word")
    done
    status=0
    timeout -k 2 60 mpirun --oversubscribe --bind-to none "${words[@]}" >out 2>err || status=$?
    [ "$status" -eq 0 ] || FORGIVEN=yes # files that mpirun leaves when a job fails are not yoke's to remove
}

# Starts the program in the background; `finish` waits for it. Restores SIGINT and SIGQUIT, which bash ignores in the background.
begin() { # ARGUMENT...
    : >out
    : >err
    env --default-signal=INT,QUIT "$YOKE" "$@" >out 2>err 3>&- 4>&- &
    BACKGROUND=$!
}

finish() { # SECONDS: timeout
    local end=$((SECONDS + $1))
    while kill -0 "$BACKGROUND" 2>/dev/null; do
        [ "$SECONDS" -le "$end" ] || { echo "still running after $1 s; stderr:"; cat err; return 1; }
        pause 0.02
    done
    status=0
    wait "$BACKGROUND" || status=$?
    BACKGROUND=
}

# Waits until the job has logged this step or a later one.
wait_for_step() { # STEP
    local end=$((SECONDS + 60))
    until awk -v n="$1" '$2 == "step" && $3 + 0 >= n { found = 1 } END { exit !found }' err; do
        kill -0 "$BACKGROUND" 2>/dev/null || { echo "the job ended before step $1:"; cat err; return 1; }
        [ "$SECONDS" -le "$end" ] || { echo "the job did not reach step $1 in time:"; cat err; return 1; }
        pause 0.02
    done
}

# Waits until the job has logged WORDS (on at least TIMES lines); fails if it ends before.
wait_for_message() { # WORDS [TIMES]
    local end=$((SECONDS + 60))
    until [ "$(grep -cF -- "$1" err)" -ge "${2:-1}" ]; do
        kill -0 "$BACKGROUND" 2>/dev/null || { echo "the job ended before it logged '$1':"; cat err; return 1; }
        [ "$SECONDS" -le "$end" ] || { echo "the job did not log '$1' in time:"; cat err; return 1; }
        pause 0.01
    done
}

# Waits until the job has logged a step since it last logged WORDS; fails if it ends before.
wait_for_step_after() { # WORDS
    local end=$((SECONDS + 60))
    until awk -v words="$1" 'index($0, words) { found = 0; seen = 1 } seen && $2 == "step" { found = 1 } END { exit !found }' err; do
        kill -0 "$BACKGROUND" 2>/dev/null || { echo "the job ended before a step after '$1':"; cat err; return 1; }
        [ "$SECONDS" -le "$end" ] || { echo "the job logged no step after '$1' in time:"; cat err; return 1; }
        pause 0.02
    done
}

# The value of a JSON field in the last line of `out`: the first one of that name, which is the job's own.
result_of() { # NAME
    tail -n 1 out | grep -o "\"$1\":[^,{}]*" | head -n 1 | sed 's/^[^:]*://'
}

# "SENT RECEIVED MESSAGES-SENT MESSAGES-RECEIVED" of a purpose (pull, push, all-reduce, control): the sum over all ranks, which
# comes before the values of each rank.
traffic() { # PURPOSE
    tail -n 1 out | grep -o "\"$1\":{\"sent\":[^{}]*" | head -n 1 | sed 's/"[a-z_-]*"://g; s/[{,]/ /g'
}

# The parameters of a run's last checkpoint, one number per line; all tensors of the file are 4-byte floats.
weights() { # RUN
    local file
    file=$(model_of "$1") && values "$file"
}

values() { # FILE: a checkpoint's model.safetensors
    local n
    n=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
    tail -c "+$((9 + n))" "$1" | od -An -v -t f4 -w4
}

model_of() { # RUN: prints the model file of its last checkpoint
    ls -d "$1"/checkpoints/step-*/DONE | sed 's/.*step-\([0-9]*\).*/\1 &/' | sort -n | tail -n 1 |
        sed 's/^[0-9]* //; s/DONE$/model.safetensors/'
}

same_bits() { # RUN RUN...: all have the same model as the first
    local first=$1 run
    shift
    for run; do
        cmp "$(model_of "$first")" "$(model_of "$run")" || return 1
    done
}

# Two runs have the same parameters up to rounding, and these are not all zero.
same_weights() { # RUN RUN
    weights "$1" >"$TEST_DIR/w1"
    weights "$2" >"$TEST_DIR/w2"
    paste "$TEST_DIR/w1" "$TEST_DIR/w2" | awk -v a="$1" -v b="$2" '
        NF != 2 { print a, "and", b, "have different sizes"; bad = 1; exit }
        { d = $1 - $2; d = d < 0 ? -d : d; m = $1 < 0 ? -$1 : $1; most = d > most ? d : most; size += m }
        END { if (bad || !NR || size == 0 || most > 1e-4) { print a, b, NR " weights, largest difference", most; exit 1 } }'
}

# Equal up to a relative error of 1e-5.
close() { # A B
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; d = d < 0 ? -d : d; m = b < 0 ? -b : b
        if (a == "" || b == "" || a == "null" || d > 1e-5 * m) { print a " is not " b; exit 1 } }'
}

does_not_say() { # PATTERN: no line of stderr matches
    if grep -e "$1" err; then
        echo "stderr must not have this line"
        return 1
    fi
}

equal() { # WHAT FOUND EXPECTED
    [ "$2" = "$3" ] || { echo "$1 is '$2', not '$3'"; tail -n 5 err; return 1; }
}

# Starts a job with a live page in the background. $one is the start of its command line, $url becomes the address of the page.
serve() { # OPTION...
    begin $one --http 0 "$@"
    wait_for_message "live page:"
    url=$(sed -n 's/.*live page: //p' err)
}

# Polls status.json until the Python expression on it, `s`, holds. The last response is in the file status.
wait_for_status() { # EXPRESSION
    python3 - "$url" "$1" <<'END' || { cat err; return 1; }
import json, sys, time, urllib.request
url, wanted = sys.argv[1:]
end = time.time() + 60
while True:
    text = urllib.request.urlopen(url + "status.json", timeout=20).read()
    s = json.loads(text)
    if eval(wanted):
        break
    if time.time() > end:
        sys.exit(f"never true: {wanted}\n{s['verdict']}\n{s['processes']}")
    time.sleep(0.1)
open("status", "wb").write(text)
END
}

# The value of a sample of /metrics, by name and labels.
metric() { # SAMPLE
    python3 - "$url" "$1" <<'END'
import sys, urllib.request
url, wanted = sys.argv[1:]
for line in urllib.request.urlopen(url + "metrics", timeout=20).read().decode().splitlines():
    if line.startswith(wanted + " "):
        print(line.split()[-1])
END
}
