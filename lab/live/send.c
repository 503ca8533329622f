// Writes the frames of a capture to an interface at a rate, once or several times (packet(7), sendmmsg(2)).
//
//   send INTERFACE CAPTURE RATE [TIMES]     RATE in frames a second, 0 for as fast as it goes
//
// Prints one JSON object: frames that the kernel took, frames it refused, seconds.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 32 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: send INTERFACE CAPTURE RATE [TIMES]\n");
        return 2;
    }
    double rate = atof(argv[3]);
    long times = argc > 4 ? atol(argv[4]) : 1;
    int file = open(argv[2], O_RDONLY);
    struct stat st;
    if (file < 0 || fstat(file, &st) < 0) fail(argv[2]);
    size_t size = (size_t)st.st_size;
    const uint8_t *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    if (map == MAP_FAILED) fail(argv[2]);
    uint32_t magic;
    if (size < 24) { fprintf(stderr, "%s: no capture\n", argv[2]); return 1; }
    memcpy(&magic, map, 4);
    if (magic != 0xa1b2c3d4 && magic != 0xa1b23c4d) { fprintf(stderr, "%s: not a pcap of this byte order\n", argv[2]); return 1; }
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (fd < 0) fail("socket");
    int one = 1;
    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one);
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(argv[1])};
    if (to.sll_ifindex == 0) fail(argv[1]);
    if (bind(fd, (struct sockaddr *)&to, sizeof to) < 0) fail("bind");
    struct mmsghdr all[BATCH];
    struct iovec at[BATCH];
    memset(all, 0, sizeof all);
    for (int n = 0; n < BATCH; n++) {
        all[n].msg_hdr.msg_iov = &at[n];
        all[n].msg_hdr.msg_iovlen = 1;
    }
    uint64_t sent = 0, refused = 0;
    double began = now();
    for (long round = 0; round < times; round++) {
        size_t place = 24;
        for (;;) {
            int count = 0;
            while (count < BATCH && place + 16 <= size) {
                uint32_t len;
                memcpy(&len, map + place + 8, 4);
                if (place + 16 + len > size) { place = size; break; }
                at[count].iov_base = (void *)(map + place + 16);
                at[count].iov_len = len;
                place += 16 + len;
                count++;
            }
            if (count == 0) break;
            if (rate > 0) {
                double due = began + (double)(sent + refused) / rate;
                double wait = due - now();
                if (wait > 0.0002) {
                    struct timespec t = {(time_t)wait, (long)((wait - (double)(time_t)wait) * 1e9)};
                    nanosleep(&t, NULL);
                }
            }
            int done = 0;
            while (done < count) {
                int n = sendmmsg(fd, all + done, (unsigned)(count - done), 0);
                if (n > 0) { done += n; sent += (uint64_t)n; continue; }
                if (errno == ENOBUFS || errno == EAGAIN || errno == EINTR) continue;
                // One that the interface does not take, such as a frame above its MTU.
                done++;
                refused++;
            }
        }
    }
    printf("{\"sent\": %llu, \"refused\": %llu, \"seconds\": %.6f}\n", (unsigned long long)sent, (unsigned long long)refused, now() - began);
    return 0;
}
