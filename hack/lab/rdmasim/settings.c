// SPDX-License-Identifier: GPL-2.0
/*
 * Settings of a VF's network device that igbvf does not have and the drivers of RDMA cards do. They have no effect; the
 * kernel or this file only keeps them, also when the link moves to another network namespace, as those drivers do.
 */
#include <linux/debugfs.h>
#include <linux/rtnetlink.h>
#include "rdmasim.h"

#define RSS_TABLE	4
#define RSS_KEY		4

static struct sim_ethtool *to_ethtool(const struct net_device *nd)
{
	return container_of(nd->ethtool_ops, struct sim_ethtool, ops);
}

static int sim_get_coalesce(struct net_device *nd, struct ethtool_coalesce *coalesce,
			    struct kernel_ethtool_coalesce *kernel_coalesce, struct netlink_ext_ack *extack)
{
	struct sim_ethtool *ethtool = to_ethtool(nd);

	kernel_coalesce->use_cqe_mode_rx = ethtool->settings.coalesce.use_cqe_mode_rx;
	kernel_coalesce->use_cqe_mode_tx = ethtool->settings.coalesce.use_cqe_mode_tx;
	return ethtool->driver_ops->get_coalesce(nd, coalesce, kernel_coalesce, extack);
}

static int sim_set_coalesce(struct net_device *nd, struct ethtool_coalesce *coalesce,
			    struct kernel_ethtool_coalesce *kernel_coalesce, struct netlink_ext_ack *extack)
{
	struct sim_ethtool *ethtool = to_ethtool(nd);
	int ret = ethtool->driver_ops->set_coalesce(nd, coalesce, kernel_coalesce, extack);

	if (!ret)
		ethtool->settings.coalesce = *kernel_coalesce;
	return ret;
}

static void sim_get_ringparam(struct net_device *nd, struct ethtool_ringparam *ring,
			      struct kernel_ethtool_ringparam *kernel_ring, struct netlink_ext_ack *extack)
{
	struct sim_ethtool *ethtool = to_ethtool(nd);

	kernel_ring->cqe_size = ethtool->settings.ring.cqe_size;
	kernel_ring->tx_push = ethtool->settings.ring.tx_push;
	ethtool->driver_ops->get_ringparam(nd, ring, kernel_ring, extack);
}

static int sim_set_ringparam(struct net_device *nd, struct ethtool_ringparam *ring,
			     struct kernel_ethtool_ringparam *kernel_ring, struct netlink_ext_ack *extack)
{
	struct sim_ethtool *ethtool = to_ethtool(nd);
	int ret = ethtool->driver_ops->set_ringparam(nd, ring, kernel_ring, extack);

	if (!ret)
		ethtool->settings.ring = *kernel_ring;
	return ret;
}

static int sim_get_tunable(struct net_device *nd, const struct ethtool_tunable *tunable, void *data)
{
	if (tunable->id != ETHTOOL_RX_COPYBREAK)
		return -EINVAL;
	*(u32 *)data = to_ethtool(nd)->settings.rx_copybreak;
	return 0;
}

static int sim_set_tunable(struct net_device *nd, const struct ethtool_tunable *tunable, const void *data)
{
	if (tunable->id != ETHTOOL_RX_COPYBREAK)
		return -EINVAL;
	to_ethtool(nd)->settings.rx_copybreak = *(u32 *)data;
	return 0;
}

static int sim_get_rxnfc(struct net_device *nd, struct ethtool_rxnfc *info, u32 *rules)
{
	if (info->cmd != ETHTOOL_GRXRINGS)
		return -EOPNOTSUPP;
	info->data = 1;
	return 0;
}

static u32 sim_get_rxfh_indir_size(struct net_device *nd)
{
	return RSS_TABLE;
}

static u32 sim_get_rxfh_key_size(struct net_device *nd)
{
	return RSS_KEY;
}

