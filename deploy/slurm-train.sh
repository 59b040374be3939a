#!/bin/sh
# A job of yoke under Slurm, one process per task:
#
#     sbatch --nodes=2 --ntasks-per-node=2 --cpus-per-task=8 deploy/slurm-train.sh --model logreg --data 'tfrecord:day*' --mode async
#
# The arguments are those of yoke train. The run directory is runs/slurm-JOB unless --out is among them. Two minutes before the
# time limit, yoke saves a checkpoint and ends, and the job is queued again; it then continues from the checkpoint.
# YOKE is the program. To use MPI instead of TCP, set MPI to the type for srun --mpi (pmix for Open MPI, pmi2 for MPICH). Without MPI,
# the processes share a token in the run directory, which all hosts must be able to read.
#SBATCH --job-name=yoke
#SBATCH --time=01:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -u

again=no
# shellcheck disable=SC2317  # the trap calls it
resume() {
    again=yes
    kill -TERM "$training" 2>/dev/null
}
trap resume USR1

case " $* " in
*" --out"*) ;;
*) set -- "$@" --out "runs/slurm-$SLURM_JOB_ID" ;;
esac
case " $* " in
*" --workers"*) ;;
*) set -- "$@" --workers "${SLURM_CPUS_PER_TASK:-1}" ;;
esac

# --resume starts the run if there is none yet
srun --mpi="${MPI:-none}" "${YOKE:-yoke}" train "$@" --resume &
training=$!
wait "$training"
status=$?
if [ $again = yes ]; then
    wait "$training"
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
