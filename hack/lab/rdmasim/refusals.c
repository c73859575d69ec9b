// SPDX-License-Identifier: GPL-2.0
/*
 * Refusals of a function's network device: the following calls fail as with a driver that resets the function.
 *
 * Each setting of a VF through its PF starts a reset. Until it ends, open of iavf fails with EBUSY, and a change of the
 * address with EAGAIN. i40e and ice refuse settings of a VF during a reset (EAGAIN). Some drivers accept an address and do
 * not set it: ignore_mac.
 *
 * The device's netdev_ops are a copy of the driver's, like its ethtool_ops: see ethtool.c. The time stamps of settings.c
 * are among them.
 */
#include <linux/debugfs.h>
#include <linux/rtnetlink.h>
#include "rdmasim.h"

static struct sim_refusals *to_refusals(const struct net_device *nd)
{
	return container_of(nd->netdev_ops, struct sim_refusals, ops);
}

static bool refuses(u32 *count)
{
	u32 left = READ_ONCE(*count);

	if (left)
		WRITE_ONCE(*count, left - 1);
	return left;
}

static int sim_open(struct net_device *nd)
{
	struct sim_refusals *refusals = to_refusals(nd);

	return refuses(&refusals->open) ? -EBUSY : refusals->driver_ops->ndo_open(nd);
}

static int sim_change_mtu(struct net_device *nd, int mtu)
{
	struct sim_refusals *refusals = to_refusals(nd);

	return refuses(&refusals->mtu) ? -EBUSY : refusals->driver_ops->ndo_change_mtu(nd, mtu);
}

static int sim_set_mac_address(struct net_device *nd, void *address)
{
	struct sim_refusals *refusals = to_refusals(nd);

	if (READ_ONCE(refusals->ignore_mac))
		return 0;
	return refuses(&refusals->mac) ? -EAGAIN : refusals->driver_ops->ndo_set_mac_address(nd, address);
}

static int sim_set_vf_mac(struct net_device *nd, int vf, u8 *mac)
{
	struct sim_refusals *refusals = to_refusals(nd);

	if (READ_ONCE(refusals->ignore_mac))
		return 0;
	return refuses(&refusals->vf) ? -EAGAIN : refusals->driver_ops->ndo_set_vf_mac(nd, vf, mac);
}

static int sim_set_vf_vlan(struct net_device *nd, int vf, u16 vlan, u8 qos, __be16 proto)
{
	struct sim_refusals *refusals = to_refusals(nd);

	return refuses(&refusals->vf) ? -EAGAIN : refusals->driver_ops->ndo_set_vf_vlan(nd, vf, vlan, qos, proto);
}

static int sim_set_vf_spoofchk(struct net_device *nd, int vf, bool on)
{
	struct sim_refusals *refusals = to_refusals(nd);

	return refuses(&refusals->vf) ? -EAGAIN : refusals->driver_ops->ndo_set_vf_spoofchk(nd, vf, on);
}

static int sim_set_vf_trust(struct net_device *nd, int vf, bool on)
{
	struct sim_refusals *refusals = to_refusals(nd);

	return refuses(&refusals->vf) ? -EAGAIN : refusals->driver_ops->ndo_set_vf_trust(nd, vf, on);
}

static struct sim_ethtool *ethtool_of(const struct net_device *nd)
{
	return &container_of(to_refusals(nd), struct sim, refusals)->ethtool;
}

static int sim_hwtstamp_get(struct net_device *nd, struct kernel_hwtstamp_config *config)
{
	return sim_get_timestamps(ethtool_of(nd), config);
}

static int sim_hwtstamp_set(struct net_device *nd, struct kernel_hwtstamp_config *config,
			    struct netlink_ext_ack *extack)
{
	return sim_set_timestamps(ethtool_of(nd), config);
}

#define WRAP(member, function) \
	(refusals->ops.member = refusals->ops.member ? function : NULL)

void sim_refusals_wrap(struct sim_refusals *refusals, struct net_device *nd)
{
	ASSERT_RTNL();
	if (refusals->nd)
		return;
	refusals->nd = nd;
	refusals->driver_ops = nd->netdev_ops;
	refusals->ops = *nd->netdev_ops;
	WRAP(ndo_open, sim_open);
	WRAP(ndo_change_mtu, sim_change_mtu);
	WRAP(ndo_set_mac_address, sim_set_mac_address);
	WRAP(ndo_set_vf_mac, sim_set_vf_mac);
	WRAP(ndo_set_vf_vlan, sim_set_vf_vlan);
	WRAP(ndo_set_vf_spoofchk, sim_set_vf_spoofchk);
	WRAP(ndo_set_vf_trust, sim_set_vf_trust);
	if (to_pci_dev(nd->dev.parent)->is_virtfn) {
		refusals->ops.ndo_hwtstamp_get = sim_hwtstamp_get;
		refusals->ops.ndo_hwtstamp_set = sim_hwtstamp_set;
	}
	nd->netdev_ops = &refusals->ops;
}

void sim_refusals_unwrap(struct sim_refusals *refusals)
{
	ASSERT_RTNL();
	if (!refusals->nd)
		return;
	refusals->nd->netdev_ops = refusals->driver_ops;
	refusals->nd = NULL;
}

void sim_refusals_debugfs(struct sim_refusals *refusals, struct dentry *dir)
{
	struct dentry *counts = debugfs_create_dir("refuse", dir);

	debugfs_create_u32("open", 0644, counts, &refusals->open);
	debugfs_create_u32("mtu", 0644, counts, &refusals->mtu);
	debugfs_create_u32("mac", 0644, counts, &refusals->mac);
	debugfs_create_u32("vf", 0644, counts, &refusals->vf);
	debugfs_create_bool("ignore_mac", 0644, dir, &refusals->ignore_mac);
}
