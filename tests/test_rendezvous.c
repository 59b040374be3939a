/* How a process finds its job: the environments of all engines, and errors in them. */
#include "comm/rendezvous.h"

#include "scratch.h"
#include <sys/stat.h>

#define TOKEN      "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"
#define TOKEN_READ "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* Replaces the environment by a list such as "RANK=1 WORLD_SIZE=2". */
static void set_environment(const char *list)
{
    char text[1024], *save = NULL;
    snprintf(text, sizeof text, "%s", list);
    clearenv();
    for (char *one = strtok_r(text, " ", &save); one; one = strtok_r(NULL, " ", &save)) {
        char *value = strchr(one, '=');
        *value = '\0';
        setenv(one, value + 1, 1);
    }
}

#define OMPI                                                                                                 \
    "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE="
#define TORCH "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 MASTER_PORT=29500 LOCAL_WORLD_SIZE="
#define SLURM                                                                                                \
    "SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=1 "                  \
    "SLURM_STEP_NODELIST="

static void each_engine_is_recognized(void **state)
{
    (void)state;
    static const struct {
        const char *environment, *engine;
        int rank, size, local_rank, local_size;
        bool mpi;
        const char *master; /* "*": any name of a Unix socket */
    } want[] = {
        {"", NULL, 0, 0, 0, 0, false, ""},
        {"YOKE_RANK=2 YOKE_SIZE=4 YOKE_LOCAL_RANK=0 YOKE_LOCAL_SIZE=2 YOKE_MASTER=[::1]:77 RANK=9 "
         "WORLD_SIZE=10",
         "yoke's launcher", 2, 4, 0, 2, false, "[::1]:77"},
        {"YOKE_RANK=0 YOKE_SIZE=1 YOKE_MASTER=unix:x", "yoke's launcher", 0, 1, 0, 0, false, "unix:x"},
        {OMPI "2 RANK=0 WORLD_SIZE=9 MASTER_ADDR=x", "Open MPI's mpirun", 1, 4, 1, 2, true, ""},
        {OMPI "4 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1", "Open MPI's mpirun", 1, 4, 1, 4, true, "*"},
        {"PMIX_RANK=3", "srun --mpi=pmix", 3, 1, 0, 0, true, ""},
        {"PMIX_RANK=2 SLURM_STEP_NUM_NODES=2 " SLURM "a[1-2]", "srun --mpi=pmix", 2, 4, 1, 0, true,
         "a1:16812"},
        {"PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", "MPICH's mpirun or srun --mpi=pmi2", 1,
         2, 1, 2, true, "*"},
        {"PMI_RANK=1 PMI_SIZE=2", "MPICH's mpirun or srun --mpi=pmi2", 1, 2, 0, 0, true, ""},
        {TORCH "2 MASTER_ADDR=head", "torchrun", 3, 4, 1, 2, false, "head:29501"},
        {TORCH "2 MASTER_ADDR=fe80::1 YOKE_PORT=80", "torchrun", 3, 4, 1, 2, false, "[fe80::1]:80"},
        {TORCH "4 MASTER_ADDR=head", "torchrun", 3, 4, 1, 4, false, "*"},
        {"RANK=1 WORLD_SIZE=2 MASTER_ADDR=job-master-0 MASTER_PORT=23456", "torchrun", 1, 2, 0, 0, false,
         "job-master-0:23457"}, /* Kubeflow */
        {"RANK=0 WORLD_SIZE=1", NULL, 0, 0, 0, 0, false, ""},
        {"RANK=1", NULL, 0, 0, 0, 0, false, ""},
        {"WORLD_SIZE=1", NULL, 0, 0, 0, 0, false, ""},
        {"JOB_COMPLETION_INDEX=2 WORLD_SIZE=3 MASTER_ADDR=yoke-0.yoke YOKE_PORT=7000", "a Kubernetes Job", 2,
         3, 0, 0, false, "yoke-0.yoke:7000"},
        {"JOB_COMPLETION_INDEX=2", NULL, 0, 0, 0, 0, false, ""}, /* processes that do not belong together */
        {"SLURM_STEP_NUM_NODES=3 " SLURM "node[01-03,7],x", "srun", 2, 4, 1, 0, false, "node01:16812"},
        {"SLURM_STEP_NUM_NODES=3 YOKE_PORT=9 " SLURM "a[2,5-9]b[04]-c,x", "srun", 2, 4, 1, 0, false,
         "a2b04-c:9"},
        {"SLURM_STEP_NUM_NODES=2 " SLURM "x-1,y", "srun", 2, 4, 1, 0, false, "x-1:16812"},
        {"SLURM_STEP_NUM_NODES=1 " SLURM "x", "srun", 2, 4, 1, 4, false, "*"},
        {"SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=4", NULL, 0, 0, 0, 0, false, ""}, /* a batch script */
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        yk_rendezvous r;
        set_environment(want[i].environment);
        assert_int_equal(yk_rendezvous_read(&r), YK_OK);
        assert_true(!r.engine == !want[i].engine);
        if (r.engine)
            assert_string_equal(r.engine, want[i].engine);
        assert_int_equal(r.rank, want[i].rank);
        assert_int_equal(r.size, want[i].size);
        assert_int_equal(r.local_rank, want[i].local_rank);
        assert_int_equal(r.local_size, want[i].local_size);
        assert_int_equal(r.mpi, want[i].mpi);
        assert_int_equal(r.listen_fd, -1);
        if (strcmp(want[i].master, "*"))
            assert_string_equal(r.master, want[i].master);
        else
            assert_true(strncmp(r.master, "unix:yoke-", 10) == 0 && strlen(r.master) < 110);
    }
    set_environment("YOKE_RANK=0 YOKE_SIZE=2 YOKE_MASTER=a:1 YOKE_LISTEN_FD=5");
    yk_rendezvous r;
    assert_int_equal(yk_rendezvous_read(&r), YK_OK);
    assert_int_equal(r.listen_fd, 5);
}

