/*
 * The floor: a macvlan ADD with one address that checks, stores, parses and prints nothing. It makes only the kernel
 * requests that every ADD needs, so no CNI plugin can be faster.
 *
 *     floor add MASTER NETNS     floor del NETNS
 */
#define _GNU_SOURCE
#include "netlink.h"

#define LINK "net1"
#define ADDRESS "172.81.0.100"
#define BROADCAST "172.81.255.255"
#define PREFIX 16
#define GATEWAY "172.81.0.1"

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
	call(open_netlink(NETLINK_ROUTE), "create link");
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
	int pod;

	if (argc == 4 && !strcmp(argv[1], "add")) {
		create(argv[2], argv[3]);
		pod = enter(argv[3]);
		configure(pod, index_of(LINK), ADDRESS, BROADCAST, PREFIX, GATEWAY);
	} else if (argc == 3 && !strcmp(argv[1], "del")) {
		delete(argv[2]);
	} else {
		errx(2, "usage: floor add MASTER NETNS | floor del NETNS");
	}
	return 0;
}
