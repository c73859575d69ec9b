/*
 * The floor of the exclusive chain: ADD and DEL of a VF and its RDMA device that check, search, store, parse and print
 * nothing. It makes only the necessary kernel requests, from one process; the names and numbers are arguments.
 *
 *     chain-floor add|add-bare|del PF VF-NUMBER LINK MAC RDMA-DEVICE-INDEX NETNS
 *
 * LINK is the VF's link on the host, MAC the pod's MAC for add and the VF's own for del. add waits until the link has a
 * carrier, since earlier announcements of an address are lost. add-bare does not wait.
 */
#define _GNU_SOURCE
#include "netlink.h"

#include <net/ethernet.h>
#include <netinet/ether.h>
#include <rdma/rdma_netlink.h>
#include <stdlib.h>

#define POD_LINK "net1"
#define ADDRESS "172.81.0.100"
#define BROADCAST "172.81.255.255"
#define PREFIX 16
#define GATEWAY "172.81.0.1"
#define VLAN 100

struct vf {
	const char *pf, *link;
	unsigned number;
	struct ether_addr mac;
	unsigned rdma_device;
};

/* The settings of a VF for its PF, in one message. */
static void set_vf(int home, const struct vf *vf, const struct ether_addr *mac, unsigned vlan, int spoofchk, int trust)
{
	struct ifla_vf_mac vf_mac = { .vf = vf->number };
	struct ifla_vf_vlan vf_vlan = { .vf = vf->number, .vlan = vlan };
	struct ifla_vf_spoofchk vf_spoofchk = { .vf = vf->number, .setting = spoofchk };
	struct ifla_vf_trust vf_trust = { .vf = vf->number, .setting = trust };
	struct ifinfomsg *pf = start(RTM_NEWLINK, 0, sizeof *pf);
	struct rtattr *list, *info;

	memcpy(vf_mac.mac, mac, sizeof *mac);
	pf->ifi_index = index_of(vf->pf);
	list = attribute(IFLA_VFINFO_LIST, NULL, 0);
	info = attribute(IFLA_VF_INFO, NULL, 0);
	attribute(IFLA_VF_MAC, &vf_mac, sizeof vf_mac);
	attribute(IFLA_VF_VLAN, &vf_vlan, sizeof vf_vlan);
	attribute(IFLA_VF_SPOOFCHK, &vf_spoofchk, sizeof vf_spoofchk);
	attribute(IFLA_VF_TRUST, &vf_trust, sizeof vf_trust);
	close_nest(info);
	close_nest(list);
	call(home, "set VF");
}

static void set_mac(int socket_, unsigned link, const struct ether_addr *mac)
{
	struct ifinfomsg *message = start(RTM_NEWLINK, 0, sizeof *message);

	message->ifi_index = link;
	attribute(IFLA_ADDRESS, mac, sizeof *mac);
	call(socket_, "set MAC");
}

static void move_link(int socket_, unsigned link, const char *name, int netns)
{
	struct ifinfomsg *message = start(RTM_NEWLINK, 0, sizeof *message);

	message->ifi_index = link;
	attribute(IFLA_IFNAME, name, strlen(name) + 1);
	attribute(IFLA_NET_NS_FD, &netns, sizeof netns);
	call(socket_, "move link");
}

static void move_rdma_device(int socket_, unsigned device, int netns)
{
	start(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SET), 0, 0);
	attribute(RDMA_NLDEV_ATTR_DEV_INDEX, &device, sizeof device);
	attribute(RDMA_NLDEV_NET_NS_FD, &netns, sizeof netns);
	call(socket_, "move RDMA device");
}

/* Waits for a notification of the carrier, or queries it in case the notification came before the subscription. */
static void wait_for_carrier(int pod, unsigned link)
{
	struct sockaddr_nl events = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK };
	struct ifinfomsg *query;
	char reply[8192];
	int listener = open_netlink(NETLINK_ROUTE);

	if (bind(listener, (struct sockaddr *)&events, sizeof events))
		err(1, "bind");
	query = start(RTM_GETLINK, 0, sizeof *query);
	query->ifi_index = link;
	request.header.nlmsg_flags &= ~NLM_F_ACK;
	if (send(pod, &request, request.header.nlmsg_len, 0) < 0)
		err(1, "send");
	for (;; pod = listener) {
		struct nlmsghdr *header = (struct nlmsghdr *)reply;
		struct ifinfomsg *told = NLMSG_DATA(header);

		if (recv(pod, reply, sizeof reply, 0) < 0)
			err(1, "recv");
		if (header->nlmsg_type == RTM_NEWLINK && told->ifi_index == (int)link && told->ifi_flags & IFF_RUNNING)
			return;
	}
}

static void add(const struct vf *vf, const char *netns, int wait)
{
	int home = open_netlink(NETLINK_ROUTE), rdma = open_netlink(NETLINK_RDMA), pod_fd, pod;
	unsigned link = index_of(vf->link);

	pod_fd = open(netns, O_RDONLY | O_CLOEXEC);
	set_mac(home, link, &vf->mac);
	set_vf(home, vf, &vf->mac, VLAN, 0, 1);
	move_link(home, link, POD_LINK, pod_fd);
	move_rdma_device(rdma, vf->rdma_device, pod_fd);
	pod = enter(netns);
	link = index_of(POD_LINK);
	configure(pod, link, ADDRESS, BROADCAST, PREFIX, GATEWAY);
	if (wait)
		wait_for_carrier(pod, link);
}

static void del(const struct vf *vf, const char *netns)
{
	static const struct ether_addr none;
	int home_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), home = open_netlink(NETLINK_ROUTE), pod;
	unsigned link;

	/* igbvf reports its address when it is set down, as on the return to the host; by then any address must be allowed. */
	set_vf(home, vf, &none, 0, 1, 0);
	pod = enter(netns);
	link = index_of(POD_LINK);
	set_mac(pod, link, &vf->mac);
	move_rdma_device(open_netlink(NETLINK_RDMA), vf->rdma_device, home_fd);
	move_link(pod, link, vf->link, home_fd);
}

int main(int argc, char **argv)
{
	struct vf vf;

	if (argc != 8 || !ether_aton_r(argv[5], &vf.mac))
		errx(2, "usage: chain-floor add|add-bare|del PF VF-NUMBER LINK MAC RDMA-DEVICE-INDEX NETNS");
	vf.pf = argv[2];
	vf.number = atoi(argv[3]);
	vf.link = argv[4];
	vf.rdma_device = atoi(argv[6]);
	if (!strncmp(argv[1], "add", 3))
		add(&vf, argv[7], !strcmp(argv[1], "add"));
	else
		del(&vf, argv[7]);
	return 0;
}
