// SPDX-License-Identifier: GPL-2.0
/*
 * rdmasim: an RDMA device without a data path for every network function that igb or igbvf drives.
 *
 * The kernel itself implements names, namespaces, GIDs, uverbs nodes, sysfs and netlink. This driver only registers
 * with ib_core, follows its network device between network namespaces, and provides counter values. InfiniBand functions
 * are in infiniband.c. Tests set the
 * values, and inject faults, in debugfs:
 *
 *   /sys/kernel/debug/rdmasim/<pci address>[-twin[N]]/
 *     counters/<name>        a hardware counter (hw_counters in sysfs, rdma statistic); u64
 *     port_counters/<name>   a standard counter of the port (counters in sysfs); u64
 *     port_counters_refuse   Y: the error counters among them cannot be read (EINVAL)
 *     grow                   Y: every read of the hardware counters adds 1 to each
 *     slow_board_id_ms       delay of reads of board_id in sysfs
 *     slow_enable_ms         delay of a move, between release and allocation of the character device numbers
 *     slow_stats_ms          delay of reads of the hardware counters
 *     gid_delay_ms           delay until a new GID appears; 0 ends a running delay
 *     gid_refuse             Y: new GIDs are refused
 *     infiniband             Y: the port reports InfiniBand; nothing else changes
 *     fail_move              Y: the device cannot change its network namespace (EOPNOTSUPP)
 *     traffic_class          the port's traffic class (MLNX_OFED's tc/1/traffic_class in sysfs); -1: none is set
 *     twins                  the number of additional RDMA devices of the PCI function (-twin, -twin2, ...)
 *     ethtool/<name>         a statistic of the function's network device (ethtool -S); u64
 *     dcb                    1: the network device has DCB settings; see dcb.c
 *     refuse/open            the number of following calls that set the network device up which fail with EBUSY
 *     refuse/mtu             the same for calls that change its MTU
 *     refuse/mac             the number of following calls that change its address which fail with EAGAIN
 *     refuse/vf              the same for settings of a VF (mac, vlan, spoofchk, trust) through this PF
 *     ignore_mac             Y: changes of the network device's address, or of that of a VF through this PF, have no effect
 *     scalable_functions     of a PF: the number of its scalable functions; see scalable.c
 *     timestamps             of a VF: which received packets have time stamps (HWTSTAMP_FILTER_); read-only
 *     speed_mbps             the network device's speed while it has a carrier; 0: the driver's value
 *
 * Lock order, outermost first: the PCI device's lock, RTNL, sims_lock.
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <rdma/ib_addr.h>
#include "rdmasim.h"

#define GID_TABLE_LEN	255
#define TWIN_GID_TABLE_LEN	32	/* each entry has three files in sysfs, which make the registration slow */
#define MAX_TWINS	31

struct sim_cq { struct ib_cq ib; };
struct sim_pd { struct ib_pd ib; };
struct sim_qp { struct ib_qp ib; };
struct sim_ucontext { struct ib_ucontext ib; };

static LIST_HEAD(sims);
static DEFINE_MUTEX(sims_lock);
static struct workqueue_struct *sim_wq;
static struct dentry *sim_root;

/* Sleeps while the value exceeds the time slept, so that writing 0 ends the sleep. */
void sim_sleep(const u32 *ms)
{
	u32 slept;

	for (slept = 0; slept < min_t(u32, READ_ONCE(*ms), SIM_MAX_DELAY_MS); slept += 10)
		msleep(10);
}

/* ---- operations for ib_core ---------------------------------------------------------------------------------- */

static int sim_query_device(struct ib_device *ib, struct ib_device_attr *attr, struct ib_udata *udata)
{
	memset(attr, 0, sizeof(*attr));
	attr->vendor_id = PCI_VENDOR_ID_MELLANOX;
	attr->vendor_part_id = to_sim(ib)->pdev->is_virtfn ? 0x1018 : 0x1017;	/* ConnectX-5 */
	attr->sys_image_guid = ib->node_guid;
	attr->max_qp = 128;
	attr->max_cq = 128;
	attr->max_mr = 128;
	attr->max_pd = 128;
	attr->max_pkeys = 1;
	return 0;
}

