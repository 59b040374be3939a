#!/bin/sh
# A sweep of yoke under Slurm, on one host:
#
#     sbatch --cpus-per-task=8 deploy/slurm-sweep.sh experiments/softmax.ini
#
# The arguments are those of yoke sweep. Two minutes before the time limit, the sweep ends, and the job is queued again; it then
# continues with the runs that are missing. YOKE names the program.
#SBATCH --job-name=yoke-sweep
#SBATCH --time=04:00:00
#SBATCH --ntasks=1
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -u

again=no
# shellcheck disable=SC2317  # the trap calls it
resume() {
    again=yes
    kill -TERM "$sweep" 2>/dev/null
}
trap resume USR1

"${YOKE:-yoke}" sweep "$@" &
sweep=$!
wait "$sweep"
status=$?
if [ $again = yes ]; then
    wait "$sweep"
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
