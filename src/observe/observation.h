/* The observations of a run: plain data, a part of its results and of summary.json. Sent between ranks as bytes. */
#ifndef YK_OBSERVE_OBSERVATION_H
#define YK_OBSERVE_OBSERVATION_H

#include "comm/comm.h"
#include "observe/verdict.h"
#include "observe/warnings.h"

/* Hosts are numbered in the order of their ranks. Traffic to further hosts is not counted by host. */
enum { YK_MAX_HOSTS = 32 };

/* A process of the run, as it measured itself. */
typedef struct {
    int rank, workers; /* rank: above those of the job if the process joined; workers: 0 for a server */
    bool joined, lost;
    char role[16]; /* "worker", or "server" if it does not train; before 0.2.0, "chief" for rank 0 */
    yk_usage usage;
    yk_phases_sample phases;  /* seconds: means over its workers; counts: sums */
    yk_phases_sample serving; /* of the thread that serves a shard beside its workers; zeros: none */
    double forward, backward; /* seconds of both passes, in the timed steps; 0: not known */
    /* measured before the first step; 0: not known */
    double link_rate, round_trip; /* to the chief */
    double peer_rate;             /* to a host other than its own and that of the chief */
    uint64_t probe_bytes;         /* sent and received to measure them */
    uint64_t bytes_sent, bytes_received;
    yk_sample sample; /* the latest during training; seconds are 0: none yet */
    /* of a job: */
    yk_traffic traffic[YK_PURPOSES];
    int host;                            /* its number; -1: not known, as of a worker that joined */
    uint64_t sent_to[YK_MAX_HOSTS];      /* bytes of messages to the ranks on each host */
    uint64_t values_sent[YK_MAX_GROUPS]; /* comm/comm.h */
    double cpu_seconds;
} yk_process;

/* nprocesses is 0 if the run ended before the first measurement; measured is NULL if it was not concluded. */
typedef struct {
    yk_verdict verdict;
    int nprocesses, nmeasured, nservers, nwarnings;
    bool job; /* several processes: their traffic is known */
    /* [nprocesses] the ranks in their order, then workers that joined; owned, like the next two */
    yk_process *process;
    yk_process_evidence *measured; /* [nmeasured] the workers; then [nservers] */
    yk_warning *warning;
} yk_observation;

void yk_observation_fini(yk_observation *w);

/* Writes the keys of summary.json from "verdict" to "warnings". */
void yk_observation_json(yk_json *j, const yk_observation *w);

/* Whether process i is the first of the list on its host: measurements of a host count once. */
bool yk__first_of_host(const yk_process *p, int i);

/* "phases" of a process, and "serving" if one of its threads serves a shard. */
void yk__process_phases_json(yk_json *j, const yk_process *p, bool server);

/* Bytes and messages by purpose. */
void yk_traffic_json(yk_json *j, const char *name, const yk_traffic *traffic);

#endif
