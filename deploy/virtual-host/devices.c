/* Preloaded into QEMU 10.0: devices that a slice host has and QEMU lacks. Built without QEMU's headers; where a field of
 * PCIDeviceClass lies is found by looking for the ids of the device "edu", so another layout ends with a message.
 *
 *   fakegpu     PCIe endpoint with the identity of an H200: class 0302, function-level reset, memory as BARs
 *   nvme-eui    "nvme" under another model, since Linux ignores the EUI-64 of QEMU's own
 *   igb-fabric  "igb" as a card of Mellanox; the kernel's igb takes it by "new_id", and its functions have no driver
 *
 * FAKEGPU_MEMORY_MIB  size of the large BAR, 16 when absent: large ones cost minutes under emulation
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name, *parent;
    size_t instance_size, instance_align;
    void (*instance_init)(void *), (*instance_post_init)(void *), (*instance_finalize)(void *);
    bool abstract;
    size_t class_size;
    void (*class_init)(void *, void *), (*class_base_init)(void *, void *);
    void *class_data;
    const void *interfaces;
} TypeInfo;

extern void register_module_init(void (*)(void), int) __attribute__((weak));
extern void *type_register_static(const TypeInfo *), *object_class_by_name(const char *);
extern int pcie_endpoint_cap_init(void *, uint8_t);
extern void pcie_cap_flr_init(void *), pcie_cap_flr_write_config(void *, uint32_t, uint32_t, int);
extern void pci_default_write_config(void *, uint32_t, uint32_t, int);
extern uint32_t pci_default_read_config(void *, uint32_t, int);
extern void pci_register_bar(void *, int, uint8_t, void *);
extern bool memory_region_init_ram(void *, void *, const char *, uint64_t, void *);

/* QEMU 10.0 aborts a nested guest: an interrupt is raised from a write to CR8 without the big lock. Take the lock. */
extern void tcg_handle_interrupt(void *, int) __attribute__((weak));
extern void bql_lock_impl(const char *, int) __attribute__((weak)), bql_unlock(void) __attribute__((weak));
extern bool bql_locked(void) __attribute__((weak));
static void (*unlocked_interrupt)(void *, int);

static void locked_interrupt(void *cpu, int mask)
{
    bool is_locked = bql_locked();
    if (!is_locked)
        bql_lock_impl(__FILE__, __LINE__);
    unlocked_interrupt(cpu, mask);
    if (!is_locked)
        bql_unlock();
}

static void mend_interrupts(void)
{
    void **slots = object_class_by_name("tcg-accel-ops");
    if (unlocked_interrupt || !slots || !tcg_handle_interrupt || !bql_locked)
        return;
    for (int i = 0; i < 48; i++) {
        if (slots[i] == (void *)tcg_handle_interrupt) {
            unlocked_interrupt = (void (*)(void *, int))slots[i];
            slots[i] = (void *)locked_interrupt;
            return;
        }
    }
    fprintf(stderr, "devices: nothing to mend in this QEMU\n");
}

/* Offset of vendor_id; four functions come before it: realize, exit, config_read, config_write. */
static int ids_offset(void)
{
    uint8_t *edu = object_class_by_name("edu");
    static const uint8_t ids[5] = {0x34, 0x12, 0xe8, 0x11, 0x10}, class_id[2] = {0xff, 0x00};
    for (int i = 64; edu && i < 1024; i += 2)
        if (!memcmp(edu + i, ids, 5) && !memcmp(edu + i + 6, class_id, 2))
            return i;
    fprintf(stderr, "devices: the layout of PCIDeviceClass is not known\n");
    exit(1);
}

enum { REALIZE, EXIT, CONFIG_READ, CONFIG_WRITE };

static void **functions_of(void *class)
{
    return (void **)((uint8_t *)class + ids_offset() - 32);
}

/* GPU */
static void gpu_write(void *device, uint32_t at, uint32_t value, int size)
{
    pci_default_write_config(device, at, value, size);
    pcie_cap_flr_write_config(device, at, value, size);
}

static void gpu_realize(void *device, void *error)
{
    static int number;
    char name[32];
    const char *given = getenv("FAKEGPU_MEMORY_MIB");
    uint64_t mib = given ? strtoull(given, 0, 10) : 16;
    void *registers = calloc(1, 4096), *memory = calloc(1, 4096);
    mend_interrupts();
    pcie_endpoint_cap_init(device, 0x80);
    pcie_cap_flr_init(device);
    snprintf(name, sizeof name, "fakegpu%d.registers", number);
    memory_region_init_ram(registers, device, name, 16 << 20, error);
    pci_register_bar(device, 0, 0x00, registers);
    snprintf(name, sizeof name, "fakegpu%d.memory", number++);
    memory_region_init_ram(memory, device, name, mib << 20, error);
    pci_register_bar(device, 2, 0x04 | 0x08, memory); /* 64 bit, prefetchable */
}

static void gpu_class(void *class, void *data)
{
    uint16_t *ids = (uint16_t *)((uint8_t *)class + ids_offset());
    (void)data;
    ids[0] = ids[4] = 0x10de;
    ids[1] = 0x2335; /* H200 SXM */
    ((uint8_t *)ids)[4] = 0xa1;
    ids[3] = 0x0302;
    ids[5] = 0x18be;
    functions_of(class)[REALIZE] = (void *)gpu_realize;
    functions_of(class)[CONFIG_WRITE] = (void *)gpu_write;
}

/* A device under another identity: the first bytes of its configuration space. */
typedef uint32_t Read(void *, uint32_t, int);
static Read *nvme_read, *igb_read;

static uint32_t masked(uint32_t value, uint32_t at, int size, uint32_t id, uint32_t bytes)
{
    for (int i = 0; i < size; i++) {
        if (at + i < bytes) {
            value &= ~(0xffu << (8 * i));
            value |= ((id >> (8 * (at + i))) & 0xff) << (8 * i);
        }
    }
    return value;
}

static uint32_t nvme_masked(void *device, uint32_t at, int size)
{
    return masked(nvme_read(device, at, size), at, size, 0xa80a144d, 4);
}

static uint32_t igb_masked(void *device, uint32_t at, int size)
{
    return masked(igb_read(device, at, size), at, size, 0x15b3, 2);
}

static Read *with_read(void *class, Read *own)
{
    void **functions = functions_of(class);
    Read *former = functions[CONFIG_READ] ? (Read *)functions[CONFIG_READ] : pci_default_read_config;
    functions[CONFIG_READ] = (void *)own;
    return former;
}

static void nvme_class(void *class, void *data)
{
    (void)data;
    nvme_read = with_read(class, nvme_masked);
}

static void igb_class(void *class, void *data)
{
    (void)data;
    igb_read = with_read(class, igb_masked);
}

static const char *express[] = {"pci-express-device", 0};
static const TypeInfo types[] = {
    {.name = "fakegpu", .parent = "pci-device", .class_init = gpu_class, .interfaces = express},
    {.name = "nvme-eui", .parent = "nvme", .class_init = nvme_class},
    {.name = "igb-fabric", .parent = "igb", .class_init = igb_class},
};

static void add_types(void)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        type_register_static(&types[i]);
}

/* preloaded into every program that QEMU's wrapper starts; only QEMU has the function */
__attribute__((constructor)) static void begin(void)
{
    if (register_module_init)
        register_module_init(add_types, 3 /* MODULE_INIT_QOM */);
}
