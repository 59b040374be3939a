#!/bin/sh
# A sweep of yoke under Slurm, on one host:
#
#     sbatch --cpus-per-task=8 deploy/slurm-sweep.sh experiments/softmax.ini
#
# The arguments are those of yoke sweep. A sweep that is repeated continues with the runs that are missing.
#SBATCH --job-name=yoke-sweep
#SBATCH --time=04:00:00
#SBATCH --ntasks=1
#SBATCH --requeue
#SBATCH --open-mode=append
set -eu
exec "${YOKE:-yoke}" sweep "$@"
