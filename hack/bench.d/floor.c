/*
 * The floor: what a macvlan ADD with one address costs if nothing is checked, remembered, parsed or printed. It makes
 * the requests to the kernel that no ADD can do without, so no CNI plugin can be faster.
 *
 *     floor add MASTER NETNS     floor del NETNS
 */
#define _GNU_SOURCE
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

#define LINK "net1"
#define ADDRESS "172.81.0.100"
#define BROADCAST "172.81.255.255"
#define PREFIX 16
#define GATEWAY "172.81.0.1"

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

static int open_netlink(void)
{
	int socket_ = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

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
	} answer;

	if (send(socket_, &request, request.header.nlmsg_len, 0) < 0 ||
	    recv(socket_, &answer, sizeof answer, 0) < 0)
		err(1, "%s", what);
	if (answer.header.nlmsg_type != NLMSG_ERROR || answer.error.error)
		errx(1, "%s: %s", what, strerror(-answer.error.error));
}

static int enter(const char *netns)
{
	int fd = open(netns, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET))
		err(1, "%s", netns);
	return open_netlink();
}

static unsigned index_of(const char *link)
{
	unsigned index = if_nametoindex(link);

	if (!index)
		err(1, "%s", link);
	return index;
}

static void create(const char *master, const char *netns)
{
	unsigned parent = index_of(master), mode = MACVLAN_MODE_BRIDGE;
	struct rtattr *info, *data;
	int fd = open(netns, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		err(1, "%s", netns);
	start(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, sizeof(struct ifinfomsg));
	attribute(IFLA_IFNAME, LINK, sizeof LINK);
	attribute(IFLA_LINK, &parent, sizeof parent);
	attribute(IFLA_NET_NS_FD, &fd, sizeof fd);
	info = attribute(IFLA_LINKINFO, NULL, 0);
	attribute(IFLA_INFO_KIND, "macvlan", sizeof "macvlan");
	data = attribute(IFLA_INFO_DATA, NULL, 0);
	attribute(IFLA_MACVLAN_MODE, &mode, sizeof mode);
	close_nest(data);
	close_nest(info);
	call(open_netlink(), "create link");
}

static void configure(const char *netns)
{
	int pod = enter(netns);
	unsigned link = index_of(LINK);
	struct ifaddrmsg *address;
	struct ifinfomsg *up;
	struct rtmsg *route;

	address = start(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, sizeof *address);
	address->ifa_family = AF_INET;
	address->ifa_prefixlen = PREFIX;
	address->ifa_index = link;
	address_attribute(IFA_LOCAL, ADDRESS);
	address_attribute(IFA_ADDRESS, ADDRESS);
	address_attribute(IFA_BROADCAST, BROADCAST);
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
	address_attribute(RTA_GATEWAY, GATEWAY);
	attribute(RTA_OIF, &link, sizeof link);
	call(pod, "add route");
}

static void delete(const char *netns)
{
	int pod = enter(netns);
	struct ifinfomsg *gone = start(RTM_DELLINK, 0, sizeof *gone);

	gone->ifi_index = index_of(LINK);
	call(pod, "delete link");
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "add")) {
		create(argv[2], argv[3]);
		configure(argv[3]);
	} else if (argc == 3 && !strcmp(argv[1], "del")) {
		delete(argv[2]);
	} else {
		errx(2, "usage: floor add MASTER NETNS | floor del NETNS");
	}
	return 0;
}
