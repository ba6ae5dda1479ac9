/* The benchmark's worker, in C so that what is measured is the launcher. worker.py does the same where no compiler is.
 *
 *   worker STATE true                          run, end
 *   worker STATE sleep                         run until killed
 *   worker STATE fail polite|deaf N DELAY_MS   rank 1 exits 3, DELAY_MS after all N run; the others sleep
 *   worker STATE family polite|deaf            each has a child and a child in a session of its own; all sleep
 *   worker STATE print LINES end|stay          print LINES lines of 100 bytes in blocks of 8 KiB; end or sleep
 *   worker drain FILE                          stdin into FILE
 *   worker check FILE                          count the lines that `print` made: whole, broken, out of their rank's order
 *
 * STATE has a record of eight 64-bit numbers for each rank: see scene.Record. Times are CLOCK_MONOTONIC nanoseconds.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE 100
#define HEAD 26
#define BLOCK 8192
#define RANKS 10000

struct record {
    int64_t started, pid, child, session_child, ended, cpu, unused[2];
};

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int64_t cpu_used(void) {
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000000LL + (r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1000LL;
}

static int rank_of_this(void) {
    const char *rank = getenv("RANK_ID");
    if (!rank) rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank ? atoi(rank) : 0;
}

static void sleep_until_killed(void) {
    alarm(900); /* should the benchmark itself be killed */
    for (;;) pause();
}

static void write_all(int fd, const char *text, size_t size) {
    while (size) {
        ssize_t count = write(fd, text, size);
        if (count < 0) _exit(98);
        text += count;
        size -= count;
    }
}

static void make_line(char *line, int rank, long number) {
    char head[HEAD + 1];
    snprintf(head, sizeof head, "rank %04d line %010ld ", rank, number);
    memcpy(line, head, HEAD);
    memset(line + HEAD, 'a' + (rank * 7 + number) % 26, LINE - HEAD - 1);
    line[LINE - 1] = '\n';
}

/* As a block-buffered stdout does it: the blocks cut lines anywhere. */
static void print_lines(int rank, long lines) {
    static char buffer[BLOCK + LINE];
    size_t filled = 0;
    for (long number = 0; number < lines; number++) {
        make_line(buffer + filled, rank, number);
        filled += LINE;
        if (filled >= BLOCK) {
            write_all(1, buffer, BLOCK);
            filled -= BLOCK;
            memmove(buffer, buffer + BLOCK, filled);
        }
    }
    write_all(1, buffer, filled);
}

static int drain(const char *path) {
    static char buffer[1 << 17];
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ssize_t count;
    while ((count = splice(0, 0, file, 0, 1 << 20, 0)) > 0)
        ;
    if (count < 0) /* stdin is no pipe */
        while ((count = read(0, buffer, sizeof buffer)) > 0) write_all(file, buffer, count);
    return 0;
}

/* Part of a line that `print` made? A line cut in two leaves at least one part with so many equal letters. */
static int is_fragment(const char *text, const char *end) {
    int same = 1;
    for (; text + 1 < end; text++) {
        same = text[0] == text[1] && *text >= 'a' && *text <= 'z' ? same + 1 : 1;
        if (same >= 30) return 1;
    }
    return 0;
}

static int check(const char *path) {
    static long next[RANKS];
    long whole = 0, broken = 0, disordered = 0;
    char wanted[LINE];
    struct stat size;
    int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &size)) return 1;
    const char *text = size.st_size ? mmap(0, size.st_size, PROT_READ, MAP_PRIVATE, file, 0) : "";
    for (const char *end = text + size.st_size; text < end;) {
        const char *newline = memchr(text, '\n', end - text);
        const char *after = newline ? newline + 1 : end;
        int rank = -1;
        if (after - text == LINE && newline && !memcmp(text, "rank ", 5)) {
            rank = atoi(text + 5) % RANKS;
            long number = atol(text + 15);
            make_line(wanted, rank, number);
            if (memcmp(wanted, text, LINE)) rank = -1;
            else {
                whole++;
                disordered += number != next[rank];
                next[rank] = number + 1;
            }
        }
        if (rank < 0) broken += is_fragment(text, after);
        text = after;
    }
    printf("{\"whole\": %ld, \"broken\": %ld, \"disordered\": %ld}\n", whole, broken, disordered);
    return 0;
}

static struct record *open_state(const char *path) {
    int file = open(path, O_RDWR);
    struct stat size;
    if (file < 0 || fstat(file, &size)) _exit(99);
    void *state = mmap(0, size.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (state == MAP_FAILED) _exit(99);
    close(file);
    return state;
}

static void have_a_family(struct record *me) {
    for (int own_session = 0; own_session < 2; own_session++) {
        pid_t child = fork();
        if (!child) {
            if (own_session) setsid();
            sleep_until_killed();
        }
        *(own_session ? &me->session_child : &me->child) = child;
    }
}

static void fail_after_all_run(volatile struct record *state, int workers, int delay_ms) {
    for (int rank = 0; rank < workers; rank++)
        while (!state[rank].started) usleep(2000);
    usleep(delay_ms * 1000);
    state[1].ended = now();
    _exit(3);
}

int main(int argc, char **argv) {
    int64_t started = now();
    if (argc == 3) {
        if (!strcmp(argv[1], "drain")) return drain(argv[2]);
        if (!strcmp(argv[1], "check")) return check(argv[2]);
    }
    if (argc < 3) return 97;
    const char *role = argv[2];
    struct record *state = open_state(argv[1]);
    int rank = rank_of_this();
    struct record *me = state + rank;
    if (argc > 3 && !strcmp(argv[3], "deaf")) signal(SIGTERM, SIG_IGN);
    me->pid = getpid();
    if (!strcmp(role, "family")) have_a_family(me);
    __atomic_store_n(&me->started, started, __ATOMIC_SEQ_CST);
    if (!strcmp(role, "true")) return 0;
    if (!strcmp(role, "fail") && rank == 1) fail_after_all_run(state, atoi(argv[4]), atoi(argv[5]));
    if (!strcmp(role, "print")) {
        print_lines(rank, atol(argv[3]));
        me->cpu = cpu_used();
        __atomic_store_n(&me->ended, now(), __ATOMIC_SEQ_CST);
        if (!strcmp(argv[4], "end")) return 0;
    }
    sleep_until_killed();
    return 0;
}