static int sim_gid_table_len(struct ib_device *ib)
{
	return to_sim(ib)->twin ? TWIN_GID_TABLE_LEN : GID_TABLE_LEN;
}

static int sim_query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	struct net_device *nd = ib_device_get_netdev(ib, port);

	attr->state = IB_PORT_DOWN;
	attr->phys_state = IB_PORT_PHYS_STATE_DISABLED;
	attr->active_mtu = IB_MTU_1024;
	if (nd) {
		attr->active_mtu = iboe_get_mtu(READ_ONCE(nd->mtu));
		if (netif_running(nd) && netif_carrier_ok(nd)) {
			attr->state = IB_PORT_ACTIVE;
			attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
		}
		dev_put(nd);
	}
	attr->max_mtu = IB_MTU_4096;
	attr->gid_tbl_len = sim_gid_table_len(ib);
	attr->pkey_tbl_len = 1;
	attr->max_msg_sz = 1 << 30;
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_EDR;
	attr->ip_gids = 1;
	return 0;
}

static int sim_get_port_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = sim_gid_table_len(ib);
	immutable->pkey_tbl_len = 1;
	/* The same as for mlx5, so that a umad node is created. */
	immutable->core_cap_flags = RDMA_CORE_CAP_PROT_ROCE | RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP | RDMA_CORE_CAP_IB_MAD;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

static enum rdma_link_layer sim_get_link_layer(struct ib_device *ib, u32 port)
{
	return READ_ONCE(to_sim(ib)->infiniband) ? IB_LINK_LAYER_INFINIBAND : IB_LINK_LAYER_ETHERNET;
}

static int sim_query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey)
{
	if (index)
		return -EINVAL;
	*pkey = 0xffff;
	return 0;
}

/* Called from ib_core's GID work queue, which all devices share: a delay here also delays the GIDs of other devices. */
static int sim_add_gid(const struct ib_gid_attr *attr, void **context)
{
	struct sim *sim = to_sim(attr->device);

	sim_sleep(&sim->gid_delay_ms);
	return READ_ONCE(sim->gid_refuse) ? -ENOSPC : 0;
}

static int sim_del_gid(const struct ib_gid_attr *attr, void **context)
{
	return 0;
}

static int sim_alloc_ucontext(struct ib_ucontext *context, struct ib_udata *udata)
{
	return 0;
}

static void sim_dealloc_ucontext(struct ib_ucontext *context)
{
}

/* A device can change its network namespace only if this operation exists. */
static void sim_disassociate_ucontext(struct ib_ucontext *context)
{
}

/*
 * ib_core registers a device with kernel clients such as umad only if it has all of these operations. The clients first
 * request a memory region, which fails.
 */
static struct ib_mr *sim_get_dma_mr(struct ib_pd *pd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static struct ib_mr *sim_reg_user_mr(struct ib_pd *pd, u64 start, u64 len, u64 address, int access, struct ib_udata *udata)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static int sim_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	return 0;
}

/* Programs can create queue pairs, which carry no traffic; the kernel's own clients have no memory region for them. */
static int sim_create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr, struct uverbs_attr_bundle *attrs)
{
	return attrs ? 0 : -EOPNOTSUPP;
}

static int sim_destroy_cq(struct ib_cq *cq, struct ib_udata *udata)
{
	return 0;
}

static int sim_poll_cq(struct ib_cq *cq, int entries, struct ib_wc *wc)
{
	return 0;
}

static int sim_req_notify_cq(struct ib_cq *cq, enum ib_cq_notify_flags flags)
{
	return 0;
}

static int sim_create_qp(struct ib_qp *qp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	if (!udata)
		return -EOPNOTSUPP;
	qp->qp_num = atomic_inc_return(&to_sim(qp->device)->last_qpn);
	return 0;
}

static int sim_query_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask, struct ib_qp_init_attr *init_attr)
{
	attr->qp_state = IB_QPS_RTS;
	return 0;
}

static int sim_modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	return -EOPNOTSUPP;
}