static void errors_name_the_variable_and_the_remedy(void **state)
{
    (void)state;
    static const struct {
        const char *environment, *error;
    } want[] = {
        {"RANK=4 WORLD_SIZE=4 MASTER_ADDR=a MASTER_PORT=1", "RANK=4 must be less than WORLD_SIZE=4"},
        {"RANK=-1 WORLD_SIZE=4", "RANK=-1 must be a whole number"},
        {"RANK=0 WORLD_SIZE=4x", "WORLD_SIZE=4x must be a whole number"},
        {"WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1",
         "WORLD_SIZE=2, but RANK (in a Kubernetes Job: JOB_COMPLETION_INDEX) is not set"},
        {"RANK=0 WORLD_SIZE=0", "RANK=0 must be less than WORLD_SIZE=0"},
        {"RANK=0 WORLD_SIZE=2", "MASTER_ADDR is not set: set MASTER_ADDR to the host of rank 0"},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a", "YOKE_PORT or MASTER_PORT is not set"},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=65535", "MASTER_PORT=65535 must be"},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a YOKE_PORT=65536", "YOKE_PORT=65536 must be"},
        {"JOB_COMPLETION_INDEX=0 WORLD_SIZE=2", "a Kubernetes Job started 2 processes, but MASTER_ADDR"},
        {"SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=2 must be less than"},
        {"YOKE_RANK=1 YOKE_SIZE=2 YOKE_MASTER=a:1 YOKE_LISTEN_FD=x", "YOKE_LISTEN_FD=x must be"},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        yk_rendezvous r;
        set_environment(want[i].environment);
        assert_error(yk_rendezvous_read(&r), YK_EUSAGE, want[i].error);
        assert_int_equal(r.size, 0);
    }
}

static yk_status token_of(const char *environment, yk_rendezvous *r)
{
    set_environment(environment);
    assert_int_equal(yk_rendezvous_read(r), YK_OK);
    return yk_rendezvous_token(r, NULL, 0.1);
}

