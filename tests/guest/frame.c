/* What a tenant with root can do to the wire, in one static program that runs in any guest: send frames as they are,
 * listen to all that comes, and try to connect.
 *
 * usage: frame send IFACE HEX...            each as one frame, padded to the shortest that Ethernet has
 *        frame listen IFACE HEX SECONDS     prints each frame as hex, until one holds these bytes (then status 0)
 *        frame scan SECONDS HOST:PORT...    tries all at once; prints "open", "refused" or "silent" and the target;
 *                                           of IPv6 as [ADDRESS]:PORT or [ADDRESS%IFACE]:PORT
 *        frame serve SECONDS PORT           takes connections of both families in the background
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST = 2048, SHORTEST = 60, TARGETS = 32 };

static void die(const char *what) {
    perror(what);
    exit(2);
}

static size_t bytes(const char *hex, unsigned char *out) {
    size_t length = strlen(hex) / 2;
    if (length > LONGEST) exit(2);
    for (size_t i = 0; i < length; i++) {
        unsigned byte;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1) exit(2);
        out[i] = (unsigned char)byte;
    }
    return length;
}

static int packet_socket(const char *interface) {
    int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    address.sll_ifindex = (int)if_nametoindex(interface);
    if (fd < 0 || address.sll_ifindex == 0) die(interface);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) die("bind");
    return fd;
}

static int send_frames(const char *interface, char **frames, int count) {
    int fd = packet_socket(interface);
    for (int i = 0; i < count; i++) {
        unsigned char frame[LONGEST] = {0};
        size_t length = bytes(frames[i], frame);
        if (length < SHORTEST) length = SHORTEST;
        if (send(fd, frame, length, 0) != (ssize_t)length) die("send");
    }
    return 0;
}

static int listen_for(const char *interface, const char *hex, int seconds) {
    unsigned char wanted[LONGEST], frame[LONGEST];
    size_t length = bytes(hex, wanted);
    int fd = packet_socket(interface);
    time_t end = time(NULL) + seconds;
    puts("listening");
    fflush(stdout);
    while (time(NULL) < end) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, 1000) <= 0) continue;
        struct sockaddr_ll from;
        socklen_t size = sizeof from;
        ssize_t got = recvfrom(fd, frame, sizeof frame, 0, (struct sockaddr *)&from, &size);
        if (got < 0) die("recv");
        if (from.sll_pkttype == PACKET_OUTGOING) continue;
        for (ssize_t i = 0; i < got; i++) printf("%02x", frame[i]);
        putchar('\n');
        if (memmem(frame, (size_t)got, wanted, length)) {
            puts("end");
            return 0;
        }
    }
    puts("in vain");
    return 1;
}

/* The address of a target, and its size. */
static socklen_t address_of(const char *target, struct sockaddr_storage *out) {
    char host[64] = {0};
    const char *port = strrchr(target, ':');
    if (!port || (size_t)(port - target) >= sizeof host) exit(2);
    memcpy(host, target, (size_t)(port - target));
    in_port_t number = htons((unsigned short)atoi(port + 1));
    memset(out, 0, sizeof *out);
    if (host[0] != '[') {
        struct sockaddr_in *address = (struct sockaddr_in *)out;
        address->sin_family = AF_INET;
        address->sin_port = number;
        if (inet_pton(AF_INET, host, &address->sin_addr) != 1) exit(2);
        return sizeof *address;
    }
    struct sockaddr_in6 *address = (struct sockaddr_in6 *)out;
    char *end = strchr(host, ']'), *interface = strchr(host, '%');
    if (!end) exit(2);
    *end = 0;
    if (interface) {
        *interface++ = 0;
        address->sin6_scope_id = if_nametoindex(interface);
        if (address->sin6_scope_id == 0) die(interface);
    }
    address->sin6_family = AF_INET6;
    address->sin6_port = number;
    if (inet_pton(AF_INET6, host + 1, &address->sin6_addr) != 1) exit(2);
    return sizeof *address;
}

static int serve(int seconds, int port) {
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons((unsigned short)port)};
    int fd = socket(AF_INET6, SOCK_STREAM, 0), on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) < 0) die("socket");
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, TARGETS) < 0) die("bind");
    /* the kernel takes connections from here on */
    if (daemon(0, 0) < 0) die("daemon");
    sleep((unsigned)seconds);
    return 0;
}

static int scan(int seconds, char **targets, int count) {
    struct pollfd open[TARGETS];
    const char *said[TARGETS];
    if (count > TARGETS) exit(2);
    for (int i = 0; i < count; i++) {
        struct sockaddr_storage address;
        socklen_t size = address_of(targets[i], &address);
        int fd = socket(address.ss_family, SOCK_STREAM, 0);
        if (fd < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0) die("socket");
        open[i] = (struct pollfd){.fd = fd, .events = POLLOUT};
        said[i] = "silent";
        if (connect(fd, (struct sockaddr *)&address, size) < 0 && errno != EINPROGRESS)
            said[i] = errno == ECONNREFUSED ? "refused" : "silent", open[i].fd = -1;
    }
    for (time_t end = time(NULL) + seconds; time(NULL) < end;) {
        poll(open, (nfds_t)count, 200);
        for (int i = 0; i < count; i++) {
            int error = 0;
            socklen_t size = sizeof error;
            if (open[i].fd < 0 || !open[i].revents) continue;
            getsockopt(open[i].fd, SOL_SOCKET, SO_ERROR, &error, &size);
            said[i] = !error ? "open" : error == ECONNREFUSED ? "refused" : "silent";
            close(open[i].fd);
            open[i].fd = -1;
        }
    }
    for (int i = 0; i < count; i++) printf("%s %s\n", said[i], targets[i]);
    return 0;
}

int main(int count, char **words) {
    if (count > 3 && !strcmp(words[1], "send")) return send_frames(words[2], words + 3, count - 3);
    if (count == 5 && !strcmp(words[1], "listen")) return listen_for(words[2], words[3], atoi(words[4]));
    if (count > 3 && !strcmp(words[1], "scan")) return scan(atoi(words[2]), words + 3, count - 3);
    if (count == 4 && !strcmp(words[1], "serve")) return serve(atoi(words[2]), atoi(words[3]));
    fputs("usage: see the source\n", stderr);
    return 2;
}
