// SPDX-License-Identifier: GPL-2.0
/*
 * rdmasim_ib: a PCI driver that makes a PF and its VFs InfiniBand functions without a data path.
 *
 * It drives only functions whose driver_override is rdmasim_ib (see lab-ib); those with vfio-pci get a driver that does nothing. The kernel itself implements the IPoIB links, GIDs,
 * P_Keys, and a VF's GUIDs and link state as the PF's IPoIB link has them (ip link set ib0 vf 0 port_guid ...). As on a
 * ConnectX, a VF takes its GUIDs when its driver is bound, and has none at first.
 *
 * There is no subnet manager, so a port stays in the state INIT, and its links have no carrier. Work requests are
 * completed at once: sends successfully, and receives when their queue pair goes to the error state.
 *
 *   /sys/kernel/debug/rdmasim/<pci address>/
 *     active                 Y: the port is active
 *     refuse_node_guid       of a PF: the number of following calls that set a VF's node GUID which fail with EPERM
 *     refuse_port_guid       the same for its port GUID
 *     slow_qp_ms             delay of the query of each queue pair, when queue pairs are listed
 *     grow, counters/, ...   as described in device.c
 */
#include <linux/debugfs.h>
#include <linux/if_link.h>
#include <linux/module.h>
#include "rdmasim.h"

#define IB_PORT		1
#define IB_PKEYS	4
#define IB_GIDS		8
#define IB_FIRST_QPN	0x10
#define IB_MAX_VFS	16

struct ib_vf_state {
	__be64 node_guid, port_guid;
	u32 link_state;
};

struct ib_function {
	struct sim sim;			/* first, as ib_alloc_device() requires */
	__be64 port_guid;
	atomic_t next_qpn;
	bool active;
	u32 slow_qp_ms;
	u32 refuse_node_guid, refuse_port_guid;
	struct ib_vf_state vfs[IB_MAX_VFS];	/* of a PF */
};

/* A work request: a posted receive, or a completion that waits for poll_cq(). */
struct ib_work {
	struct list_head node;
	struct ib_wc wc;
};

struct ib_sim_cq {
	struct ib_cq ib;
	spinlock_t lock;
	struct list_head done;
	bool armed;
};

struct ib_sim_qp {
	struct ib_qp ib;
	spinlock_t lock;
	struct list_head posted;
	bool failed;
};

struct ib_sim_pd { struct ib_pd ib; };
struct ib_sim_ah { struct ib_ah ib; };
struct ib_sim_ucontext { struct ib_ucontext ib; };

static struct dentry *ib_root;

static struct ib_function *to_function(struct ib_device *ib)
{
	return container_of(to_sim(ib), struct ib_function, sim);
}

static struct ib_sim_cq *to_cq(struct ib_cq *cq)
{
	return container_of(cq, struct ib_sim_cq, ib);
}

static struct ib_sim_qp *to_qp(struct ib_qp *qp)
{
	return container_of(qp, struct ib_sim_qp, ib);
}

/* ---- device and port ---------------------------------------------------------------------------------------- */

static int function_query_device(struct ib_device *ib, struct ib_device_attr *attr, struct ib_udata *udata)
{
	const struct pci_dev *pdev = to_sim(ib)->pdev;

	memset(attr, 0, sizeof(*attr));
	attr->vendor_id = PCI_VENDOR_ID_MELLANOX;
	attr->vendor_part_id = pdev->is_virtfn ? 0x101c : 0x101b;	/* ConnectX-6 */
	attr->sys_image_guid = ib->node_guid;
	attr->max_qp = 1024;
	attr->max_qp_wr = 8192;
	attr->max_send_sge = 16;
	attr->max_recv_sge = 16;
	attr->max_cq = 1024;
	attr->max_cqe = 65536;
	attr->max_mr = 128;
	attr->max_pd = 128;
	attr->max_ah = 1024;
	attr->max_pkeys = IB_PKEYS;
	attr->max_mcast_grp = 128;
	attr->max_mcast_qp_attach = 128;
	attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY;
	if (pdev->is_virtfn)
		attr->kernel_cap_flags |= IBK_VIRTUAL_FUNCTION;
	return 0;
}

