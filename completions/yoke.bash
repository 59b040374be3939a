#!/bin/bash
# Completion of yoke for bash. The options are those that `yoke COMMAND --help` lists.
_yoke() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "train eval predict inspect sweep report data version help" -- "$current")
        return
    fi
    if [[ $command == data ]]; then
        if ((COMP_CWORD == 2)); then
            mapfile -t COMPREPLY < <(compgen -W "gen convert inspect" -- "$current")
            return
        fi
        command="data ${COMP_WORDS[2]}"
    fi
    local words=
    case $previous in
    --model) words="softmax logreg linear fm:8 wide-deep deepfm lenet5 lenet-caffe alexnet" ;;
    --mode) words="sync async" ;;
    --optimizer) words="sgd momentum nesterov adagrad rowwise-adagrad ftrl adam adamw" ;;
    --lr-schedule) words="constant step inverse cosine one-cycle plateau" ;;
    --stream) words="auto always never" ;;
    --split) words="train test" ;;
    --loss) words="logistic softmax squared hinge" ;;
    --data | --test) words="idx: tfrecord: csv: parquet: libsvm: libffm: vw: criteo: cifar10: images: cache: synth:digits synth:ctr synth:images" ;;
    esac
    if [[ -n $words ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    elif [[ $current == -* ]]; then
        # shellcheck disable=SC2086  # "data gen" is two words
        mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" $command --help 2>/dev/null |
            grep -oE '^ +(-[a-z], )?--[a-z0-9-]+' | grep -oE -- '--[a-z0-9-]+')" -- "$current")
    fi
}
complete -o default -o bashdefault -F _yoke yoke
