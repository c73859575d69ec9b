/*
 * The floor of a scrape: only the netlink calls that read every RDMA device in some namespaces. Nothing is stored,
 * resolved, checked or printed; a socket in each namespace stays open.
 *
 *     scrape-floor ROUNDS LISTS NETNS...
 *
 * LISTS is 1 to list the objects of each device, too: those that a program with queue pairs has. For each round it prints the duration in nanoseconds and the number of devices.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_DEVICES 1024
#define TYPE(command) (RDMA_NL_NLDEV << 10 | (command))

static const int objects[] = {
	RDMA_NLDEV_CMD_RES_CTX_GET, RDMA_NLDEV_CMD_RES_PD_GET,
	RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_CMD_RES_CQ_GET,
};
#define OBJECTS (int)(sizeof objects / sizeof *objects)

static char buffer[96 * 1024];
static unsigned sequence;
static unsigned devices[MAX_DEVICES];
static int count;

static void send_request(int socket, int command, int flags, int device, int port)
{
	struct {
		struct nlmsghdr header;
		struct nlattr device;
		unsigned index;
		struct nlattr port;
		unsigned number;
	} request = {
		.header = { sizeof(struct nlmsghdr), TYPE(command), NLM_F_REQUEST | flags, ++sequence, 0 },
		.device = { 8, RDMA_NLDEV_ATTR_DEV_INDEX }, .index = device,
		.port = { 8, RDMA_NLDEV_ATTR_PORT_INDEX }, .number = port,
	};

	request.header.nlmsg_len += device < 0 ? 0 : port ? 16 : 8;
	if (send(socket, &request, request.header.nlmsg_len, 0) < 0)
		err(1, "send");
}

static void note_device(struct nlmsghdr *message)
{
	struct nlattr *attribute = NLMSG_DATA(message);

	if (attribute->nla_type == RDMA_NLDEV_ATTR_DEV_INDEX && count < MAX_DEVICES)
		devices[count++] = *(unsigned *)(attribute + 1);
}

/* Reads to the end of a reply. */
static void receive(int socket, int noting)
{
	for (;;) {
		int length = recv(socket, buffer, sizeof buffer, 0);
		struct nlmsghdr *message = (struct nlmsghdr *)buffer;

		if (length < 0)
			err(1, "recv");
		for (; NLMSG_OK(message, (unsigned)length); message = NLMSG_NEXT(message, length)) {
			if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR)
				return;
			if (noting)
				note_device(message);
		}
	}
}

static void request(int socket, int command, int flags, int device, int port)
{
	send_request(socket, command, flags, device, port);
	receive(socket, command == RDMA_NLDEV_CMD_GET);
}

static int open_in(const char *path)
{
	int namespace = open(path, O_RDONLY | O_CLOEXEC), opened;

	if (namespace < 0 || setns(namespace, CLONE_NEWNET))
		err(1, "%s", path);
	close(namespace);
	opened = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	if (opened < 0)
		err(1, "socket");
	return opened;
}

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char **argv)
{
	int *sockets = calloc(argc, sizeof *sockets), rounds = argc > 3 ? atoi(argv[1]) : 0, lists;

	if (!rounds)
		errx(2, "usage: scrape-floor ROUNDS LISTS NETNS...");
	lists = atoi(argv[2]);
	for (int i = 3; i < argc; i++)
		sockets[i] = open_in(argv[i]);
	while (rounds--) {
		long long began = now();
		int all = 0;

		for (int i = 3; i < argc; i++) {
			count = 0;
			request(sockets[i], RDMA_NLDEV_CMD_GET, NLM_F_DUMP, -1, 0);
			request(sockets[i], RDMA_NLDEV_CMD_RES_GET, NLM_F_DUMP, -1, 0);
			for (int d = 0; d < count; d++) {
				request(sockets[i], RDMA_NLDEV_CMD_PORT_GET, NLM_F_DUMP, devices[d], 0);
				request(sockets[i], RDMA_NLDEV_CMD_STAT_GET, NLM_F_ACK, devices[d], 1);
				for (int list = 0; lists && list < OBJECTS; list++)
					request(sockets[i], objects[list], NLM_F_DUMP, devices[d], 0);
			}
			all += count;
		}
		printf("%lld %d\n", now() - began, all);
	}
	return 0;
}
