/* Join two network namespaces with a link that delays every packet.

   delay NS_A NS_B ONE_WAY_MS [MBIT_PER_S] [LOSS_PERCENT] [MTU]

   Creates a TUN device in each namespace (wan0, 10.77.0.1 <-> 10.77.0.2), forwards packets between them after
   ONE_WAY_MS, optionally limits the rate and drops packets at random, and prints "up" when traffic can flow.
   Real TCP endpoints on both sides: windows and buffers behave as on a long line, which a proxy would hide.
   Needs root. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 32768
#define SIZE 9216

struct packet { int64_t due; int length; unsigned char data[SIZE]; };
struct way {
    int from, to;
    struct packet *ring;
    volatile unsigned head, tail;
    unsigned seed;
    pthread_mutex_t lock;
    pthread_cond_t filled;
};

static int64_t delay_ns, ns_per_byte_x1000;
static double loss;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void fail(const char *what) { perror(what); exit(1); }

static void *read_packets(void *argument) {
    struct way *way = argument;
    int64_t free_at = 0;
    for (;;) {
        struct packet *slot = &way->ring[way->head % SLOTS];
        static __thread unsigned char spare[SIZE];
        int full = way->head - way->tail >= SLOTS - 1;
        int n = read(way->from, full ? spare : slot->data, SIZE);
        if (n < 0) { if (errno == EINTR) continue; fail("read"); }
        if (full || (loss > 0 && rand_r(&way->seed) < loss * RAND_MAX)) continue;
        int64_t now = now_ns(), sent = now > free_at ? now : free_at;
        free_at = sent + n * ns_per_byte_x1000 / 1000;
        slot->length = n;
        slot->due = free_at + delay_ns;
        pthread_mutex_lock(&way->lock);
        way->head++;
        pthread_cond_signal(&way->filled);
        pthread_mutex_unlock(&way->lock);
    }
}

static void *write_packets(void *argument) {
    struct way *way = argument;
    for (;;) {
        pthread_mutex_lock(&way->lock);
        while (way->tail == way->head) pthread_cond_wait(&way->filled, &way->lock);
        pthread_mutex_unlock(&way->lock);
        struct packet *slot = &way->ring[way->tail % SLOTS];
        struct timespec due = { slot->due / 1000000000, slot->due % 1000000000 };
        if (slot->due > now_ns()) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
        if (write(way->to, slot->data, slot->length) < 0 && errno != EAGAIN && errno != ENOBUFS && errno != EIO)
            fail("write");
        __sync_synchronize();
        way->tail++;
    }
}

static int open_tun(const char *namespace, const char *own, const char *peer, int mtu) {
    char path[256], command[512];
    snprintf(path, sizeof path, "/run/netns/%s", namespace);
    int home = open("/proc/self/ns/net", O_RDONLY), target = open(path, O_RDONLY);
    if (target < 0) fail(path);
    if (setns(target, CLONE_NEWNET)) fail("setns");
    int device = open("/dev/net/tun", O_RDWR);
    if (device < 0) fail("/dev/net/tun");
    struct ifreq request;
    memset(&request, 0, sizeof request);
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    strcpy(request.ifr_name, "wan0");
    if (ioctl(device, TUNSETIFF, &request)) fail("TUNSETIFF");
    snprintf(command, sizeof command,
             "ip addr add %s/32 peer %s dev wan0 && ip link set wan0 mtu %d txqueuelen 20000 up && ip link set lo up",
             own, peer, mtu);
    if (system(command)) { fprintf(stderr, "failed: %s\n", command); exit(1); }
    if (setns(home, CLONE_NEWNET)) fail("setns back");
    close(target);
    close(home);
    return device;
}

int main(int count, char **words) {
    if (count < 4) {
        fprintf(stderr, "usage: delay NS_A NS_B ONE_WAY_MS [MBIT_PER_S] [LOSS_PERCENT] [MTU]\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    delay_ns = (int64_t)(atof(words[3]) * 1e6);
    double rate = count > 4 ? atof(words[4]) : 0;
    ns_per_byte_x1000 = rate > 0 ? (int64_t)(8e6 / rate) : 0;
    loss = count > 5 ? atof(words[5]) / 100 : 0;
    int mtu = count > 6 ? atoi(words[6]) : 1500;
    int a = open_tun(words[1], "10.77.0.1", "10.77.0.2", mtu), b = open_tun(words[2], "10.77.0.2", "10.77.0.1", mtu);
    static struct way ways[2];
    pthread_t thread;
    for (int i = 0; i < 2; i++) {
        ways[i].from = i ? b : a;
        ways[i].to = i ? a : b;
        ways[i].seed = 1 + i;
        ways[i].ring = calloc(SLOTS, sizeof(struct packet));
        pthread_mutex_init(&ways[i].lock, NULL);
        pthread_cond_init(&ways[i].filled, NULL);
        pthread_create(&thread, NULL, read_packets, &ways[i]);
        pthread_create(&thread, NULL, write_packets, &ways[i]);
    }
    puts("up");
    fflush(stdout);
    pause();
    return 0;
}
