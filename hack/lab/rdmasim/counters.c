// SPDX-License-Identifier: GPL-2.0
/* The counters of an RDMA device: mlx5's hardware counters, and the standard counters of a port. */
#include <linux/debugfs.h>
#include <linux/unaligned.h>
#include <rdma/ib_pma.h>
#include "rdmasim.h"

/* Names and order are those of mlx5. */
static const struct rdma_stat_desc hw_descs[] = {
	{ "rx_write_requests" },
	{ "rx_read_requests" },
	{ "rx_atomic_requests" },
	{ "rx_dct_connect" },
	{ "out_of_buffer" },
	{ "out_of_sequence" },
	{ "duplicate_request" },
	{ "rnr_nak_retry_err" },
	{ "packet_seq_err" },
	{ "implied_nak_seq_err" },
	{ "local_ack_timeout_err" },
	{ "resp_local_length_error" },
	{ "resp_cqe_error" },
	{ "req_cqe_error" },
	{ "req_remote_invalid_request" },
	{ "req_remote_access_errors" },
	{ "resp_remote_access_errors" },
	{ "resp_cqe_flush_error" },
	{ "req_cqe_flush_error" },
	{ "roce_adp_retrans" },
	{ "roce_adp_retrans_to" },
	{ "roce_slow_restart" },
	{ "roce_slow_restart_cnps" },
	{ "roce_slow_restart_trans" },
	{ "rp_cnp_ignored" },
	{ "rp_cnp_handled" },
	{ "np_ecn_marked_roce_packets" },
	{ "np_cnp_sent" },
	{ "rx_icrc_encapsulated" },
	{ "cc_rx_ce_pkts", IB_STAT_FLAG_OPTIONAL },
	{ "cc_rx_cnp_pkts", IB_STAT_FLAG_OPTIONAL },
};
static_assert(ARRAY_SIZE(hw_descs) == SIM_HW_COUNTERS);

/* Names as in sysfs, in the order of struct ib_pma_portcounters_ext. */
static const char * const pma_data_names[] = {
	"port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets",
	"unicast_xmit_packets", "unicast_rcv_packets", "multicast_xmit_packets", "multicast_rcv_packets",
};
static_assert(ARRAY_SIZE(pma_data_names) == SIM_PMA_DATA_COUNTERS);

/* Names as in sysfs, with their positions in struct ib_pma_portcounters. */
static const struct {
	const char *name;
	u16 bit;
	u8 width;
} pma_errors[] = {
	{ "symbol_error", 32, 16 },
	{ "link_error_recovery", 48, 8 },
	{ "link_downed", 56, 8 },
	{ "port_rcv_errors", 64, 16 },
	{ "port_rcv_remote_physical_errors", 80, 16 },
	{ "port_rcv_switch_relay_errors", 96, 16 },
	{ "port_xmit_discards", 112, 16 },
	{ "port_xmit_constraint_errors", 128, 8 },
	{ "port_rcv_constraint_errors", 136, 8 },
	{ "local_link_integrity_errors", 152, 4 },
	{ "excessive_buffer_overrun_errors", 156, 4 },
	{ "VL15_dropped", 176, 16 },
	{ "port_xmit_wait", 320, 32 },
};
static_assert(ARRAY_SIZE(pma_errors) == SIM_PMA_ERROR_COUNTERS);

struct rdma_hw_stats *sim_alloc_hw_port_stats(struct ib_device *ib, u32 port)
{
	struct rdma_hw_stats *stats;
	int i;

	stats = rdma_alloc_hw_stats_struct(hw_descs, ARRAY_SIZE(hw_descs), 0);
	if (!stats)
		return NULL;
	stats->lifespan = -1UL;	/* expired, even within the same jiffy: never use a cached value */
	for (i = 0; i < ARRAY_SIZE(hw_descs); i++)
		if (hw_descs[i].flags & IB_STAT_FLAG_OPTIONAL)
			set_bit(i, stats->is_disabled);
	return stats;
}