static int function_query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	bool active = READ_ONCE(to_function(ib)->active);

	attr->state = active ? IB_PORT_ACTIVE : IB_PORT_INIT;
	attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_4096;
	attr->gid_tbl_len = IB_GIDS;
	attr->pkey_tbl_len = IB_PKEYS;
	attr->max_msg_sz = 1 << 30;
	attr->lid = active ? 1 + PCI_FUNC(to_sim(ib)->pdev->devfn) : 0;
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_HDR;
	attr->max_vl_num = 4;
	return 0;
}

static int function_get_port_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = IB_GIDS;
	immutable->pkey_tbl_len = IB_PKEYS;
	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_IB;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

static enum rdma_link_layer function_get_link_layer(struct ib_device *ib, u32 port)
{
	return IB_LINK_LAYER_INFINIBAND;
}

static int function_query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey)
{
	if (index >= IB_PKEYS)
		return -EINVAL;
	*pkey = index ? 0x8000 | index : 0xffff;
	return 0;
}

static int function_query_gid(struct ib_device *ib, u32 port, int index, union ib_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (index)
		return 0;
	gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
	gid->global.interface_id = to_function(ib)->port_guid;
	return 0;
}

/* ---- VFs, through their PF ---------------------------------------------------------------------------------- */

static struct ib_vf_state *vf_state(struct ib_device *ib, int vf)
{
	struct pci_dev *pdev = to_sim(ib)->pdev;

	if (vf < 0 || vf >= IB_MAX_VFS || vf >= pci_num_vf(pdev))
		return NULL;
	return &to_function(ib)->vfs[vf];
}

static int function_set_vf_link_state(struct ib_device *ib, int vf, u32 port, int state)
{
	struct ib_vf_state *settings = vf_state(ib, vf);

	if (!settings)
		return -EINVAL;
	settings->link_state = state;
	return 0;
}

static int function_get_vf_config(struct ib_device *ib, int vf, u32 port, struct ifla_vf_info *info)
{
	struct ib_vf_state *settings = vf_state(ib, vf);

	if (!settings)
		return -EINVAL;
	memset(info, 0, sizeof(*info));
	info->linkstate = settings->link_state;
	return 0;
}

static int function_get_vf_guid(struct ib_device *ib, int vf, u32 port, struct ifla_vf_guid *node,
				struct ifla_vf_guid *of_port)
{
	struct ib_vf_state *settings = vf_state(ib, vf);

	if (!settings)
		return -EINVAL;
	node->guid = be64_to_cpu(settings->node_guid);
	of_port->guid = be64_to_cpu(settings->port_guid);
	return 0;
}

static int function_set_vf_guid(struct ib_device *ib, int vf, u32 port, u64 guid, int type)
{
	struct ib_vf_state *settings = vf_state(ib, vf);
	struct ib_function *pf = to_function(ib);
	u32 *refuse = type == IFLA_VF_IB_NODE_GUID ? &pf->refuse_node_guid : &pf->refuse_port_guid;

	if (!settings)
		return -EINVAL;
	if (*refuse) {
		--*refuse;
		return -EPERM;
	}
	if (type == IFLA_VF_IB_NODE_GUID)
		settings->node_guid = cpu_to_be64(guid);
	else
		settings->port_guid = cpu_to_be64(guid);
	return 0;
}

/* ---- queues ------------------------------------------------------------------------------------------------- */

static void complete_work(struct ib_sim_cq *cq, struct list_head *finished)
{
	unsigned long flags;
	bool notify;

	spin_lock_irqsave(&cq->lock, flags);
	list_splice_tail_init(finished, &cq->done);
	notify = cq->armed && !list_empty(&cq->done);
	if (notify)
		cq->armed = false;
	spin_unlock_irqrestore(&cq->lock, flags);
	if (notify)
		cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
}