static int sim_get_rxfh(struct net_device *nd, struct ethtool_rxfh_param *rxfh)
{
	rxfh->hfunc = ETH_RSS_HASH_TOP;
	if (rxfh->indir)
		memset(rxfh->indir, 0, RSS_TABLE * sizeof(*rxfh->indir));
	if (rxfh->key)
		memset(rxfh->key, 1, RSS_KEY);
	return 0;
}

/* There is only one queue, and the key cannot be changed. */
static int sim_set_rxfh(struct net_device *nd, struct ethtool_rxfh_param *rxfh, struct netlink_ext_ack *extack)
{
	return rxfh->key ? -EOPNOTSUPP : 0;
}

/* The kernel keeps the contexts. */
static int sim_create_rxfh_context(struct net_device *nd, struct ethtool_rxfh_context *context,
				   const struct ethtool_rxfh_param *rxfh, struct netlink_ext_ack *extack)
{
	memset(ethtool_rxfh_context_key(context), 1, RSS_KEY);
	return 0;
}

static int sim_modify_rxfh_context(struct net_device *nd, struct ethtool_rxfh_context *context,
				   const struct ethtool_rxfh_param *rxfh, struct netlink_ext_ack *extack)
{
	return 0;
}

static int sim_remove_rxfh_context(struct net_device *nd, struct ethtool_rxfh_context *context, u32 number,
				   struct netlink_ext_ack *extack)
{
	return 0;
}

int sim_get_timestamps(struct sim_ethtool *ethtool, struct kernel_hwtstamp_config *config)
{
	config->tx_type = ethtool->settings.tx_type;
	config->rx_filter = ethtool->settings.rx_filter;
	return 0;
}

int sim_set_timestamps(struct sim_ethtool *ethtool, const struct kernel_hwtstamp_config *config)
{
	ethtool->settings.tx_type = config->tx_type;
	ethtool->settings.rx_filter = config->rx_filter;
	return 0;
}

void sim_settings_wrap(struct sim_ethtool *ethtool)
{
	struct ethtool_ops *ops = &ethtool->ops;

	ops->supported_coalesce_params |= ETHTOOL_COALESCE_USE_CQE;
	ops->get_coalesce = sim_get_coalesce;
	ops->set_coalesce = sim_set_coalesce;
	ops->supported_ring_params |= ETHTOOL_RING_USE_CQE_SIZE | ETHTOOL_RING_USE_TX_PUSH;
	ops->get_ringparam = sim_get_ringparam;
	ops->set_ringparam = sim_set_ringparam;
	ops->get_tunable = sim_get_tunable;
	ops->set_tunable = sim_set_tunable;
	ops->get_rxnfc = sim_get_rxnfc;
	ops->get_rxfh_indir_size = sim_get_rxfh_indir_size;
	ops->get_rxfh_key_size = sim_get_rxfh_key_size;
	ops->get_rxfh = sim_get_rxfh;
	ops->set_rxfh = sim_set_rxfh;
	ops->create_rxfh_context = sim_create_rxfh_context;
	ops->modify_rxfh_context = sim_modify_rxfh_context;
	ops->remove_rxfh_context = sim_remove_rxfh_context;
	if (!ethtool->settings.ring.cqe_size)
		ethtool->settings.ring.cqe_size = 64;
}

/* Before the driver's own operations are restored for good: the kernel would call those that it lacks to remove the contexts. */
void sim_settings_remove(struct sim_ethtool *ethtool)
{
	struct ethtool_rxfh_context *context;
	struct ethtool_netdev_state *state;
	unsigned long number;

	ASSERT_RTNL();
	if (!ethtool->nd)
		return;
	state = ethtool->nd->ethtool;
	mutex_lock(&state->rss_lock);
	xa_for_each(&state->rss_ctx, number, context) {
		xa_erase(&state->rss_ctx, number);
		kfree(context);
	}
	mutex_unlock(&state->rss_lock);
}

void sim_settings_debugfs(struct sim_ethtool *ethtool, struct dentry *dir)
{
	debugfs_create_u32("timestamps", 0444, dir, &ethtool->settings.rx_filter);
}
