// SPDX-License-Identifier: GPL-2.0
/* What sysfs shows of a card's RDMA device below its PCI function, where soft RoCE, which has the device's work, shows
 * nothing: one active Ethernet port. Of attributes alone: no verb goes through it. */
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sysfs.h>

#define VENDOR 0x15b3
#define MODEL 0x10c9

#define TEXT(name, text)                                                                          \
	static ssize_t name##_show(struct kobject *of, struct kobj_attribute *which, char *out)   \
	{                                                                                         \
		return sysfs_emit(out, "%s\n", text);                                             \
	}                                                                                         \
	static struct kobj_attribute name = __ATTR_RO(name)

TEXT(fw_ver, "28.39.1002");
TEXT(board_id, "VIRTUAL000001");
TEXT(node_guid, "5054:0003:00bb:0001");
TEXT(link_layer, "Ethernet");
TEXT(state, "4: ACTIVE");
TEXT(phys_state, "5: LinkUp");
TEXT(rate, "400 Gb/sec (4X NDR)");

static const struct attribute *of_device[] = {&fw_ver.attr, &board_id.attr, &node_guid.attr, NULL};
static const struct attribute *of_port[] = {&link_layer.attr, &state.attr, &phys_state.attr, &rate.attr, NULL};
/* the folders, each in the one before it */
static const char *const names[] = {"infiniband", "mlx5_0", "ports", "1"};
static struct kobject *folders[ARRAY_SIZE(names)];
static struct pci_dev *card;

static void leave(void)
{
	int i;

	for (i = ARRAY_SIZE(names) - 1; i >= 0; i--)
		kobject_put(folders[i]);
	pci_dev_put(card);
}

static int __init enter(void)
{
	struct kobject *above;
	int i, error;

	card = pci_get_device(VENDOR, MODEL, NULL);
	if (!card)
		return -ENODEV;
	above = &card->dev.kobj;
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		folders[i] = kobject_create_and_add(names[i], above);
		if (!folders[i]) {
			leave();
			return -ENOMEM;
		}
		above = folders[i];
	}
	error = sysfs_create_files(folders[1], of_device);
	if (!error)
		error = sysfs_create_files(folders[3], of_port);
	if (error)
		leave();
	return error;
}

module_init(enter);
module_exit(leave);
MODULE_DESCRIPTION("RDMA device of the virtual slice host's card");
MODULE_LICENSE("GPL");
