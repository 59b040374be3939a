"""The rows of ./dev inject: problems that yoke must identify, and healthy runs that it must not complain about.

A row is a command and what is expected of its summary. `kinds`: bottlenecks that are right; `words`: what the verdict must
say; `warning`: the kind of a warning that must be there, or several (a|b). A healthy run has no warning, and one of `kinds` as its bottleneck.
"""
import os
from dataclasses import dataclass, field

CORES = len(os.sched_getaffinity(0))
SMALL = "synth:digits?examples=20000"
TINY = "synth:digits?examples=2000&test=500"
CLICKS = "synth:ctr?features=200000&examples=200000"


@dataclass
class Row:
    name: str
    command: str
    problem: bool = True
    kinds: tuple = ()
    words: str = ""
    warning: str = ""
    fails: str = ""  # the run must fail with these words
    env: dict = field(default_factory=dict)
    stop: tuple = ()  # (rank, seconds stopped, seconds running): SIGSTOP and SIGCONT in turns
    limit: tuple = ()  # (rank, cores): the CPU limit of its cgroup; needs root
    beside: tuple = ()  # (rank, nice): pinned to one core, with this nice value, beside another program
    pipe: tuple = ()  # (file, bytes per second): standard input
    seconds: float = 0.0  # ends the run with SIGINT after this time
    spin: int = 0  # other programs that use a core each
    cores: int = 1  # that the row needs
    lan: tuple = ()  # tc arguments of the links of three hosts; needs root
    why: str = ""