/* The kernel keeps which optional counters are enabled. */
int sim_modify_hw_stat(struct ib_device *ib, u32 port, unsigned int index, bool enable)
{
	return 0;
}

int sim_get_hw_stats(struct ib_device *ib, struct rdma_hw_stats *stats, u32 port, int index)
{
	struct sim_counters *counters = &to_sim(ib)->counters;
	int i;

	if (!port)
		return 0;
	sim_sleep(&counters->slow_stats_ms);
	for (i = 0; i < stats->num_counters; i++) {
		if (counters->grow)
			counters->hw[i]++;
		stats->value[i] = counters->hw[i];
	}
	return stats->num_counters;
}

static void put_data(const struct sim_counters *counters, struct ib_pma_portcounters_ext *ext)
{
	__be64 *values = &ext->port_xmit_data;
	int i;

	for (i = 0; i < ARRAY_SIZE(pma_data_names); i++)
		put_unaligned_be64(counters->pma_data[i], &values[i]);
}

/* Counters saturate, as the InfiniBand specification requires. */
static void put_errors(const struct sim_counters *counters, u8 *data)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(pma_errors); i++) {
		u64 value = min_t(u64, counters->pma_errors[i], GENMASK_ULL(pma_errors[i].width - 1, 0));
		u8 *at = data + pma_errors[i].bit / 8;

		switch (pma_errors[i].width) {
		case 4:
			*at |= value << (4 - pma_errors[i].bit % 8);
			break;
		case 8:
			*at = value;
			break;
		case 16:
			put_unaligned_be16(value, at);
			break;
		case 32:
			put_unaligned_be32(value, at);
			break;
		}
	}
}

/* Handles only the three management datagrams with which sysfs reads the port counters. */
int sim_process_mad(struct ib_device *ib, int flags, u32 port, const struct ib_wc *wc, const struct ib_grh *grh,
		    const struct ib_mad *in, struct ib_mad *out, size_t *out_size, u16 *out_pkey_index)
{
	const struct sim_counters *counters = &to_sim(ib)->counters;
	void *data = out->data + 40;

	if (in->mad_hdr.mgmt_class != IB_MGMT_CLASS_PERF_MGMT || in->mad_hdr.method != IB_MGMT_METHOD_GET)
		return IB_MAD_RESULT_SUCCESS;
	switch (in->mad_hdr.attr_id) {
	case IB_PMA_CLASS_PORT_INFO:
		((struct ib_class_port_info *)data)->capability_mask = IB_PMA_CLASS_CAP_EXT_WIDTH;
		break;
	case IB_PMA_PORT_COUNTERS_EXT:
		put_data(counters, data);
		break;
	case IB_PMA_PORT_COUNTERS:
		if (READ_ONCE(counters->refuse_errors))
			return IB_MAD_RESULT_FAILURE;
		put_errors(counters, data);
		break;
	}
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}

void sim_counters_debugfs(struct sim_counters *counters, struct dentry *dir)
{
	struct dentry *values;
	int i;

	debugfs_create_bool("grow", 0644, dir, &counters->grow);
	debugfs_create_u32("slow_stats_ms", 0644, dir, &counters->slow_stats_ms);
	debugfs_create_bool("port_counters_refuse", 0644, dir, &counters->refuse_errors);
	values = debugfs_create_dir("counters", dir);
	for (i = 0; i < ARRAY_SIZE(hw_descs); i++)
		debugfs_create_u64(hw_descs[i].name, 0644, values, &counters->hw[i]);
	values = debugfs_create_dir("port_counters", dir);
	for (i = 0; i < ARRAY_SIZE(pma_data_names); i++)
		debugfs_create_u64(pma_data_names[i], 0644, values, &counters->pma_data[i]);
	for (i = 0; i < ARRAY_SIZE(pma_errors); i++)
		debugfs_create_u64(pma_errors[i].name, 0644, values, &counters->pma_errors[i]);
}