static int sim_destroy_qp(struct ib_qp *qp, struct ib_udata *udata)
{
	return 0;
}

static int sim_post_send(struct ib_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	return -EOPNOTSUPP;
}

static int sim_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	return -EOPNOTSUPP;
}

/* Without user data the caller is ib_mad, the first client of a device. */
static int sim_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	if (!udata)
		sim_sleep(&to_sim(pd->device)->slow_enable_ms);
	return 0;
}

static int sim_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int sim_mmap(struct ib_ucontext *context, struct vm_area_struct *vma)
{
	return -EINVAL;
}

static ssize_t board_id_show(struct device *device, struct device_attribute *attr, char *buf)
{
	struct sim *sim = rdma_device_to_drv_device(device, struct sim, ib);

	sim_sleep(&sim->slow_board_id_ms);
	return sysfs_emit(buf, "SIM0000000001\n");
}
static DEVICE_ATTR_RO(board_id);

static struct attribute *sim_attributes[] = {
	&dev_attr_board_id.attr,
	NULL
};

static const struct attribute_group sim_attribute_group = { .attrs = sim_attributes };

static const struct ib_device_ops sim_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = 1,
	.uverbs_no_driver_id_binding = 1,

	.query_device = sim_query_device,
	.query_port = sim_query_port,
	.query_pkey = sim_query_pkey,
	.get_port_immutable = sim_get_port_immutable,
	.get_link_layer = sim_get_link_layer,
	.add_gid = sim_add_gid,
	.del_gid = sim_del_gid,
	.alloc_ucontext = sim_alloc_ucontext,
	.dealloc_ucontext = sim_dealloc_ucontext,
	.disassociate_ucontext = sim_disassociate_ucontext,
	.get_dma_mr = sim_get_dma_mr,
	.reg_user_mr = sim_reg_user_mr,
	.dereg_mr = sim_dereg_mr,
	.create_cq = sim_create_cq,
	.destroy_cq = sim_destroy_cq,
	.poll_cq = sim_poll_cq,
	.req_notify_cq = sim_req_notify_cq,
	.create_qp = sim_create_qp,
	.modify_qp = sim_modify_qp,
	.query_qp = sim_query_qp,
	.destroy_qp = sim_destroy_qp,
	.post_send = sim_post_send,
	.post_recv = sim_post_recv,
	.alloc_pd = sim_alloc_pd,
	.dealloc_pd = sim_dealloc_pd,
	.mmap = sim_mmap,
	.device_group = &sim_attribute_group,
	.alloc_hw_port_stats = sim_alloc_hw_port_stats,
	.get_hw_stats = sim_get_hw_stats,
	.modify_hw_stat = sim_modify_hw_stat,
	.process_mad = sim_process_mad,

	INIT_RDMA_OBJ_SIZE(ib_cq, sim_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_pd, sim_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, sim_qp, ib),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, sim_ucontext, ib),
};

/* ---- debugfs ------------------------------------------------------------------------------------------------ */

static void sim_queue(struct pci_dev *pdev, unsigned int twins);

static struct sim *sim_find(struct device *function, unsigned int twin)
{
	struct sim *sim;

	lockdep_assert_held(&sims_lock);
	list_for_each_entry(sim, &sims, node)
		if (sim->ib.dev.parent == function && sim->twin == twin)
			return sim;
	return NULL;
}

static int sim_twins_get(void *data, u64 *value)
{
	struct sim *first = data, *sim;

	*value = 0;
	mutex_lock(&sims_lock);
	list_for_each_entry(sim, &sims, node)
		if (sim->ib.dev.parent == first->ib.dev.parent && sim->twin)
			++*value;
	mutex_unlock(&sims_lock);
	return 0;
}