def bottlenecks():
    two = min(CORES, 2)
    yield Row("reader of 300 kB/s", "--model logreg --data libsvm:clicks.libsvm --test none --stream always --epochs 2",
              kinds=("input pipeline",), env={"YK_SLOW_READ": "300000"})
    yield Row("data from a slow pipe", "--model logreg --data libsvm:- --features 5001 --test none",
              kinds=("input pipeline",), pipe=("clicks.libsvm", 400000))
    yield Row("tiny synchronous steps", f"--model logreg --data {CLICKS} --test none --workers {two} --batch 4 --epochs 6",
              kinds=("synchronization",), words="--batch", cores=2)
    yield Row("slow thread", f"--model softmax --data {SMALL} --workers 2 --batch 50 --steps 100 --test none",
              kinds=("straggler",), words="worker 1", env={"YK_SLOW_WORKER": "1:20ms"})
    yield Row("slow rank, replicas", f"--model softmax --data {SMALL} --launch 2 --batch 50 --steps 150 --test none",
              kinds=("straggler",), words="rank 1", env={"YK_SLOW_WORKER": "1:15ms"})
    yield Row("slow rank, servers", f"--model softmax --data {SMALL} --launch 3 --servers 1 --batch 50 --steps 150 --test none",
              kinds=("straggler",), words="rank 2", env={"YK_SLOW_WORKER": "1:15ms"})
    yield Row("slow rank, asynchronous",
              f"--model softmax --data {SMALL} --launch 3 --servers 1 --mode async --batch 50 --epochs 3 --test none",
              kinds=("straggler",), words="rank 2", env={"YK_SLOW_WORKER": "1:15ms"})
    yield Row("rank stopped 70 %, replicas", f"--model softmax --data {SMALL} --launch 2 --batch 20 --epochs 30 --test none",
              kinds=("straggler",), words="rank 1", stop=(1, 0.7, 0.3))
    yield Row("rank stopped 70 %, servers", f"--model softmax --data {SMALL} --launch 3 --servers 1 --batch 20 --epochs 1000000 --test none",
              kinds=("straggler",), words="rank 2", stop=(2, 0.07, 0.03), seconds=2.5)
    yield Row("rank stopped 70 %, asynchronous",
              f"--model softmax --data {SMALL} --launch 3 --servers 1 --mode async --batch 20 --epochs 4 --test none",
              kinds=("straggler",), words="rank 2", stop=(2, 0.35, 0.15))
    yield Row("server stopped 70 %", f"--model softmax --data {SMALL} --launch 2 --servers 1 --mode async --batch 20 --epochs 3 --test none",
              kinds=("straggler",), words="rank 0", stop=(0, 0.35, 0.15))
    yield Row("rank with 0.3 cores, replicas", f"--model softmax --data {SMALL} --launch 2 --batch 50 --epochs 160 --test none",
              kinds=("straggler",), words="rank 1", limit=(1, 0.3))
    yield Row("rank with half a core, replicas", f"--model lenet5 --data {SMALL} --launch 2 --batch 32 --epochs 1000000 --test none",
              kinds=("straggler",), words="rank 1", limit=(1, 0.5), seconds=3.0)
    yield Row("rank beside another program on its core", f"--model lenet5 --data {SMALL} --launch 3 --batch 32 --epochs 1000000 --test none",
              kinds=("straggler",), words="rank 1", beside=(1, 0), seconds=3.0, cores=4)
    yield Row("rank at nice 19 beside another program", f"--model softmax --data {SMALL} --launch 3 --batch 100 --epochs 1000000 --test none",
              kinds=("straggler",), words="rank 2", beside=(2, 19), seconds=3.0, cores=4)
    yield Row("server beside another program on its core",
              f"--model softmax --data {SMALL} --launch 3 --servers 1 --mode async --batch 20 --epochs 1000000 --test none",
              kinds=("straggler", "parameter server"), words="rank 0", beside=(0, 0), seconds=3.0, cores=4)
    yield Row("server with 0.3 cores", f"--model softmax --data {SMALL} --launch 2 --servers 1 --mode async --batch 20 --epochs 10 --test none",
              kinds=("straggler",), words="rank 0", limit=(0, 0.3))
    yield Row("saturated server", f"--model softmax --data {SMALL} --launch 9 --servers 1 --mode async --batch 5 --epochs 12 --test none",
              kinds=("parameter server",), words="--servers", cores=10)
    yield Row("saturated server, larger messages",
              "--model softmax --data synth:images?examples=10000 --launch 6 --servers 1 --mode async --batch 1 --epochs 3 --test none",
              kinds=("parameter server",), words="--servers", cores=7)
    yield Row("saturated server, factorization machine",
              f"--model fm:8 --data {CLICKS} --launch 9 --servers 1 --staleness 4 --batch 20 --epochs 1000000 --test none",
              kinds=("parameter server",), words="--servers", cores=10, seconds=2.5)
    yield Row("saturated server, deepfm",
              f"--model deepfm:8 --data {CLICKS} --launch 9 --servers 1 --mode async --batch 20 --epochs 1000000 --test none",
              kinds=("parameter server",), words="--servers", cores=10, seconds=2.5)
    yield Row("other programs on all cores", f"--model softmax --data {SMALL} --workers {two} --batch 100 --epochs 40 --test none",
              kinds=("cpu",), words="other programs use", warning="busy_host", spin=2)
    yield Row("twice as many threads as cores",
              f"--model softmax --data {SMALL} --workers {2 * CORES} --batch 50 --epochs 1000000 --test none",
              kinds=("cpu",), words="threads share", seconds=2.0)
    yield Row("twice as many threads as cores, async",
              f"--model logreg --data {CLICKS} --workers {2 * CORES} --mode async --batch 50 --epochs {20 * CORES} --test none",
              kinds=("cpu",), words="threads share")
    yield Row("twice as many processes as cores",
              f"--model softmax --data {SMALL} --launch {2 * CORES} --batch 20 --epochs 12 --test none",
              kinds=("cpu",), words="processes share")
    yield Row("a checkpoint after every step", f"--model lenet5 --data {TINY} --batch 10 --checkpoint-every 1 --epochs 1 --test none --out run",
              kinds=("disk",), words="checkpoints")
    yield Row("an evaluation after every step", f"--model softmax --data {SMALL} --batch 20 --eval-every 1 --steps 500",
              kinds=("cpu",), words="evaluation takes")
    yield Row("contention, bounded staleness",
              f"--model logreg --data {CLICKS} --workers 2 --staleness 4 --batch 1 --epochs 8 --test none",
              kinds=("contention",), words="--staleness", cores=2)
    yield Row("contention, 16 threads with a staleness bound",
              f"--model logreg --data {CLICKS} --workers 16 --staleness 4 --batch 1 --epochs 1000000 --test none",
              kinds=("contention",), words="--staleness", cores=16, seconds=2.0)
    yield Row("one link of three at 50 Mbit/s", "--model lenet5 --data synth:digits?examples=1200&test=100 --batch 20 --epochs 2",
              kinds=("network bandwidth",), words="host3", lan=("rate 1gbit", "rate 1gbit", "rate 50mbit"))
    yield Row("the chief's link at 50 Mbit/s", "--model lenet5 --data synth:digits?examples=1200&test=100 --batch 20 --epochs 2",
              kinds=("network bandwidth",), words="host1", lan=("rate 50mbit", "rate 1gbit", "rate 1gbit"))
    yield Row("all links at 50 Mbit/s", "--model lenet5 --data synth:digits?examples=1200&test=100 --batch 20 --epochs 2",
              kinds=("network bandwidth",), words="MB/s", lan=("rate 50mbit",) * 3)
    yield Row("one link at 20 Mbit/s, servers", "--model lenet5 --data synth:digits?examples=1200&test=100 --batch 20 --epochs 1 --servers 1",
              kinds=("network bandwidth",), words="host2", lan=("rate 1gbit", "rate 20mbit", "rate 1gbit"))
    many = "--model 'dense 256, relu, dense 10' --data synth:digits?examples=6000&test=100 --batch 20 --epochs 1000000"
    yield Row("busy hosts at 1 Gbit/s", many, kinds=("cpu",), words="other programs use", warning="busy_host", spin=1, seconds=15.0,
              lan=("rate 1gbit",) * 3)
    # the link limits this job: without its limit, it makes 2.8 times as many steps; without the other programs, 1.1 times as many
    yield Row("busy hosts, one link at 100 Mbit/s", many, kinds=("network bandwidth",), words="host3 carried", warning="busy_host", spin=1,
              seconds=15.0, lan=("rate 1gbit", "rate 1gbit", "rate 100mbit"))
    yield Row("a round trip of 20 ms", "--model softmax --data synth:digits?examples=2000 --batch 20 --epochs 2 --test none",
              kinds=("network latency",), words="round trips", lan=("delay 10ms",) * 3)


