// SPDX-License-Identifier: GPL-2.0
/*
 * ethtool operations of a function's network device: mlx5's statistics instead of the driver's, and a speed.
 *
 * The device's ethtool_ops are a copy of the driver's with replaced operations for these. They are called and replaced
 * under RTNL only, so that none runs after the module is removed.
 */
#include <linux/debugfs.h>
#include <linux/rtnetlink.h>
#include "rdmasim.h"

#define VPORT(way)					\
	way "_vport_unicast_packets",			\
	way "_vport_unicast_bytes",			\
	way "_vport_rdma_unicast_packets",		\
	way "_vport_rdma_unicast_bytes",		\
	way "_vport_rdma_multicast_packets",		\
	way "_vport_rdma_multicast_bytes"

#define PRIORITY(n)					\
	"rx_prio" #n "_pause",				\
	"rx_prio" #n "_pause_duration",			\
	"rx_prio" #n "_pause_transition",		\
	"rx_prio" #n "_discards",			\
	"tx_prio" #n "_pause",				\
	"tx_prio" #n "_pause_duration",			\
	"tx_prio" #n "_discards"

#define PRIORITY_PHY(n)				\
	"rx_prio" #n "_bytes",			\
	"rx_prio" #n "_packets",		\
	"tx_prio" #n "_bytes",			\
	"tx_prio" #n "_packets"

/* The names of mlx5, except for tx_prioN_discards. */
static const char stat_names[][ETH_GSTRING_LEN] = {
	VPORT("rx"), VPORT("tx"),
	PRIORITY(0), PRIORITY(1), PRIORITY(2), PRIORITY(3), PRIORITY(4), PRIORITY(5), PRIORITY(6), PRIORITY(7),
#define VF_STATS	(12 + 8 * 7)
	/* only for PFs */
	"rx_discards_phy",
	"tx_discards_phy",
	"rx_crc_errors_phy",
	"rx_symbol_err_phy",
	"link_down_events_phy",
	"tx_pause_storm_warning_events",
	"tx_pause_storm_error_events",
	"outbound_pci_stalled_rd",
	"outbound_pci_stalled_wr",
	"outbound_pci_stalled_rd_events",
	"outbound_pci_stalled_wr_events",
	"outbound_pci_buffer_overflow",
	"dev_out_of_buffer",
	"rx_steer_missed_packets",
	PRIORITY_PHY(0), PRIORITY_PHY(1), PRIORITY_PHY(2), PRIORITY_PHY(3),
	PRIORITY_PHY(4), PRIORITY_PHY(5), PRIORITY_PHY(6), PRIORITY_PHY(7),
};
static_assert(ARRAY_SIZE(stat_names) == SIM_ETHTOOL_STATS);

static unsigned int stats_of(const struct pci_dev *pdev)
{
	return pdev->is_virtfn ? VF_STATS : ARRAY_SIZE(stat_names);
}

static unsigned int stats_of_netdev(const struct net_device *nd)
{
	return stats_of(to_pci_dev(nd->dev.parent));
}

static struct sim_ethtool *to_ethtool(const struct net_device *nd)
{
	return container_of(nd->ethtool_ops, struct sim_ethtool, ops);
}

static int sim_get_sset_count(struct net_device *nd, int set)
{
	return set == ETH_SS_STATS ? stats_of_netdev(nd) : to_ethtool(nd)->driver_ops->get_sset_count(nd, set);
}

static void sim_get_strings(struct net_device *nd, u32 set, u8 *data)
{
	if (set == ETH_SS_STATS)
		memcpy(data, stat_names, stats_of_netdev(nd) * ETH_GSTRING_LEN);
	else
		to_ethtool(nd)->driver_ops->get_strings(nd, set, data);
}

static void sim_get_ethtool_stats(struct net_device *nd, struct ethtool_stats *stats, u64 *data)
{
	memcpy(data, to_ethtool(nd)->stats, stats_of_netdev(nd) * sizeof(*data));
}

/* As with mlx5, a link without a carrier has no speed; igbvf would report one. */
static int sim_get_link_ksettings(struct net_device *nd, struct ethtool_link_ksettings *settings)
{
	struct sim_ethtool *ethtool = to_ethtool(nd);
	u32 speed = READ_ONCE(ethtool->speed_mbps);
	int ret = ethtool->driver_ops->get_link_ksettings(nd, settings);

	if (!ret && speed)
		settings->base.speed = netif_carrier_ok(nd) ? speed : SPEED_UNKNOWN;
	return ret;
}

void sim_ethtool_wrap(struct sim_ethtool *ethtool, struct net_device *nd)
{
	ASSERT_RTNL();
	if (ethtool->nd)
		return;
	ethtool->nd = nd;
	ethtool->driver_ops = nd->ethtool_ops;
	ethtool->ops = *nd->ethtool_ops;
	ethtool->ops.get_sset_count = sim_get_sset_count;
	ethtool->ops.get_strings = sim_get_strings;
	ethtool->ops.get_ethtool_stats = sim_get_ethtool_stats;
	ethtool->ops.get_link_ksettings = sim_get_link_ksettings;
	if (to_pci_dev(nd->dev.parent)->is_virtfn)
		sim_settings_wrap(ethtool);
	nd->ethtool_ops = &ethtool->ops;
}

void sim_ethtool_unwrap(struct sim_ethtool *ethtool)
{
	ASSERT_RTNL();
	if (!ethtool->nd)
		return;
	ethtool->nd->ethtool_ops = ethtool->driver_ops;
	ethtool->nd = NULL;
}

void sim_ethtool_debugfs(struct sim_ethtool *ethtool, struct pci_dev *pdev, struct dentry *dir)
{
	struct dentry *values = debugfs_create_dir("ethtool", dir);
	int i;

	if (pdev->is_virtfn)
		sim_settings_debugfs(ethtool, dir);
	debugfs_create_u32("speed_mbps", 0644, dir, &ethtool->speed_mbps);
	for (i = 0; i < stats_of(pdev); i++)
		debugfs_create_u64(stat_names[i], 0644, values, &ethtool->stats[i]);
}
