// SPDX-License-Identifier: GPL-2.0
/*
 * DCB settings of a function's network device, which igb does not have: PFC, traffic classes and the DCBX mode.
 *
 * They have no effect on traffic. The kernel itself keeps the application priorities. As with mlx5, the port derives the
 * priority from the DSCP while there is an entry for one, LLDP of the firmware is not reported, and there is no trust order.
 */
#include <linux/debugfs.h>
#include <linux/rtnetlink.h>
#include "rdmasim.h"

static struct sim_dcb *to_dcb(const struct net_device *nd)
{
	return container_of(nd->dcbnl_ops, struct sim_dcb, ops);
}

static int sim_getpfc(struct net_device *nd, struct ieee_pfc *pfc)
{
	*pfc = to_dcb(nd)->pfc;
	return 0;
}

/* The firmware manages the settings of a port whose mode is not host. */
static bool by_host(const struct sim_dcb *dcb)
{
	return dcb->mode & DCB_CAP_DCBX_HOST;
}

static int sim_setpfc(struct net_device *nd, struct ieee_pfc *pfc)
{
	struct sim_dcb *dcb = to_dcb(nd);

	if (!by_host(dcb))
		return -EINVAL;
	dcb->pfc.pfc_en = pfc->pfc_en;
	dcb->pfc.delay = pfc->delay;
	return 0;
}

static int sim_getets(struct net_device *nd, struct ieee_ets *ets)
{
	*ets = to_dcb(nd)->ets;
	return 0;
}

static int sim_setets(struct net_device *nd, struct ieee_ets *ets)
{
	struct sim_dcb *dcb = to_dcb(nd);
	int class, sum = 0, shares = 0;

	if (!by_host(dcb))
		return -EINVAL;
	for (class = 0; class < IEEE_8021QAZ_MAX_TCS; class++) {
		if (ets->prio_tc[class] >= IEEE_8021QAZ_MAX_TCS)
			return -EINVAL;
		if (ets->tc_tsa[class] != IEEE_8021QAZ_TSA_ETS)
			continue;
		sum += ets->tc_tx_bw[class];
		shares++;
	}
	if (shares && sum != 100)
		return -EINVAL;
	dcb->ets = *ets;
	dcb->ets.ets_cap = IEEE_8021QAZ_MAX_TCS;
	return 0;
}

static u8 sim_getdcbx(struct net_device *nd)
{
	return to_dcb(nd)->mode;
}

/* The result is 0 or 1. 0 as the mode gives the settings back to the firmware. */
static u8 sim_setdcbx(struct net_device *nd, u8 mode)
{
	if (mode & (DCB_CAP_DCBX_LLD_MANAGED | DCB_CAP_DCBX_VER_CEE))
		return 1;
	to_dcb(nd)->mode = DCB_CAP_DCBX_VER_IEEE | (mode & DCB_CAP_DCBX_HOST);
	return 0;
}

static const struct dcbnl_rtnl_ops sim_dcbnl_ops = {
	.ieee_getpfc = sim_getpfc,
	.ieee_setpfc = sim_setpfc,
	.ieee_getets = sim_getets,
	.ieee_setets = sim_setets,
	.getdcbx = sim_getdcbx,
	.setdcbx = sim_setdcbx,
};

static void sim_dcb_reset(struct sim_dcb *dcb)
{
	dcb->ops = sim_dcbnl_ops;
	dcb->mode = DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE;
	dcb->pfc = (struct ieee_pfc){ .pfc_cap = IEEE_8021QAZ_MAX_TCS };
	dcb->ets = (struct ieee_ets){ .ets_cap = IEEE_8021QAZ_MAX_TCS };
}

void sim_dcb_wrap(struct sim_dcb *dcb, struct net_device *nd)
{
	ASSERT_RTNL();
	dcb->nd = nd;
	if (dcb->on)
		nd->dcbnl_ops = &dcb->ops;
}

void sim_dcb_unwrap(struct sim_dcb *dcb)
{
	ASSERT_RTNL();
	if (dcb->nd && dcb->on)
		dcb->nd->dcbnl_ops = NULL;
	dcb->nd = NULL;
}

static int sim_dcb_get(void *data, u64 *on)
{
	*on = ((struct sim_dcb *)data)->on;
	return 0;
}

/* Each change of the value begins with the settings of a card that was reset. */
static int sim_dcb_set(void *data, u64 on)
{
	struct sim_dcb *dcb = data;
	struct net_device *nd;

	rtnl_lock();
	nd = dcb->nd;
	sim_dcb_unwrap(dcb);
	sim_dcb_reset(dcb);
	dcb->on = on;
	if (nd)
		sim_dcb_wrap(dcb, nd);
	rtnl_unlock();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(sim_dcb_fops, sim_dcb_get, sim_dcb_set, "%llu\n");

void sim_dcb_debugfs(struct sim_dcb *dcb, struct dentry *dir)
{
	debugfs_create_file("dcb", 0644, dir, dcb, &sim_dcb_fops);
}