def mistakes():
    yield Row("learning rate 1e-6", f"--model softmax --data {SMALL} --lr 1e-6 --epochs 3", warning="learning_rate_too_small")
    yield Row("learning rate 1e-6, clicks", f"--model logreg --data {CLICKS} --lr 1e-6 --epochs 2", warning="learning_rate_too_small")
    yield Row("learning rate 1e-7, network", f"--model lenet5 --data {TINY} --lr 1e-7 --epochs 4", warning="learning_rate_too_small")
    yield Row("learning rate 20", f"--model softmax --data {SMALL} --lr 20 --batch 10 --epochs 3", fails="training diverged")
    yield Row("learning rate 100, network", f"--model lenet5 --data {TINY} --lr 100 --epochs 2", fails="diverged")
    yield Row("300 examples, 200 epochs", "--model softmax --data synth:digits?examples=300 --lr 0.5 --epochs 200", warning="overfitting")
    yield Row("only one class", "--model logreg --data libsvm:one.libsvm --test none --epochs 3", warning="one_class")
    yield Row("equal features", "--model logreg --data libsvm:constant.libsvm --test none --epochs 3", warning="constant_features")
    yield Row("test labels reversed", "--model logreg --data libsvm:large.libsvm --test libsvm:reversed.libsvm --epochs 3",
              warning="worse_than_chance")
    yield Row("labels shuffled", "--model logreg --data libsvm:shuffled.libsvm --test libsvm:held-out.libsvm --epochs 3",
              warning="majority_accuracy")
    yield Row("learning rate 3, factorization machine", f"--model fm:8 --data {CLICKS} --lr 3 --epochs 2", fails="training diverged")
    yield Row("batch larger than the data", "--model softmax --data synth:digits?examples=400 --workers 2 --batch 256 --epochs 5",
              warning="batch_too_large")
    yield Row("test set = training set", "--model logreg --data libsvm:clicks.libsvm --test libsvm:clicks.libsvm --epochs 3",
              warning="test_in_training")
    yield Row("a fifth of the test set is in the training set",
              "--model logreg --data libsvm:clicks.libsvm --test libsvm:mixed.libsvm --epochs 3", warning="test_in_training")
    yield Row("one column is the label", "--model logreg --data libsvm:leak.libsvm --test none --epochs 3", warning="label_leak")
    yield Row("4000 keys in 512 columns", "--model logreg --data libsvm:clicks.libsvm --hash-bits 9 --test none --epochs 3",
              warning="hash_collisions")
    yield Row("asynchronous, learning rate too large",
              "--model softmax --data synth:digits?examples=20000&test=500 --workers 2 --mode async --batch 1 --lr 1 --eval-every 500 --steps 20000", fails="fewer workers")
    yield Row("labels shuffled, few features", "--model logreg --data csv:shuffled.csv --test csv:test.csv --epochs 10", warning="majority_accuracy")
    yield Row("labels counted from 1", "--model softmax --data csv:from-1.csv --test csv:from-1.csv --epochs 10", warning="unused_class")
    yield Row("test labels counted from 1", "--model softmax --data csv:digits.csv --test csv:from-1.csv --epochs 10", warning="worse_than_chance")
    yield Row("labels 1 and 2", "--model logreg --data csv:one-or-two.csv --test none", fails="labels up to 2")
    yield Row("wrong label column", "--model logreg --data csv:train.csv?label=x1 --test none", fails="label= chooses another column")
    yield Row("a rare class in the training set only", "--model logreg --data csv:rare.csv --test csv:test.csv --epochs 10", warning="label_shift")
    yield Row("features up to 1e6", "--model logreg --data csv:large.csv --test none --epochs 10", fails="scale the features")
    yield Row("features up to 1e6, learning rate 1e-13", "--model logreg --data csv:large.csv --test none --epochs 10 --lr 1e-13",
              warning="unscaled_features")
    yield Row("learning rate 1000", "--model logreg --data csv:train.csv --test csv:test.csv --lr 1000 --epochs 10", fails="training diverged")
    yield Row("learning rate 1e-4, csv", "--model logreg --data csv:train.csv --test csv:test.csv --lr 1e-4 --epochs 10",
              warning="learning_rate_too_small")
    yield Row("learning rate 1e-4, network", f"--model lenet5 --data {TINY} --lr 1e-4 --epochs 3", warning="learning_rate_too_small")
    yield Row("momentum, learning rate 0.5, asynchronous",
              f"--model softmax --data synth:digits?examples=6000 --workers 2 --mode async --optimizer momentum --lr 0.5 --batch 10 --epochs 5 --no-stop-on-divergence",
              warning="loss_rose")
    yield Row("learning rate 5, relu network", "--model 'dense 64, relu, dense 10' --data synth:digits?examples=6000 --lr 5 --epochs 3",
              warning="loss_rose")
    yield Row("batch larger than the data, one worker", "--model logreg --data csv:train.csv --test csv:test.csv --batch 10000 --epochs 60",
              warning="batch_too_large")
    yield Row("bad records", "--model logreg --data libsvm:bad.libsvm --skip-bad 10 --test none --epochs 3", warning="bad_records")


