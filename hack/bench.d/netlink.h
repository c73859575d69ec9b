/*
 * Common functions of the floor programs: netlink requests, one at a time, and a pod's namespace.
 */
#ifndef FLOOR_NETLINK_H
#define FLOOR_NETLINK_H

#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>


/* A request: a netlink header, a fixed part, attributes. */
static struct {
	struct nlmsghdr header;
	char body[512];
} request;

static char *end(void)
{
	return (char *)&request + NLMSG_ALIGN(request.header.nlmsg_len);
}

static void *start(int type, int flags, size_t size)
{
	memset(&request, 0, sizeof request);
	request.header.nlmsg_len = NLMSG_LENGTH(size);
	request.header.nlmsg_type = type;
	request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
	return NLMSG_DATA(&request.header);
}

static struct rtattr *attribute(int type, const void *value, size_t size)
{
	struct rtattr *attribute = (struct rtattr *)end();

	attribute->rta_type = type;
	attribute->rta_len = RTA_LENGTH(size);
	if (size)
		memcpy(RTA_DATA(attribute), value, size);
	request.header.nlmsg_len = NLMSG_ALIGN(request.header.nlmsg_len) + RTA_ALIGN(attribute->rta_len);
	return attribute;
}

static void close_nest(struct rtattr *nest)
{
	nest->rta_len = end() - (char *)nest;
}

static void address_attribute(int type, const char *text)
{
	in_addr_t address = inet_addr(text);

	attribute(type, &address, sizeof address);
}

static int open_netlink(int family)
{
	int socket_ = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, family);

	if (socket_ < 0)
		err(1, "socket");
	return socket_;
}

/* Sends the request and reads its acknowledgement. */
static void call(int socket_, const char *what)
{
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
		char more[1024];
	} reply;

	if (send(socket_, &request, request.header.nlmsg_len, 0) < 0 ||
	    recv(socket_, &reply, sizeof reply, 0) < 0)
		err(1, "%s", what);
	if (reply.header.nlmsg_type != NLMSG_ERROR || reply.error.error)
		errx(1, "%s: %s", what, strerror(-reply.error.error));
}

static int enter(const char *netns)
{
	int fd = open(netns, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET))
		err(1, "%s", netns);
	return open_netlink(NETLINK_ROUTE);
}

static unsigned index_of(const char *link)
{
	unsigned index = if_nametoindex(link);

	if (!index)
		err(1, "%s", link);
	return index;
}

/* Sets the address, the link up and the default route: the last steps of every ADD. */
static void configure(int pod, unsigned link, const char *ip, const char *broadcast, int prefix, const char *gateway)
{
	struct ifaddrmsg *address;
	struct ifinfomsg *up;
	struct rtmsg *route;

	address = start(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, sizeof *address);
	address->ifa_family = AF_INET;
	address->ifa_prefixlen = prefix;
	address->ifa_index = link;
	address_attribute(IFA_LOCAL, ip);
	address_attribute(IFA_ADDRESS, ip);
	address_attribute(IFA_BROADCAST, broadcast);
	call(pod, "add address");

	up = start(RTM_NEWLINK, 0, sizeof *up);
	up->ifi_index = link;
	up->ifi_flags = up->ifi_change = IFF_UP;
	call(pod, "set link up");

	route = start(RTM_NEWROUTE, NLM_F_CREATE, sizeof *route);
	route->rtm_family = AF_INET;
	route->rtm_table = RT_TABLE_MAIN;
	route->rtm_protocol = RTPROT_BOOT;
	route->rtm_type = RTN_UNICAST;
	address_attribute(RTA_GATEWAY, gateway);
	attribute(RTA_OIF, &link, sizeof link);
	call(pod, "add route");
}

#endif
