#!/usr/bin/env bats
# libyoke as its users see it: exported symbols, installation, the example, and jobs of several processes.

setup() {
    load cli
    load cluster
    cluster_setup
    BUILD=$(dirname "$YOKE")
    SOURCE=$BATS_TEST_DIRNAME/..
}

teardown() { cluster_teardown; }

sanitized() { grep -q '^YK_SANITIZE:STRING=.' "$BUILD/CMakeCache.txt"; }

# NAME: compiles NAME.c with the installed library.
compile() {
    # shellcheck disable=SC2046  # several words
    "${CC:-cc}" -Wall -Wextra -Werror "$1.c" -o "$1" \
        $(PKG_CONFIG_PATH=$(echo prefix/lib*/pkgconfig prefix/lib/*/pkgconfig | tr ' ' ':') pkg-config --cflags --libs yoke) \
        "-Wl,-rpath,$(dirname "$(find "$PWD/prefix" -name libyoke.so)")" -lm
}

@test "libyoke.so has a soname and exports only yoke_*" {
    readelf -d "$BUILD/libyoke.so" | grep -q 'SONAME.*\[libyoke\.so\.0\]'
    nm -D --defined-only "$BUILD/libyoke.so" | awk '{ print $NF }' | sort >exported
    [ -z "$(grep -v '^yoke_' exported)" ]
    # the library exports exactly the functions that the header declares
    grep -o '\byoke_[a-z_]*(' "$SOURCE/include/yoke.h" | tr -d '(' | sort -u >named
    grep '^YOKE_API' -A1 "$SOURCE/include/yoke.h" | grep -o '\byoke_[a-z_]*(' | tr -d '(' | sort -u >declared
    diff exported declared
    [ "$(comm -13 declared named)" = "" ]
}

@test "libyoke.so can be loaded by dlopen: it needs no static TLS" {
    sanitized && skip "the sanitizer needs some"
    [ -z "$(readelf -dW "$BUILD/libyoke.so" | grep STATIC_TLS)" ]
    [ -z "$(readelf -rW "$BUILD/libyoke.so" | grep -E 'TPREL|TPOFF')" ]
}

@test "the library does not print, exit or set signal handlers" {
    # imported symbols; prctl() only reads the length of SVE vectors
    nm -D --undefined-only "$BUILD/libyoke.so" | awk '{ print $NF }' | sed 's/@.*//' | sort -u >imported
    [ -z "$(grep -rn PR_SET_PDEATHSIG "$SOURCE"/src --include=*.c --exclude-dir=cli)" ]
    sanitized || [ -z "$(grep -xE 'exit|_exit|_Exit|quick_exit|signal|sigaction|puts|putchar|printf|__printf_chk|perror|stderr|stdout|argp_parse' imported)" ]
}

@test "the commands eval and predict use models only through yoke.h" {
    grep '^#include' "$SOURCE/src/cli/cmd_eval.c" | grep -E '"(lib|train|store|model|optim)/' && return 1
    grep -q '<yoke.h>' "$SOURCE/src/cli/cli.h"
}

@test "cmake --install; the example builds with pkg-config, a project with find_package" {
    cmake --install "$BUILD" --prefix "$PWD/prefix" >install.log
    [ -x prefix/bin/yoke ]
    prefix/bin/yoke version | grep -q '^yoke '
    [ -f prefix/include/yoke.h ]
    sanitized && skip "the program would have to link the sanitizer"
    cp "$SOURCE/examples/digits.c" .
    compile digits
    ./digits | tee out
    grep -q 'accuracy 1.0000' out
    [ -f digits.safetensors ]
    mkdir project
    cat >project/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.22)
project(uses LANGUAGES C)
find_package(yoke 0.2 REQUIRED)
add_executable(uses uses.c)
target_link_libraries(uses PRIVATE yoke::yoke)
END
    printf '#include <stdio.h>\n#include <yoke.h>\nint main(void) { puts(yoke_version()); return 0; }\n' >project/uses.c
    cmake -S project -B project/build -DCMAKE_PREFIX_PATH="$PWD/prefix" >cmake.log
    cmake --build project/build >>cmake.log
    [ "$(project/build/uses)" = "$("$YOKE" version | sed -n '1s/yoke \([^ ]*\) .*/\1/p')" ]
    # and from C++
    if command -v c++ >/dev/null; then
        echo '#include <yoke.h>' >plus.cc
        c++ -fsyntax-only -Wall -Wextra -Werror -Iprefix/include plus.cc
    fi
}

@test "a job of several processes runs as a child: log, metrics, cancel, errors" {
    sanitized && skip "the program would have to link the sanitizer"
    cmake --install "$BUILD" --prefix "$PWD/prefix" >install.log
    cat >job.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yoke.h>

static int notes, points, progress;

static void on_log(void *context, yoke_log_level level, const char *text)
{
    (void)context, (void)level, (void)text;
    notes++;
}

static int on_progress(void *context, const yoke_progress *p)
{
    (void)context;
    progress += p->step > 0;
    return 0;
}

static int on_metrics(void *context, const yoke_metrics *m)
{
    points += m->test_loss > 0.0;
    return *(int *)context && points >= 2;
}

int main(int argc, char **argv) /* NAME VALUE ... */
{
    yoke_options *o = yoke_options_create();
    yoke_error error;
    yoke_run *run;
    int cancel = getenv("CANCEL") != NULL;
    for (int i = 1; i + 1 < argc; i += 2)
        if (yoke_options_set(o, argv[i], argv[i + 1], &error))
            return error.status;
    yoke_training t = YOKE_TRAINING_INIT;
    t.options = o;
    t.context = &cancel;
    t.log = on_log;
    t.progress = on_progress;
    t.metrics = on_metrics;
    if (yoke_train(&t, &run, &error)) {
        printf("error %d: %s\n", error.status, error.message);
    } else {
        yoke_model *model;
        printf("ranks %.0f steps %.0f points %d notes %d interrupted %d\n", yoke_run_number(run, "ranks"),
               yoke_run_number(run, "steps"), points, notes > 0, strstr(yoke_run_summary(run), "\"interrupted\":true") != NULL);
        if (yoke_run_model(run, &model, &error))
            printf("no model: %s\n", error.message);
        else
            printf("model %s in %s\n", yoke_model_name(model), yoke_run_directory(run));
        yoke_model_free(model);
    }
    yoke_run_free(run);
    yoke_options_free(o);
    return error.status;
}
END
    compile job
    ./job model softmax data 'synth:digits?examples=2000' launch 2 epochs 3 out run | tee out
    grep -qx 'ranks 2 steps 48 points 4 notes 1 interrupted 0' out
    grep -qx 'model softmax in run' out
    # the same bits as in one process
    YOKE_PROGRAM=$YOKE ./job model softmax data 'synth:digits?examples=2000' launch 2 epochs 3 out again
    cmp run/checkpoints/step-48/model.safetensors again/checkpoints/step-48/model.safetensors
    CANCEL=1 ./job model softmax data 'synth:digits?examples=2000' launch 2 epochs 100000 out long | tee out
    grep -q 'interrupted 1' out
    status=0
    ./job model softmax data libsvm:/nowhere launch 2 out bad >out || status=$?
    [ "$status" -eq 3 ]
    grep -q '^error 3: .*/nowhere' out
    status=0
    YOKE_PROGRAM=/nowhere ./job model softmax data synth:digits launch 2 >out || status=$?
    [ "$status" -eq 2 ]
}

@test "a job that the library started ends when its program ends" {
    sanitized && skip "the program would have to link the sanitizer"
    cmake --install "$BUILD" --prefix "$PWD/prefix" >install.log
    cat >wait.c <<'END'
#include <yoke.h>

int main(void)
{
    yoke_options *o = yoke_options_create();
    yoke_training t = YOKE_TRAINING_INIT;
    yoke_run *run;
    yoke_options_set(o, "model", "softmax", NULL);
    yoke_options_set(o, "data", "synth:digits?examples=2000", NULL);
    yoke_options_set(o, "epochs", "1e6", NULL);
    yoke_options_set(o, "launch", "2", NULL);
    yoke_options_set(o, "out", "run", NULL);
    t.options = o;
    return yoke_train(&t, &run, NULL);
}
END
    compile wait
    ./wait &
    local pid=$!
    for _ in $(seq 200); do
        [ -s run/metrics.jsonl ] && break
        sleep 0.1
    done
    [ -s run/metrics.jsonl ]
    kill -KILL $pid
    wait $pid || true
    for _ in $(seq 200); do
        no_process_is_left >/dev/null 2>&1 && break
        sleep 0.1
    done
    no_process_is_left
}