def healthy():
    cpu, job = ("cpu", "none"), ("cpu", "none", "synchronization")
    rows = [
        ("softmax", f"--model softmax --data {SMALL} --epochs 10", cpu),
        ("softmax, one epoch", f"--model softmax --data {SMALL} --epochs 1", cpu),
        ("softmax, 5 examples", "--model softmax --data synth:digits?examples=5 --batch 1 --epochs 4", cpu),
        ("softmax, 2 steps", f"--model softmax --data {SMALL} --steps 2", cpu),
        ("softmax, async", f"--model softmax --data {SMALL} --workers 2 --mode async --batch 50 --epochs 10", cpu),
        ("softmax, staleness 4", f"--model softmax --data {SMALL} --workers 2 --staleness 4 --batch 50 --epochs 10", job),
        ("softmax, large rate that recovers", f"--model softmax --data {SMALL} --lr 0.5 --batch 100 --epochs 1", cpu),
        ("softmax, batch 500", f"--model softmax --data {SMALL} --workers 2 --batch 500 --epochs 20", job),
        ("softmax, evaluated often", f"--model softmax --data {SMALL} --batch 50 --eval-every 100 --epochs 3", cpu),
        ("softmax, few tests", "--model softmax --data synth:digits?examples=3000&test=20 --epochs 10", cpu),
        ("softmax, small steps evaluated", f"--model softmax --data {SMALL} --batch 1 --eval-every 5 --steps 60", cpu),
        ("clicks", f"--model logreg --data {CLICKS} --epochs 4", cpu),
        ("clicks, async", f"--model logreg --data {CLICKS} --workers 2 --mode async --batch 100 --epochs 20", cpu),
        ("clicks, adagrad", f"--model logreg --data {CLICKS} --optimizer adagrad --epochs 2", cpu),
        ("clicks, from a file", "--model logreg --data libsvm:large.libsvm --test libsvm:held-out.libsvm --epochs 3", cpu),
        ("clicks, hashed", "--model logreg --data libsvm:large.libsvm --hash-bits 18 --test libsvm:held-out.libsvm --epochs 3", cpu),
        ("clicks, one epoch, untested", f"--model logreg --data {CLICKS} --test none --epochs 1", cpu),
        ("lenet5", f"--model lenet5 --data {TINY} --epochs 2", cpu),
        ("lenet5, threads", f"--model lenet5 --data {TINY} --threads 2 --batch 64 --epochs 2", cpu),
        ("lenet5, more threads than cores", f"--model lenet5 --data {TINY} --threads 64 --batch 64 --epochs 2", cpu),
        ("lenet5, workers", f"--model lenet5 --data {TINY} --workers 2 --batch 64 --epochs 2", cpu),
        ("lenet5, async", f"--model lenet5 --data {TINY} --workers 2 --mode async --batch 16 --epochs 2", cpu),
        ("lenet5, replicas", f"--model lenet5 --data {TINY} --launch 2 --batch 128 --epochs 2", job),
        ("lenet5, local steps", f"--model lenet5 --data {TINY} --launch 2 --batch 32 --local-steps 8 --epochs 2", job),
        ("lenet5, a server", f"--model lenet5 --data {TINY} --launch 2 --servers 1 --batch 64 --epochs 2", job),
        ("softmax, a run directory", f"--model softmax --data {SMALL} --epochs 5 --out run", cpu),
        ("csv", "--model logreg --data csv:train.csv --test csv:test.csv --epochs 10", cpu),
        ("csv, large features, scaled", "--model logreg --data csv:large.csv?scale=standard --test none --epochs 10", cpu),
        ("softmax, momentum, staleness 1000", f"--model softmax --data {SMALL} --workers 2 --staleness 1000 --optimizer momentum --epochs 5", job),
        ("softmax, l2", f"--model softmax --data {SMALL} --l2 1e-4 --epochs 5", cpu),
    ]
    for name, command, kinds in rows:
        yield Row(name, command, problem=False, kinds=kinds)
    yield Row("three hosts at 1 Gbit/s", "--model lenet5 --data synth:digits?examples=3000&test=500 --batch 20 --epochs 4",
              problem=False, kinds=job + ("network bandwidth",), cores=3, lan=("rate 1gbit",) * 3)


def all_rows():
    return [*bottlenecks(), *mistakes(), *healthy()]
