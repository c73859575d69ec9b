// SPDX-License-Identifier: GPL-2.0
/*
 * The traffic class of a port as in MLNX_OFED: tc/1/traffic_class below the RDMA device, which contains a line if a
 * class is set and is empty otherwise. Sysfs moves the directory between namespaces with the device.
 */
#include <linux/debugfs.h>
#include "rdmasim.h"

#define MAX_TCLASS	255

static ssize_t tclass_show(struct kobject *kobj, struct kobj_attribute *attr, char *page)
{
	int value = READ_ONCE(container_of(attr, struct sim_tclass, attr)->value);

	return value == SIM_NO_TCLASS ? 0 : sysfs_emit(page, "Global tclass=%d\n", value);
}

static int tclass_get(void *data, u64 *value)
{
	struct sim_tclass *tclass = data;

	*value = tclass->value;
	return 0;
}

static int tclass_set(void *data, u64 value)
{
	struct sim_tclass *tclass = data;

	if ((s64)value < SIM_NO_TCLASS || (s64)value > MAX_TCLASS)
		return -EINVAL;
	WRITE_ONCE(tclass->value, value);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE_SIGNED(tclass_fops, tclass_get, tclass_set, "%lld\n");

/* Called after registration of the device, which works without the directory if there is no memory for it. */
void sim_tclass_add(struct sim_tclass *tclass, struct kobject *device)
{
	tclass->value = SIM_NO_TCLASS;
	tclass->dir = kobject_create_and_add("tc", device);
	tclass->port = tclass->dir ? kobject_create_and_add("1", tclass->dir) : NULL;
	sysfs_attr_init(&tclass->attr.attr);
	tclass->attr.attr.name = "traffic_class";
	tclass->attr.attr.mode = 0444;
	tclass->attr.show = tclass_show;
	if (!tclass->port || sysfs_create_file(tclass->port, &tclass->attr.attr))
		pr_err("rdmasim: no traffic_class in sysfs for %s\n", kobject_name(device));
}

/* Called before the device is unregistered. Waits for readers. */
void sim_tclass_remove(struct sim_tclass *tclass)
{
	kobject_put(tclass->port);
	kobject_put(tclass->dir);
}

void sim_tclass_debugfs(struct sim_tclass *tclass, struct dentry *dir)
{
	debugfs_create_file("traffic_class", 0644, dir, tclass, &tclass_fops);
}