static int sim_twins_set(void *data, u64 value)
{
	struct sim *first = data;

	if (value > MAX_TWINS)
		return -EINVAL;
	sim_queue(first->pdev, value);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(sim_twins_fops, sim_twins_get, sim_twins_set, "%llu\n");

static int sim_fail_move_get(void *data, u64 *value)
{
	struct sim *sim = data;

	*value = !sim->ib.ops.disassociate_ucontext;
	return 0;
}

/* Do not change while a process has the device's uverbs node open: ib_uverbs reads the same pointer. */
static int sim_fail_move_set(void *data, u64 value)
{
	struct sim *sim = data;

	WRITE_ONCE(sim->ib.ops.disassociate_ucontext, value ? NULL : sim_disassociate_ucontext);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(sim_fail_move_fops, sim_fail_move_get, sim_fail_move_set, "%llu\n");

static void sim_debugfs(struct sim *sim)
{
	char number[4] = "", name[64];

	if (sim->twin > 1)
		snprintf(number, sizeof(number), "%u", sim->twin);
	snprintf(name, sizeof(name), "%s%s%s", dev_name(sim->ib.dev.parent), sim->twin ? "-twin" : "", number);
	sim->dir = debugfs_create_dir(name, sim_root);
	debugfs_create_bool("infiniband", 0644, sim->dir, &sim->infiniband);
	debugfs_create_bool("gid_refuse", 0644, sim->dir, &sim->gid_refuse);
	debugfs_create_u32("gid_delay_ms", 0644, sim->dir, &sim->gid_delay_ms);
	debugfs_create_u32("slow_board_id_ms", 0644, sim->dir, &sim->slow_board_id_ms);
	debugfs_create_u32("slow_enable_ms", 0644, sim->dir, &sim->slow_enable_ms);
	debugfs_create_file("fail_move", 0644, sim->dir, sim, &sim_fail_move_fops);
	sim_counters_debugfs(&sim->counters, sim->dir);
	sim_tclass_debugfs(&sim->tclass, sim->dir);
	if (sim->twin || !dev_is_pci(sim->ib.dev.parent))
		return;
	if (!sim->pdev->is_virtfn)
		sim_scalable_debugfs(sim->pdev, sim->dir);
	debugfs_create_file("twins", 0644, sim->dir, sim, &sim_twins_fops);
	sim_ethtool_debugfs(&sim->ethtool, sim->pdev, sim->dir);
	sim_dcb_debugfs(&sim->dcb, sim->dir);
	sim_refusals_debugfs(&sim->refusals, sim->dir);
}

/* ---- creation and removal of devices ------------------------------------------------------------------------ */

/*
 * The GUID of a PF is the EUI-64 of its MAC. The GUID of a VF is that of its PF with the VF number in place of the fe in
 * the middle, because the MAC of a VF is random and changes. The GUID of a twin has its number in place of the ff.
 */
static void sim_set_guid(struct sim *sim, struct net_device *nd)
{
	u8 *guid = (u8 *)&sim->ib.node_guid;
	struct sim *pf;

	addrconf_addr_eui48(guid, nd->dev_addr);
	if (sim->pdev->is_virtfn) {
		mutex_lock(&sims_lock);
		pf = sim_find(&pci_physfn(sim->pdev)->dev, 0);
		if (pf) {
			memcpy(guid, &pf->ib.node_guid, sizeof(pf->ib.node_guid));
			guid[4] = 1 + pci_iov_vf_id(sim->pdev);
		}
		mutex_unlock(&sims_lock);
	}
	guid[3] -= sim->twin;
}

static struct net_device *sim_netdev_of(struct device *function)
{
	struct net_device *nd;
	struct net *net;

	ASSERT_RTNL();
	for_each_net(net)
		for_each_netdev(net, nd)
			if (nd->dev.parent == function)
				return nd;
	return NULL;
}

/* Under RTNL. */
static void sim_wrap(struct sim *sim, struct net_device *nd)
{
	if (sim->twin || !dev_is_pci(sim->ib.dev.parent))
		return;
	sim_ethtool_wrap(&sim->ethtool, nd);
	sim_dcb_wrap(&sim->dcb, nd);
	sim_refusals_wrap(&sim->refusals, nd);
}

/* From here on netdev_event() follows the network device; under RTNL, so that no event is missed. */
static int sim_attach(struct sim *sim)
{
	struct net_device *nd;
	int ret = -ENODEV;

	rtnl_lock();
	down_read(&net_rwsem);
	nd = sim_netdev_of(sim->ib.dev.parent);
	up_read(&net_rwsem);
	if (nd) {
		sim_set_guid(sim, nd);
		ret = ib_device_set_netdev(&sim->ib, nd, 1);
	}
	if (!ret) {
		mutex_lock(&sims_lock);
		list_add_tail(&sim->node, &sims);
		sim_wrap(sim, nd);
		mutex_unlock(&sims_lock);
	}
	rtnl_unlock();
	return ret;
}

static void sim_detach(struct sim *sim)
{
	rtnl_lock();
	mutex_lock(&sims_lock);
	list_del(&sim->node);
	sim_settings_remove(&sim->ethtool);
	sim_ethtool_unwrap(&sim->ethtool);
	sim_dcb_unwrap(&sim->dcb);
	sim_refusals_unwrap(&sim->refusals);
	mutex_unlock(&sims_lock);
	rtnl_unlock();
}

void sim_create(struct device *function, struct pci_dev *pdev, unsigned int twin)
{
	struct sim *sim;
	int ret;

	sim = ib_alloc_device(sim, ib);
	if (!sim)
		return;
	sim->pdev = pdev;
	sim->twin = twin;
	sim->ib.dev.parent = function;
	sim->ib.node_type = RDMA_NODE_IB_CA;
	sim->ib.phys_port_cnt = 1;
	sim->ib.num_comp_vectors = 1;
	ib_set_device_ops(&sim->ib, &sim_ops);

	ret = sim_attach(sim);
	if (ret)
		goto free;
	ret = ib_register_device(&sim->ib, "mlx5_%d", NULL);
	if (ret)
		goto detach;
	sim_tclass_add(&sim->tclass, &sim->ib.dev.kobj);
	sim_debugfs(sim);
	return;

detach:
	sim_detach(sim);
free:
	pr_err("rdmasim: no RDMA device for %s: %d\n", dev_name(function), ret);
	ib_dealloc_device(&sim->ib);
}

void sim_destroy(struct device *function, unsigned int twin)
{
	struct sim *sim;

	mutex_lock(&sims_lock);
	sim = sim_find(function, twin);
	mutex_unlock(&sims_lock);
	if (!sim)
		return;
	sim_detach(sim);
	if (sim_root)
		debugfs_remove_recursive(sim->dir);
	sim->gid_delay_ms = 0;
	sim->slow_board_id_ms = 0;
	sim->slow_enable_ms = 0;
	sim->counters.slow_stats_ms = 0;
	sim_tclass_remove(&sim->tclass);
	ib_unregister_device(&sim->ib);
	ib_dealloc_device(&sim->ib);
}

static bool sim_wanted(struct pci_dev *pdev)
{
	const char *driver = pdev->driver ? pdev->driver->name : "";

	return !strcmp(driver, "igb") || !strcmp(driver, "igbvf");
}

/* Devices are created in a work queue: a bus notifier runs inside the driver's probe, and a writer pins its debugfs
 * file.
 */
struct sim_work {
	struct work_struct work;
	struct pci_dev *pdev;
	unsigned int twins;
};

static void sim_worker(struct work_struct *work)
{
	struct sim_work *todo = container_of(work, struct sim_work, work);
	unsigned int twin;
	bool there;

	device_lock(&todo->pdev->dev);
	for (twin = 0; twin <= MAX_TWINS && sim_wanted(todo->pdev); twin++) {
		mutex_lock(&sims_lock);
		there = sim_find(&todo->pdev->dev, twin);
		mutex_unlock(&sims_lock);
		if (twin <= todo->twins && !there)
			sim_create(&todo->pdev->dev, todo->pdev, twin);
		if (twin > todo->twins && there)
			sim_destroy(&todo->pdev->dev, twin);
	}
	device_unlock(&todo->pdev->dev);
	pci_dev_put(todo->pdev);
	kfree(todo);
}

static void sim_queue(struct pci_dev *pdev, unsigned int twins)
{
	struct sim_work *todo = kzalloc(sizeof(*todo), GFP_KERNEL);

	if (!todo)
		return;
	INIT_WORK(&todo->work, sim_worker);
	todo->pdev = pci_dev_get(pdev);
	todo->twins = twins;
	queue_work(sim_wq, &todo->work);
}

static int sim_bus_event(struct notifier_block *nb, unsigned long action, void *data)
{
	struct pci_dev *pdev = to_pci_dev(data);
	int twin;

	if (action == BUS_NOTIFY_BOUND_DRIVER && sim_wanted(pdev))
		sim_queue(pdev, 0);
	if (action == BUS_NOTIFY_UNBIND_DRIVER) {
		for (twin = MAX_TWINS; twin >= 0; twin--)
			sim_destroy(&pdev->dev, twin);
		sim_scalable_remove(pdev);
	}
	return NOTIFY_DONE;
}

static struct notifier_block sim_bus_nb = { .notifier_call = sim_bus_event };

static void sim_follow(struct sim *sim, struct net_device *nd, bool there)
{
	ib_device_set_netdev(&sim->ib, there ? nd : NULL, 1);
	if (there) {
		sim_wrap(sim, nd);
	} else {
		sim_ethtool_unwrap(&sim->ethtool);
		sim_dcb_unwrap(&sim->dcb);
		sim_refusals_unwrap(&sim->refusals);
	}
}

/* A network device that changes namespaces is unregistered in the old one and registered in the new one. */
static int sim_netdev_event(struct notifier_block *nb, unsigned long action, void *info)
{
	struct net_device *nd = netdev_notifier_info_to_dev(info);
	struct sim *sim;

	if (action != NETDEV_REGISTER && action != NETDEV_UNREGISTER)
		return NOTIFY_DONE;
	mutex_lock(&sims_lock);
	list_for_each_entry(sim, &sims, node)
		if (nd->dev.parent == sim->ib.dev.parent)
			sim_follow(sim, nd, action == NETDEV_REGISTER);
	mutex_unlock(&sims_lock);
	return NOTIFY_DONE;
}

/* Runs before ib_core's notifier, which looks up the network device of each RDMA device. */
static struct notifier_block sim_netdev_nb = { .notifier_call = sim_netdev_event, .priority = 1 };

static int __init sim_init(void)
{
	struct pci_dev *pdev = NULL;
	int ret;

	sim_wq = alloc_ordered_workqueue("rdmasim", 0);
	if (!sim_wq)
		return -ENOMEM;
	sim_root = debugfs_create_dir("rdmasim", NULL);
	ret = register_netdevice_notifier(&sim_netdev_nb);
	if (ret)
		goto free;
	ret = sim_scalable_init();
	if (ret)
		goto unregister;
	ret = bus_register_notifier(&pci_bus_type, &sim_bus_nb);
	if (ret)
		goto scalable;

	for_each_pci_dev(pdev)	/* PFs get the first names */
		if (!pdev->is_virtfn && sim_wanted(pdev))
			sim_queue(pdev, 0);
	for_each_pci_dev(pdev)
		if (pdev->is_virtfn && sim_wanted(pdev))
			sim_queue(pdev, 0);
	flush_workqueue(sim_wq);
	ret = sim_infiniband_init(sim_root);
	if (!ret)
		return 0;
	bus_unregister_notifier(&pci_bus_type, &sim_bus_nb);
scalable:
	sim_scalable_exit();
unregister:
	unregister_netdevice_notifier(&sim_netdev_nb);
free:
	debugfs_remove_recursive(sim_root);
	destroy_workqueue(sim_wq);
	return ret;
}

static void __exit sim_exit(void)
{
	sim_infiniband_exit();
	sim_scalable_exit();
	bus_unregister_notifier(&pci_bus_type, &sim_bus_nb);
	debugfs_remove_recursive(sim_root);
	sim_root = NULL;
	destroy_workqueue(sim_wq);
	while (!list_empty(&sims)) {
		struct sim *sim = list_last_entry(&sims, struct sim, node);

		sim_destroy(sim->ib.dev.parent, sim->twin);
	}
	unregister_netdevice_notifier(&sim_netdev_nb);
}

module_init(sim_init);
module_exit(sim_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("RDMA devices without a data path, for tests of namespaces, GIDs and statistics");
