/* Seeded simulation of whole jobs: the trainer runs unchanged on a simulated network, clock and disk (sim.h,
 * fs_memory.h), a seed decides what the job is and what goes wrong, and invariants are checked at the end.
 *
 *     simulate --count 1000 --first 1      # seeds 1 to 1000, on all cores; a failure prints its seed and how to replay it
 *     simulate --seed 4711 --trace         # one schedule, with every message and event
 *     simulate --count 200 --digests       # a digest of each schedule: when each thread ran, and the messages
 *
 *     schedule (simulate_plan.c)    options of the job, delays, and the faults of each attempt
 *     attempt  (simulate_run.c)     a run of the job until all processes have ended; after a failure the next one resumes
 *     checks   (simulate_check.c)   the invariants, after each attempt and at the end
 *
 *     undisturbed run         its own disk, no faults: the reference
 *     attempt 1 .. n          faults; ends with an error, or is done
 *     last attempt            no faults: must be done
 *     once more               a finished run is resumed: changes nothing
 *
 * The same seed gives the same schedule, on any machine with the same kernels (src/kern).
 */
#ifndef YK_TESTS_SIMULATE_H
#define YK_TESTS_SIMULATE_H

#include "fs_memory.h"

#include "sim.h"
#include "train/train.h"

enum {
    MAX_RANKS = 5,
    MAX_JOINERS = 2,
    MAX_PROCESSES = MAX_RANKS + MAX_JOINERS,
    MAX_ATTEMPTS = 3,
    MAX_EVENTS = 16
};

/* Data sets, by what can be checked with them. */
typedef enum {
    OWN,        /* every example has a feature of its own: its weight shows how often it was used */
    OWN_PIXELS, /* the same with images: every example has a pixel of its own */
    KEYED,      /* sparse, shared features */
    DENSE,      /* small images */
} data_kind;

#define OWN_RATE 1e-6 /* learning rate */
enum { CLASSES = 3, OWN_EXAMPLES = 48, KEYED_EXAMPLES = 40, DENSE_EXAMPLES = 36 };

typedef enum { DISK_OK, DISK_FULL, DISK_ERROR, POWER_FAILURE } disk_fault;

typedef struct {
    yk_sim_event event
        [MAX_EVENTS]; /* times are those of the undisturbed run, from 0 to 1; from 1 to 2: of its training */
    int events;
    int joiners; /* workers that join the job, numbered after its ranks */
    double join_at[MAX_JOINERS];
    disk_fault disk;
    double disk_at; /* the change that fails, or the capacity, as a fraction of the undisturbed run */
    int disk_error; /* DISK_ERROR: errno */
    bool
        no_abort; /* a rank that fails does not end the others, as if it were on a host that cannot be reached */
    double min_delay, max_delay;
    uint64_t seed; /* of the network */
} attempt_plan;

typedef struct {
    uint64_t seed;
    int ranks;
    data_kind data;
    char spec[256]; /* of the data */
    char options[1024];
    yk_plan plan;
    uint64_t epochs, examples; /* examples: in the data set */
    bool streamed;
    bool validates; /* there is validation data, and the run may end early */
    bool uses;      /* the weights show how often each example was used */
    bool joinable;
    bool bits; /* the weights are those of the undisturbed run, bit by bit */
    int attempts;
    attempt_plan attempt[MAX_ATTEMPTS];
    double min_delay, max_delay; /* of the undisturbed run and of the last attempt */
    size_t eager;
} schedule;

/* A worker thread as server 0 sees it. */
typedef struct {
    uint64_t clock;   /* steps whose gradient it has sent */
    bool known, idle; /* it has sent a gradient; it had no examples at some time: no worker waits for it */
} worker_clock;

enum { MAX_THREADS = 4 };

typedef struct {
    yk_sim_rank rank[MAX_PROCESSES];
    yk_result result[MAX_PROCESSES];
    yk_status status[MAX_PROCESSES]; /* of yk_train() */
    char error[MAX_PROCESSES][512];
    bool returned[MAX_PROCESSES]; /* yk_train() has returned */
    bool gave_up[MAX_PROCESSES];  /* it ended itself during start-up */
    yk_sim_result sim;
    double training; /* when training began */
    worker_clock worker[MAX_PROCESSES][MAX_THREADS];
    uint64_t too_far;      /* how many steps a worker was ahead of another one, beyond the staleness bound */
    uint64_t changes;      /* of the disk */
    uint64_t saved;        /* the newest checkpoint that must survive; UINT64_MAX: none */
    uint64_t saved_before; /* the one before it */
} attempt;

/* simulate_plan.c */
yk_status schedule_config(const schedule *s, yk_config *out);
void schedule_make(uint64_t seed, const char *data_dir, schedule *out);
void schedule_print(const schedule *s, FILE *out);
void attempt_print(const attempt_plan *p, FILE *out);
yk_status write_data(const char *dir);
extern const char run_dir[], other_file[]; /* other_file: on the same disk, not a part of the run */

/* simulate_run.c: `plan` NULL: without faults. */
void attempt_run(const schedule *s, const attempt_plan *plan, yk_fs_memory *disk, bool resume, bool trace,
                 attempt *out);
void attempt_free(attempt *a);
bool attempt_done(const attempt *a); /* the chief was successful */
/* A copy of a file, with a zero at its end; NULL: there is none. */
unsigned char *read_disk(const yk_fs_memory *disk, const char *path, size_t *size_out);

/* simulate_check.c: NULL, or what is wrong. `why` is a buffer of the caller. */
typedef struct {
    char text[1024];
} complaint;

/* Files of a run that a second resume must not change. */
typedef struct {
    unsigned char *data[3];
    size_t size[3];
} kept_files;

const char *check_ends(const schedule *s, const attempt_plan *plan, const attempt *a, complaint *why);
const char *check_done(const schedule *s, const attempt_plan *plan, const attempt *a,
                       const attempt *undisturbed, yk_fs_memory *disk, yk_fs_memory *reference,
                       complaint *why);
const char *check_disk(yk_fs_memory *disk, const attempt *a, complaint *why); /* after a failure */
void keep_files(yk_fs_memory *disk, const attempt *a, kept_files *out);
const char *check_unchanged(const kept_files *before, const kept_files *after, complaint *why);
void kept_files_free(kept_files *k);
uint64_t digest_of_files(const yk_fs_memory *disk); /* the same for the same seed */

#endif