static void free_work(struct list_head *list)
{
	struct ib_work *work, *next;

	list_for_each_entry_safe(work, next, list, node)
		kfree(work);
	INIT_LIST_HEAD(list);
}

static int function_create_cq(struct ib_cq *ib, const struct ib_cq_init_attr *attr, struct uverbs_attr_bundle *attrs)
{
	struct ib_sim_cq *cq = to_cq(ib);

	spin_lock_init(&cq->lock);
	INIT_LIST_HEAD(&cq->done);
	ib->cqe = attr->cqe;
	return 0;
}

static int function_destroy_cq(struct ib_cq *ib, struct ib_udata *udata)
{
	free_work(&to_cq(ib)->done);
	return 0;
}

static int function_poll_cq(struct ib_cq *ib, int entries, struct ib_wc *wc)
{
	struct ib_sim_cq *cq = to_cq(ib);
	struct ib_work *work;
	unsigned long flags;
	int n = 0;

	spin_lock_irqsave(&cq->lock, flags);
	while (n < entries && !list_empty(&cq->done)) {
		work = list_first_entry(&cq->done, struct ib_work, node);
		list_del(&work->node);
		wc[n++] = work->wc;
		kfree(work);
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return n;
}

static int function_req_notify_cq(struct ib_cq *ib, enum ib_cq_notify_flags notify)
{
	struct ib_sim_cq *cq = to_cq(ib);
	unsigned long flags;
	int missed;

	spin_lock_irqsave(&cq->lock, flags);
	missed = !list_empty(&cq->done);
	cq->armed = !missed;
	spin_unlock_irqrestore(&cq->lock, flags);
	return missed && (notify & IB_CQ_REPORT_MISSED_EVENTS);
}

static int function_create_qp(struct ib_qp *ib, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	struct ib_sim_qp *qp = to_qp(ib);

	spin_lock_init(&qp->lock);
	INIT_LIST_HEAD(&qp->posted);
	switch (attr->qp_type) {
	case IB_QPT_SMI:
		ib->qp_num = 0;
		break;
	case IB_QPT_GSI:
		ib->qp_num = 1;
		break;
	default:
		ib->qp_num = atomic_inc_return(&to_function(ib->device)->next_qpn);
	}
	return 0;
}

static int function_modify_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct ib_sim_qp *qp = to_qp(ib);
	LIST_HEAD(flushed);
	unsigned long flags;

	if (!(mask & IB_QP_STATE))
		return 0;
	spin_lock_irqsave(&qp->lock, flags);
	qp->failed = attr->qp_state == IB_QPS_ERR;
	if (attr->qp_state == IB_QPS_ERR || attr->qp_state == IB_QPS_RESET)
		list_splice_init(&qp->posted, &flushed);
	spin_unlock_irqrestore(&qp->lock, flags);
	if (attr->qp_state == IB_QPS_ERR)
		complete_work(to_cq(ib->recv_cq), &flushed);
	else
		free_work(&flushed);
	return 0;
}

static int function_destroy_qp(struct ib_qp *ib, struct ib_udata *udata)
{
	free_work(&to_qp(ib)->posted);
	return 0;
}

static struct ib_work *new_work(struct ib_qp *qp, u64 id, struct ib_cqe *cqe, enum ib_wc_opcode opcode)
{
	struct ib_work *work = kzalloc(sizeof(*work), GFP_ATOMIC);

	if (!work)
		return NULL;
	if (cqe)
		work->wc.wr_cqe = cqe;
	else
		work->wc.wr_id = id;
	work->wc.qp = qp;
	work->wc.opcode = opcode;
	return work;
}

static int function_post_send(struct ib_qp *ib, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	struct ib_sim_qp *qp = to_qp(ib);
	LIST_HEAD(finished);
	int ret = 0;

	for (; wr; wr = wr->next) {
		struct ib_work *work = new_work(ib, wr->wr_id, NULL, IB_WC_SEND);

		if (!work) {
			*bad = wr;
			ret = -ENOMEM;
			break;
		}
		work->wc.status = READ_ONCE(qp->failed) ? IB_WC_WR_FLUSH_ERR : IB_WC_SUCCESS;
		list_add_tail(&work->node, &finished);
	}
	complete_work(to_cq(ib->send_cq), &finished);
	return ret;
}

