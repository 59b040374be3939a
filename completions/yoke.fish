# Completion of yoke for fish. The options are those that `yoke COMMAND --help` lists.
function __yoke_options
    set -l words (commandline -opc)
    set -l command $words[2]
    test "$command" = data; and set command data $words[3]
    yoke $command --help 2>/dev/null | string match -rg -- '^ +(?:-[a-z], )?(--[a-z0-9-]+)'
end
function __yoke_after --argument-names option
    set -l words (commandline -opc)
    test "$words[-1]" = $option
end
complete -c yoke -n __fish_use_subcommand -f -a 'train eval predict inspect sweep report data version help'
complete -c yoke -n '__fish_seen_subcommand_from data; and not __fish_seen_subcommand_from gen convert inspect' -f -a 'gen convert inspect'
complete -c yoke -n 'not __fish_use_subcommand; and string match -q -- "-*" (commandline -ct)' -f -a '(__yoke_options)'
complete -c yoke -n '__yoke_after --model' -f -a 'softmax logreg linear fm:8 wide-deep deepfm lenet5 lenet-caffe alexnet'
complete -c yoke -n '__yoke_after --mode' -f -a 'sync async'
complete -c yoke -n '__yoke_after --optimizer' -f -a 'sgd momentum nesterov adagrad rowwise-adagrad ftrl adam adamw'
complete -c yoke -n '__yoke_after --lr-schedule' -f -a 'constant step inverse cosine one-cycle plateau'
complete -c yoke -n '__yoke_after --stream' -f -a 'auto always never'
complete -c yoke -n '__yoke_after --split' -f -a 'train test'
complete -c yoke -n '__yoke_after --loss' -f -a 'logistic softmax squared hinge'
complete -c yoke -n '__yoke_after --data; or __yoke_after --test' -F -a 'idx: tfrecord: csv: parquet: libsvm: libffm: vw: criteo: cifar10: images: cache: synth:'
