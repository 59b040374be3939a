#!/bin/bash
# Completion of yoke for bash. Values are those of `yoke complete WORD`, options those that `yoke COMMAND --help` lists.
_yoke() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words=
    [[ $command == data ]] && command="data ${COMP_WORDS[2]}"
    ((COMP_CWORD == 1)) && previous=yoke
    [[ $previous == -* || $COMP_CWORD -le 2 ]] && words=$("${COMP_WORDS[0]}" complete "$previous" 2>/dev/null)
    if [[ -z $words && $current == -* ]]; then
        # shellcheck disable=SC2086  # "data gen" is two words
        words=$("${COMP_WORDS[0]}" $command --help 2>/dev/null |
            grep -oE '^ {1,8}(-[a-z], )?--[a-z0-9-]+' | grep -oE -- '--[a-z0-9-]+')
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -o bashdefault -F _yoke yoke