static int function_post_recv(struct ib_qp *ib, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct ib_sim_qp *qp = to_qp(ib);
	LIST_HEAD(flushed);
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&qp->lock, flags);
	for (; wr; wr = wr->next) {
		struct ib_work *work = new_work(ib, wr->wr_id, NULL, IB_WC_RECV);

		if (!work) {
			*bad = wr;
			ret = -ENOMEM;
			break;
		}
		work->wc.status = IB_WC_WR_FLUSH_ERR;
		list_add_tail(&work->node, qp->failed ? &flushed : &qp->posted);
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	if (!list_empty(&flushed))
		complete_work(to_cq(ib->recv_cq), &flushed);
	return ret;
}

/* ---- operations without an effect --------------------------------------------------------------------------- */

static int function_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int function_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int function_create_ah(struct ib_ah *ah, struct rdma_ah_init_attr *attr, struct ib_udata *udata)
{
	return 0;
}

static int function_destroy_ah(struct ib_ah *ah, u32 flags)
{
	return 0;
}

static struct ib_mr *function_get_dma_mr(struct ib_pd *pd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static struct ib_mr *function_reg_user_mr(struct ib_pd *pd, u64 start, u64 len, u64 address, int access,
					  struct ib_udata *udata)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static int function_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	return 0;
}

static int function_alloc_ucontext(struct ib_ucontext *context, struct ib_udata *udata)
{
	return 0;
}

/* A device can change its network namespace only if this operation exists. */
static void function_ucontext_nop(struct ib_ucontext *context)
{
}

static int function_mmap(struct ib_ucontext *context, struct vm_area_struct *vma)
{
	return -EINVAL;
}

/* Cards answer it with a firmware command. */
static int function_fill_res_qp(struct sk_buff *msg, struct ib_qp *qp)
{
	sim_sleep(&to_function(qp->device)->slow_qp_ms);
	return 0;
}

static const struct ib_device_ops function_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = 1,
	.uverbs_no_driver_id_binding = 1,

	.query_device = function_query_device,
	.query_port = function_query_port,
	.query_pkey = function_query_pkey,
	.query_gid = function_query_gid,
	.get_port_immutable = function_get_port_immutable,
	.get_link_layer = function_get_link_layer,
	.set_vf_link_state = function_set_vf_link_state,
	.get_vf_config = function_get_vf_config,
	.get_vf_guid = function_get_vf_guid,
	.set_vf_guid = function_set_vf_guid,
	.alloc_ucontext = function_alloc_ucontext,
	.dealloc_ucontext = function_ucontext_nop,
	.disassociate_ucontext = function_ucontext_nop,
	.alloc_pd = function_alloc_pd,
	.dealloc_pd = function_dealloc_pd,
	.create_ah = function_create_ah,
	.destroy_ah = function_destroy_ah,
	.create_cq = function_create_cq,
	.destroy_cq = function_destroy_cq,
	.poll_cq = function_poll_cq,
	.req_notify_cq = function_req_notify_cq,
	.create_qp = function_create_qp,
	.modify_qp = function_modify_qp,
	.destroy_qp = function_destroy_qp,
	.post_send = function_post_send,
	.post_recv = function_post_recv,
	.get_dma_mr = function_get_dma_mr,
	.reg_user_mr = function_reg_user_mr,
	.dereg_mr = function_dereg_mr,
	.mmap = function_mmap,
	.fill_res_qp_entry = function_fill_res_qp,
	.alloc_hw_port_stats = sim_alloc_hw_port_stats,
	.get_hw_stats = sim_get_hw_stats,
	.process_mad = sim_process_mad,

	INIT_RDMA_OBJ_SIZE(ib_ah, ib_sim_ah, ib),
	INIT_RDMA_OBJ_SIZE(ib_cq, ib_sim_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_pd, ib_sim_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, ib_sim_qp, ib),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, ib_sim_ucontext, ib),
};

