/* test_crowd.c: many processes at once on one device, each with threads that do all kinds of work (victims.h), stopped, sent on and killed at
 * random instants. A neighbour goes on all the time, and afterwards the device is as it was before.
 * Arguments: seed (0: any), kills (0: $GPUD_TEST_KILLS, or some), how many at once. */
#include <time.h>

#include "node_process.h"
#include "victims.h"

enum { MOST = 64 };

/* Works all the time; a byte asks whether it still does, another one whether all is back. */
static void neighbour(int socket)
{
    unsigned expected = 0;
    close(mail[0]);
    close(mail[1]);
    start();
    loaded = load();
    CUdeviceptr data = zeroes(4);
    size_t before = left();
    int pid = device_process(), files = files_of(pid);
    CHECK(pid && files > 2, "no device process");
    nudge(socket);
    for (;;) {
        char asked;
        ssize_t n = recv(socket, &asked, 1, MSG_DONTWAIT);
        if (!n)
            break;
        alarm(120);                     /* a step that takes so long is a neighbour that hangs */
        times(loaded, "times", data, 3, 1, NULL);
        put_word(data + 0, word(data));
        expected = expected * 3 + 1;
        CHECK(word(data) == expected, "%u, not %u", word(data), expected);
        int open = files_of(pid);       /* one that is just being closed may have been counted at first */
        for (int i = 0; i < 10000 && n == 1 && asked == 'e' && (left() != before || open > files); i++, open = files_of(pid))
            usleep(1000);
        if (n == 1 && asked == 'e') {
            CHECK(left() == before, "%zd bytes are lost", (ssize_t)(before - left()));
            CHECK(open <= files, "%d files are open, and were %d", open, files);
            CHECK(device_process() == pid, "another device process");
        }
        if (n == 1)
            nudge(socket);
    }
    exit(check_failures != 0);
}

static pid_t send_one(unsigned seed)
{
    fflush(stdout);
    pid_t pid = fork();
    if (!pid)
        victim(seed);
    return pid;
}

static void mailbox(void)
{
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, mail))
        exit(1);
}

/* Until `kills` victims have been killed, `crowd` of them alive at any time. */
static void storm(unsigned *seed, int kills, int crowd, int asking)
{
    pid_t pids[MOST];
    for (int i = 0; i < crowd; i++)
        pids[i] = send_one((unsigned)rand_r(seed));
    for (int killed = 0; killed < kills; killed++) {
        int i = (int)chance(seed, (unsigned)crowd), status;
        struct timespec some = {.tv_nsec = (long)chance(seed, 400000000u / (unsigned)crowd)};
        bool stopped = !chance(seed, 4);
        if (stopped)
            kill(pids[i], SIGSTOP);
        nanosleep(&some, NULL);         /* the instant of the kill: the subject of the test */
        if (stopped && chance(seed, 2))
            kill(pids[i], SIGCONT);
        kill(pids[i], SIGKILL);
        waitpid(pids[i], &status, 0);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "a victim ended by itself: %x", (unsigned)status);
        pids[i] = send_one((unsigned)rand_r(seed));
        if (killed % 32 == 31) {
            tell(asking, "?", 1, -1);
            await(asking);
        }
    }
    for (int i = 0; i < crowd; i++)
        kill(pids[i], SIGKILL);
    for (int i = 0; i < crowd; i++)
        waitpid(pids[i], NULL, 0);
}

int main(int argc, char **argv)
{
    const char *given = getenv("GPUD_TEST_KILLS");
    unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
    int kills = argc > 2 ? atoi(argv[2]) : 0, crowd = argc > 3 ? atoi(argv[3]) : 8, sockets[2], status;
    kills = kills ? kills : given ? atoi(given) : 100;
    seed = seed ? seed : (unsigned)time(NULL);
    printf("seed %u, %d kills, %d at once\n", seed, kills, crowd);
    fflush(stdout);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) || crowd < 1 || crowd > MOST)
        return 1;
    mailbox();
    pid_t beside = fork();
    if (!beside) {
        close(sockets[0]);
        neighbour(sockets[1]);
    }
    close(sockets[1]);
    await(sockets[0]);
    storm(&seed, kills, crowd, sockets[0]);
    close(mail[0]);                     /* with the descriptors of memory that nobody took out */
    close(mail[1]);
    tell(sockets[0], "e", 1, -1);
    await(sockets[0]);
    close(sockets[0]);
    waitpid(beside, &status, 0);
    CHECK(!status, "the neighbour: %x", (unsigned)status);
    for (int i = 0; i < 60000 && device_process(); i++)
        usleep(1000);
    CHECK(!device_process(), "the device process does not end with its last client");
    return check_summary("crowd");
}