static void the_token_is_read_and_removed(void **state)
{
    (void)state;
    static const char several[] = TORCH "2 MASTER_ADDR=head";
    char environment[1024];
    const char *file = in_directory("token");
    yk_rendezvous r;
    assert_int_equal(token_of(TORCH "4 MASTER_ADDR=head", &r), YK_OK); /* one host */
    assert_string_equal(r.token, "");
    assert_error(token_of(several, &r), YK_EUSAGE, "there is no job token");
    assert_message("YOKE_TOKEN_FILE");

    snprintf(environment, sizeof environment, "%s YOKE_TOKEN=" TOKEN, several);
    assert_int_equal(token_of(environment, &r), YK_OK);
    assert_string_equal(r.token, TOKEN_READ);
    assert_null(getenv("YOKE_TOKEN"));
    snprintf(environment, sizeof environment, "%s YOKE_TOKEN=" TOKEN "0", several);
    assert_error(token_of(environment, &r), YK_EUSAGE, "YOKE_TOKEN must have 64 hexadecimal digits");
    assert_null(getenv("YOKE_TOKEN"));

    snprintf(environment, sizeof environment, "%s YOKE_TOKEN_FILE=%s", several, file);
    assert_error(token_of(environment, &r), YK_EUSAGE, "YOKE_TOKEN_FILE: cannot read");
    put(file, TOKEN "\n", strlen(TOKEN) + 1);
    chmod(file, 0644);
    assert_error(token_of(environment, &r), YK_EUSAGE, "YOKE_TOKEN_FILE: others can read");
    assert_message("chmod 600");
    chmod(file, 0440); /* a Secret of Kubernetes */
    assert_int_equal(token_of(environment, &r), YK_OK);
    assert_string_equal(r.token, TOKEN_READ);
    chmod(file, 0600);
    put(file, "12\n", 3);
    assert_error(token_of(environment, &r), YK_EUSAGE, "does not begin with a job token");
}

/* Rank 0 creates RUN/token. The other ranks ignore that of an earlier step, and one that others can read. */
static void processes_of_slurm_share_a_token(void **state)
{
    (void)state;
    const char *run_dir = in_directory("run");
    char path[128];
    struct stat file;
    yk_rendezvous first, second;
    snprintf(path, sizeof path, "%s/token", run_dir);
    set_environment("SLURM_STEP_NUM_NODES=2 " SLURM "a,b");
    assert_int_equal(yk_rendezvous_read(&second), YK_OK);
    first = second;
    first.rank = 0;
    assert_error(yk_rendezvous_token(&first, NULL, 0.1), YK_EUSAGE, "or give --out DIR on shared storage");
    setenv("SLURM_STEP_ID", "0", 1);
    assert_int_equal(yk_rendezvous_token(&first, run_dir, 0.1), YK_OK);
    setenv("SLURM_STEP_ID", "1", 1);
    assert_error(yk_rendezvous_token(&second, run_dir, 0.1), YK_ELOST, "rank 0 did not write the job token");
    assert_int_equal(yk_rendezvous_token(&first, run_dir, 0.1), YK_OK);
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_mode & 0777, 0600);
    assert_int_equal(yk_rendezvous_token(&second, run_dir, 5.0), YK_OK);
    assert_string_equal(first.token, second.token);
    chmod(path, 0644);
    assert_error(yk_rendezvous_token(&second, run_dir, 5.0), YK_EUSAGE, "others can read");
    yk_rendezvous_done(&first, run_dir);
    assert_int_equal(stat(path, &file), -1);
    assert_int_equal(rmdir(run_dir), 0);
}

static void tokens_are_created_and_parsed(void **state)
{
    (void)state;
    char a[YK_TOKEN_TEXT], b[YK_TOKEN_TEXT];
    assert_int_equal(yk_token_create(a), YK_OK);
    assert_int_equal(yk_token_create(b), YK_OK);
    assert_string_not_equal(a, b);
    assert_int_equal(strlen(a), 64);
    assert_string_equal(yk_token_parse(a, b), "");
    assert_string_equal(a, b);
    a[63] = 'g';
    assert_null(yk_token_parse(a, b));
    assert_null(yk_token_parse("", b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_engine_is_recognized),
        cmocka_unit_test(errors_name_the_variable_and_the_remedy),
        cmocka_unit_test(the_token_is_read_and_removed),
        cmocka_unit_test(processes_of_slurm_share_a_token),
        cmocka_unit_test(tokens_are_created_and_parsed),
    };
    return cmocka_run_group_tests(tests, make_test_directory, remove_test_directory);
}