/* ---- PCI driver --------------------------------------------------------------------------------------------- */

/* The GUIDs of a PF contain its PCI address; those of a VF are the ones that were set through its PF. */
static void function_take_guids(struct ib_function *function, struct pci_dev *pdev)
{
	struct ib_function *pf;
	struct ib_vf_state *settings;

	if (!pdev->is_virtfn) {
		function->port_guid = cpu_to_be64(0xb8599f0300000000ULL | pci_dev_id(pdev) << 8);
		function->sim.ib.node_guid = function->port_guid;
		return;
	}
	pf = pci_get_drvdata(pci_physfn(pdev));
	settings = pf ? vf_state(&pf->sim.ib, pci_iov_vf_id(pdev)) : NULL;
	if (!settings)
		return;
	function->port_guid = settings->port_guid;
	function->sim.ib.node_guid = settings->node_guid;
}

static void function_debugfs(struct ib_function *function)
{
	struct sim *sim = &function->sim;

	sim->dir = debugfs_create_dir(pci_name(sim->pdev), ib_root);
	debugfs_create_bool("active", 0644, sim->dir, &function->active);
	debugfs_create_u32("slow_qp_ms", 0644, sim->dir, &function->slow_qp_ms);
	debugfs_create_u32("refuse_node_guid", 0644, sim->dir, &function->refuse_node_guid);
	debugfs_create_u32("refuse_port_guid", 0644, sim->dir, &function->refuse_port_guid);
	sim_counters_debugfs(&sim->counters, sim->dir);
}

static int function_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct ib_function *function;
	struct ib_device *ib;
	int ret;

	function = ib_alloc_device(ib_function, sim.ib);
	if (!function)
		return -ENOMEM;
	ib = &function->sim.ib;
	function->sim.pdev = pdev;
	atomic_set(&function->next_qpn, IB_FIRST_QPN);
	function_take_guids(function, pdev);
	ib->dev.parent = &pdev->dev;
	ib->node_type = RDMA_NODE_IB_CA;
	ib->phys_port_cnt = IB_PORT;
	ib->num_comp_vectors = 1;
	ib_set_device_ops(ib, &function_ops);
	ret = ib_register_device(ib, "mlx5_%d", NULL);
	if (ret) {
		ib_dealloc_device(ib);
		return ret;
	}
	pci_set_drvdata(pdev, function);
	function_debugfs(function);
	return 0;
}

static void function_remove(struct pci_dev *pdev)
{
	struct ib_function *function = pci_get_drvdata(pdev);

	if (!pdev->is_virtfn)
		pci_disable_sriov(pdev);
	debugfs_remove_recursive(function->sim.dir);
	function->sim.counters.slow_stats_ms = 0;
	function->slow_qp_ms = 0;
	ib_unregister_device(&function->sim.ib);
	pci_set_drvdata(pdev, NULL);
	ib_dealloc_device(&function->sim.ib);
}

static const struct pci_device_id no_ids[] = { { } };

static struct pci_driver function_driver = {
	.name = "rdmasim_ib",
	.id_table = no_ids,
	.probe = function_probe,
	.remove = function_remove,
	.sriov_configure = pci_sriov_configure_simple,
};

/* The kernel's vfio-pci needs an IOMMU, which the emulated machine does not have. This driver only has its name. */
static int passthrough_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	return 0;
}

static struct pci_driver passthrough_driver = {
	.name = "vfio-pci",
	.id_table = no_ids,
	.probe = passthrough_probe,
};

int sim_infiniband_init(struct dentry *root)
{
	int ret;

	ib_root = root;
	ret = pci_register_driver(&function_driver);
	if (ret)
		return ret;
	ret = pci_register_driver(&passthrough_driver);
	if (ret)
		pci_unregister_driver(&function_driver);
	return ret;
}

void sim_infiniband_exit(void)
{
	pci_unregister_driver(&passthrough_driver);
	pci_unregister_driver(&function_driver);
}
