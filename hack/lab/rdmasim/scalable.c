// SPDX-License-Identifier: GPL-2.0
/*
 * Scalable functions (SFs) of a PF: auxiliary devices below it, with the names of mlx5's (mlx5_core.sf.0, ...), each with a
 * network device, and an RDMA device from device.c.
 *
 * The network device has a carrier, and drops all packets.
 */
#include <linux/auxiliary_bus.h>
#include <linux/debugfs.h>
#include <linux/etherdevice.h>
#include <linux/idr.h>
#include <linux/module.h>
#include "rdmasim.h"

#define SF_MODULE	"mlx5_core"
#define SF_MAX		8

struct scalable {
	struct auxiliary_device adev;
	struct list_head node;		/* in scalables */
};

static LIST_HEAD(scalables);
static DEFINE_MUTEX(scalables_lock);
static DEFINE_IDA(scalable_ids);

static int scalable_open(struct net_device *nd)
{
	return 0;
}

static netdev_tx_t scalable_xmit(struct sk_buff *skb, struct net_device *nd)
{
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops scalable_ops = {
	.ndo_open = scalable_open,
	.ndo_stop = scalable_open,
	.ndo_start_xmit = scalable_xmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

/* ---- the driver of the auxiliary devices -------------------------------------------------------------------- */

static int scalable_probe(struct auxiliary_device *adev, const struct auxiliary_device_id *id)
{
	struct net_device *nd = alloc_etherdev(0);
	int ret;

	if (!nd)
		return -ENOMEM;
	SET_NETDEV_DEV(nd, &adev->dev);
	eth_hw_addr_random(nd);
	nd->netdev_ops = &scalable_ops;
	nd->priv_flags |= IFF_LIVE_ADDR_CHANGE;
	nd->max_mtu = 9978;
	ret = register_netdev(nd);
	if (ret) {
		free_netdev(nd);
		return ret;
	}
	dev_set_drvdata(&adev->dev, nd);
	sim_create(&adev->dev, to_pci_dev(adev->dev.parent), 0);
	return 0;
}

static void scalable_unbind(struct auxiliary_device *adev)
{
	struct net_device *nd = dev_get_drvdata(&adev->dev);

	sim_destroy(&adev->dev, 0);
	unregister_netdev(nd);
	free_netdev(nd);
}

static const struct auxiliary_device_id scalable_id_table[] = {
	{ .name = SF_MODULE ".sf" },
	{ }
};

static struct auxiliary_driver scalable_driver = {
	.name = "sf",
	.probe = scalable_probe,
	.remove = scalable_unbind,
	.id_table = scalable_id_table,
};

/* ---- creation and removal ----------------------------------------------------------------------------------- */

static void scalable_release(struct device *dev)
{
	kfree(container_of(to_auxiliary_dev(dev), struct scalable, adev));
}

static int scalable_create(struct pci_dev *pf)
{
	struct scalable *sf;
	int ret = ida_alloc(&scalable_ids, GFP_KERNEL);

	if (ret < 0)
		return ret;
	sf = kzalloc(sizeof(*sf), GFP_KERNEL);
	if (!sf) {
		ida_free(&scalable_ids, ret);
		return -ENOMEM;
	}
	sf->adev.id = ret;
	sf->adev.name = "sf";
	sf->adev.dev.parent = &pf->dev;
	sf->adev.dev.release = scalable_release;
	ret = auxiliary_device_init(&sf->adev);
	if (ret) {
		ida_free(&scalable_ids, sf->adev.id);
		kfree(sf);
		return ret;
	}
	ret = __auxiliary_device_add(&sf->adev, SF_MODULE);
	if (ret) {
		ida_free(&scalable_ids, sf->adev.id);
		auxiliary_device_uninit(&sf->adev);
		return ret;
	}
	list_add(&sf->node, &scalables);
	return 0;
}

/* Changes the number of SFs of a PF. The last ones are removed first. */
static int scalable_resize(struct pci_dev *pf, u64 count)
{
	struct scalable *sf, *next;
	u64 there = 0;
	int ret = 0;

	mutex_lock(&scalables_lock);
	list_for_each_entry(sf, &scalables, node)
		there += sf->adev.dev.parent == &pf->dev;
	list_for_each_entry_safe(sf, next, &scalables, node) {
		if (sf->adev.dev.parent != &pf->dev || there <= count)
			continue;
		list_del(&sf->node);
		ida_free(&scalable_ids, sf->adev.id);
		auxiliary_device_delete(&sf->adev);
		auxiliary_device_uninit(&sf->adev);
		there--;
	}
	for (; there < count && !ret; there++)
		ret = scalable_create(pf);
	mutex_unlock(&scalables_lock);
	return ret;
}

void sim_scalable_remove(struct pci_dev *pf)
{
	scalable_resize(pf, 0);
}

static int scalable_count(void *pf, u64 *count)
{
	struct scalable *sf;

	*count = 0;
	mutex_lock(&scalables_lock);
	list_for_each_entry(sf, &scalables, node)
		*count += sf->adev.dev.parent == &((struct pci_dev *)pf)->dev;
	mutex_unlock(&scalables_lock);
	return 0;
}

static int scalable_set_count(void *pf, u64 count)
{
	return count > SF_MAX ? -EINVAL : scalable_resize(pf, count);
}
DEFINE_DEBUGFS_ATTRIBUTE(scalable_fops, scalable_count, scalable_set_count, "%llu\n");

void sim_scalable_debugfs(struct pci_dev *pf, struct dentry *dir)
{
	debugfs_create_file("scalable_functions", 0644, dir, pf, &scalable_fops);
}

int sim_scalable_init(void)
{
	return __auxiliary_driver_register(&scalable_driver, THIS_MODULE, SF_MODULE);
}

/* The PFs' functions are removed first. */
void sim_scalable_exit(void)
{
	struct scalable *sf, *next;

	mutex_lock(&scalables_lock);
	list_for_each_entry_safe(sf, next, &scalables, node) {
		list_del(&sf->node);
		auxiliary_device_delete(&sf->adev);
		auxiliary_device_uninit(&sf->adev);
	}
	mutex_unlock(&scalables_lock);
	auxiliary_driver_unregister(&scalable_driver);
}
