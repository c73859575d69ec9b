/* SPDX-License-Identifier: GPL-2.0 */
/* Interfaces between the parts of rdmasim; see device.c for an overview. */
#ifndef RDMASIM_H
#define RDMASIM_H

#include <linux/dcbnl.h>
#include <linux/ethtool.h>
#include <linux/net_tstamp.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <net/dcbnl.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_verbs.h>

#define SIM_MAX_DELAY_MS	60000

/* counters.c: counter operations for ib_core. */

#define SIM_HW_COUNTERS		31
#define SIM_PMA_DATA_COUNTERS	8
#define SIM_PMA_ERROR_COUNTERS	13

struct sim_counters {
	u64 hw[SIM_HW_COUNTERS];
	u64 pma_data[SIM_PMA_DATA_COUNTERS];
	u64 pma_errors[SIM_PMA_ERROR_COUNTERS];
	u32 slow_stats_ms;
	bool grow;
	bool refuse_errors;
};

struct rdma_hw_stats *sim_alloc_hw_port_stats(struct ib_device *ib, u32 port);
int sim_get_hw_stats(struct ib_device *ib, struct rdma_hw_stats *stats, u32 port, int index);
int sim_modify_hw_stat(struct ib_device *ib, u32 port, unsigned int index, bool enable);
int sim_process_mad(struct ib_device *ib, int flags, u32 port, const struct ib_wc *wc, const struct ib_grh *grh,
		    const struct ib_mad *in, struct ib_mad *out, size_t *out_size, u16 *out_pkey_index);
void sim_counters_debugfs(struct sim_counters *counters, struct dentry *dir);

/* ethtool.c: ethtool operations of a function's network device. */

#define SIM_ETHTOOL_STATS	114

/* What only VFs have; see settings.c. */
struct sim_settings {
	struct kernel_ethtool_coalesce coalesce;
	struct kernel_ethtool_ringparam ring;
	u32 rx_copybreak;
	u32 tx_type, rx_filter;			/* of packets with time stamps */
};

struct sim_ethtool {
	struct ethtool_ops ops;			/* the driver's, except for what is simulated */
	const struct ethtool_ops *driver_ops;
	struct net_device *nd;			/* NULL: the driver's own are in use */
	u64 stats[SIM_ETHTOOL_STATS];
	u32 speed_mbps;
	struct sim_settings settings;
};

void sim_ethtool_wrap(struct sim_ethtool *ethtool, struct net_device *nd);
void sim_ethtool_unwrap(struct sim_ethtool *ethtool);
void sim_ethtool_debugfs(struct sim_ethtool *ethtool, struct pci_dev *pdev, struct dentry *dir);

/* settings.c: further settings of a VF's network device. */

void sim_settings_wrap(struct sim_ethtool *ethtool);
void sim_settings_remove(struct sim_ethtool *ethtool);
void sim_settings_debugfs(struct sim_ethtool *ethtool, struct dentry *dir);
int sim_get_timestamps(struct sim_ethtool *ethtool, struct kernel_hwtstamp_config *config);
int sim_set_timestamps(struct sim_ethtool *ethtool, const struct kernel_hwtstamp_config *config);

/* dcb.c: DCB settings of a function's network device. */

struct sim_dcb {
	struct dcbnl_rtnl_ops ops;
	struct net_device *nd;			/* NULL: the function has none */
	bool on;
	struct ieee_pfc pfc;
	struct ieee_ets ets;
	u8 mode;				/* DCB_CAP_DCBX_* */
};

void sim_dcb_wrap(struct sim_dcb *dcb, struct net_device *nd);
void sim_dcb_unwrap(struct sim_dcb *dcb);
void sim_dcb_debugfs(struct sim_dcb *dcb, struct dentry *dir);

/* refusals.c: refusals of a function's network device. */

struct sim_refusals {
	struct net_device_ops ops;		/* the driver's, except for what can be refused */
	const struct net_device_ops *driver_ops;
	struct net_device *nd;			/* NULL: the driver's own are in use */
	u32 open, mtu, mac, vf;			/* numbers of following calls to refuse */
	bool ignore_mac;
};

void sim_refusals_wrap(struct sim_refusals *refusals, struct net_device *nd);
void sim_refusals_unwrap(struct sim_refusals *refusals);
void sim_refusals_debugfs(struct sim_refusals *refusals, struct dentry *dir);

/* scalable.c: scalable functions of a PF. */

int sim_scalable_init(void);
void sim_scalable_exit(void);
void sim_scalable_remove(struct pci_dev *pf);
void sim_scalable_debugfs(struct pci_dev *pf, struct dentry *dir);

/* tclass.c: the traffic class in sysfs. */

#define SIM_NO_TCLASS	(-1)

struct sim_tclass {
	struct kobject *dir;
	struct kobject *port;
	struct kobj_attribute attr;
	int value;
};

void sim_tclass_add(struct sim_tclass *tclass, struct kobject *device);
void sim_tclass_remove(struct sim_tclass *tclass);
void sim_tclass_debugfs(struct sim_tclass *tclass, struct dentry *dir);

/* infiniband.c: InfiniBand functions. */

int sim_infiniband_init(struct dentry *root);
void sim_infiniband_exit(void);

/* device.c */

struct sim {
	struct ib_device ib;		/* first, as ib_alloc_device() requires */
	struct pci_dev *pdev;		/* of a scalable function: the PF */
	unsigned int twin;		/* 0: the function's first device, which has its settings */
	struct list_head node;		/* in sims */
	struct dentry *dir;
	struct sim_counters counters;
	struct sim_ethtool ethtool;	/* of twin 0 of a PCI function */
	struct sim_dcb dcb;		/* the same */
	struct sim_refusals refusals;	/* the same */
	struct sim_tclass tclass;
	atomic_t last_qpn;
	u32 gid_delay_ms;
	u32 slow_board_id_ms;
	u32 slow_enable_ms;
	bool gid_refuse;
	bool infiniband;
};

static inline struct sim *to_sim(struct ib_device *ib)
{
	return container_of(ib, struct sim, ib);
}

void sim_sleep(const u32 *ms);
void sim_create(struct device *function, struct pci_dev *pdev, unsigned int twin);
void sim_destroy(struct device *function, unsigned int twin);

#endif
