# Completion of yoke for fish. Values are those of `yoke complete WORD`, options those that `yoke COMMAND --help` lists.
function __yoke_options
    set -l words (commandline -opc)
    set -l command $words[2]
    test "$command" = data; and set command data $words[3]
    yoke $command --help 2>/dev/null | string match -rg -- '^ {1,8}(?:-[a-z], )?(--[a-z0-9-]+)'
end
function __yoke_values
    set -l words (commandline -opc)
    test (count $words) -le 2; or string match -q -- '-*' $words[-1]; or return
    test (count $words) -eq 1; and set words yoke
    yoke complete $words[-1] 2>/dev/null | string split ' '
end
complete -c yoke -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__yoke_options)'
complete -c yoke -n 'test (count (__yoke_values)) -gt 0' -a '(__yoke_values)'
complete -c yoke -n 'test (count (__yoke_values)) -gt 0; and not contains -- (commandline -opc)[-1] --data --test' -f
