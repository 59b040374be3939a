#!/usr/bin/env bats
# What cmake --install and cpack install, and completions.

load cli.bash

setup() {
    BUILD=$(dirname "$YOKE")
    ROOT=$(dirname "$BATS_TEST_DIRNAME")
    cd "$BATS_TEST_TMPDIR" || return 1
}

@test "an installation has man pages, completions, experiments and documents, and can be moved" {
    cmake --install "$BUILD" --prefix "$PWD/first" >install.log
    mv first moved
    for file in bin/yoke lib/yoke share/man/man1/yoke.1 share/man/man1/yoke-train.1 share/bash-completion/completions/yoke \
        share/zsh/site-functions/_yoke share/fish/vendor_completions.d/yoke.fish share/yoke/experiments/softmax.ini \
        share/yoke/deploy/slurm-train.sh share/doc/yoke/README.md share/doc/yoke/docs/tutorial.md share/doc/yoke/CHANGELOG.md; do
        [ -e "moved/$file" ] || { echo "no $file"; return 1; }
    done
    [ "$(ls moved/share/man/man1 | wc -l)" -eq "$(ls "$ROOT"/docs/man/*.scd | wc -l)" ]
    [ -z "$(find moved -name '*.scd')" ] && [ ! -e moved/share/doc/yoke/docs/man ] # each page is installed once, and no source
    moved/bin/yoke version >out
    grep -q '^yoke [0-9.]* (.* kernels)$' out
    grep -q '^compiler   ' out
    if ls moved/lib/yoke/yoke-mpi-*.so >/dev/null 2>&1; then
        grep -q "^MPI        .*moved/.*yoke-mpi-" out
    fi
    YK_MPI_PLUGIN=/nowhere moved/bin/yoke version | grep -q '^MPI        none'
}

@test "a Debian package has what its policy requires, and runs from another directory" {
    for program in cpack file dpkg-shlibdeps; do
        command -v $program >/dev/null || skip "$program is not installed (./dev deb installs it)"
    done
    cpack --config "$BUILD/CPackConfig.cmake" -G DEB -B "$PWD" >cpack.log 2>&1 || { cat cpack.log; return 1; }
    dpkg-deb -x yoke_*.deb root
    for file in bin/yoke lib/libyoke.so.0 share/doc/yoke/copyright share/doc/yoke/changelog.gz share/man/man1/yoke-train.1.gz \
        share/zsh/vendor-completions/_yoke; do
        [ -e "root/usr/$file" ] || { echo "no $file"; return 1; }
    done
    root/usr/bin/yoke version | grep -q '^yoke '
    dpkg-deb -f yoke_*.deb Depends | grep -q 'libc6.*libjansson4'
    ! dpkg-deb -f yoke_*.deb Depends | grep -q mpi || { echo "MPI is only suggested"; return 1; }
}

@test "bash completes commands, options and values" {
    PATH=$BUILD:$PATH
    # shellcheck source=/dev/null
    source "$ROOT/completions/yoke.bash"
    complete_words() { # WORD...
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _yoke
        echo "${COMPREPLY[*]}"
    }
    [ "$(complete_words yoke pre)" = predict ]
    [ "$(complete_words yoke train --checkp)" = --checkpoint-every ]
    [ "$(complete_words yoke data con)" = convert ]
    [[ "$(complete_words yoke data gen --)" == *--format* ]]
    [ "$(complete_words yoke train --mode a)" = async ]
    [[ "$(complete_words yoke train --data)" != *csv:* ]]
    # the program accepts what it suggests
    for option in model mode optimizer lr-schedule stream; do
        for value in $("$YOKE" complete --$option); do
            data=synth:ctr?examples=10
            [[ $value != *net* ]] || data=synth:digits?examples=10
            run "$YOKE" train --model logreg --data $data --$option $value --dry-run
            [[ $output != *"must be one of"* && $output != *unknown* ]]
        done
    done
}

@test "zsh completes commands, options and values" {
    command -v zsh >/dev/null || skip "zsh is not installed"
    PATH=$BUILD:$PATH
    # What the completion system of zsh does for a function, as far as this one needs it: the last word is completed.
    cat >complete.zsh <<'END'
compadd() {
    local name
    local -a found
    while [[ $1 == -* ]]; do
        case $1 in
        -a) name=$2; found=(${(P)name}); shift ;;
        -S) shift ;;
        esac
        shift
    done
    print -r -- ${(M)@:#$PREFIX*} ${(M)found:#$PREFIX*}
}
_files() { print files }
file=$1
shift
words=("$@") CURRENT=$# PREFIX=$words[-1]
source $file
END
    complete_words() { zsh -f complete.zsh "$ROOT/completions/_yoke" "$@"; }
    [ "$(complete_words yoke pre)" = predict ]
    [ "$(complete_words yoke train --checkp)" = --checkpoint-every ]
    [ "$(complete_words yoke data con)" = convert ]
    [ "$(complete_words yoke data gen --form)" = --format ]
    [ "$(complete_words yoke train --mode a)" = async ]
    [[ "$(complete_words yoke train --data cs)" == csv:*files ]]
}

@test "fish completes commands, options and values" {
    command -v fish >/dev/null || skip "fish is not installed"
    PATH=$BUILD:$PATH
    complete_words() { fish --no-config -c "source $ROOT/completions/yoke.fish; complete -C '$*'" 2>&1; }
    touch a-file cs-file
    [ "$(complete_words yoke pre)" = predict ]
    [ "$(complete_words yoke train --checkp)" = --checkpoint-every ]
    [ "$(complete_words yoke data con)" = convert ]
    [ "$(complete_words yoke data gen --form)" = --format ]
    [ "$(complete_words yoke train --mode a)" = async ]
    [[ "$(complete_words yoke train --data cs)" == csv:*cs-file ]]
}

@test "the versions of the program, the change log and CMake agree" {
    version=$("$YOKE" version | sed -n '1s/yoke \([^ ]*\) .*/\1/p')
    grep -q "^project(yoke VERSION $version " "$ROOT/CMakeLists.txt"
    [ "$(grep -m 1 -o '^## [0-9][0-9.]*' "$ROOT/CHANGELOG.md")" = "## $version" ]
}

@test "./dev install where one may not write suggests ~/.local" {
    [ "$(id -u)" -ne 0 ] || skip "root may write everywhere"
    mkdir -m 555 fixed
    run "$ROOT/dev" install "$PWD/fixed/yoke"
    [ "$status" -ne 0 ]
    [[ "$output" == *".local"* ]]
}
