/** SKUs: what one launches. */
import { useState } from "react";
import { usePutSku } from "../../api/catalog";
import { useSkus } from "../../api/queries";
import type { Sku } from "../../api/types";
import { amountOf, placesFor } from "../../lib/money";
import { bytes } from "../../lib/text";
import { Button, Empty, LabMark, MoneyText } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Cpu, Plus } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { TableCard } from "../../ui/table";
import { useAsked } from "../../ui/use-asked";
import { SelectField, TextField, bandwidthText, countOf, countsOf, isSlug, limitOf, slugProblem } from "./parts";

type Shape = Sku["capacity_shape"];

interface Draft {
  code: string;
  name: string;
  shape: Shape;
  slotClass: string;
  gpus: string;
  profile: string;
  vcpus: string;
  memory: string;
  hugepages: boolean;
  bandwidth: string;
  burst: string;
  disabled: boolean;
}

function draftOf(sku?: Sku): Draft {
  return {
    code: sku?.code ?? "",
    name: sku?.display_name ?? "",
    shape: sku?.capacity_shape ?? "gpu_slice",
    slotClass: sku?.slot_class ?? "",
    gpus: sku?.allowed_gpu_counts.join(", ") ?? "1, 2, 4, 8",
    profile: sku?.profile.name ?? "",
    vcpus: String(sku?.profile.vcpus_per_gpu ?? 24),
    memory: String((sku?.profile.memory_mib_per_gpu ?? 65_536) / 1024),
    hugepages: sku?.profile.hugepages ?? false,
    bandwidth: String(sku?.profile.network_mbps ?? ""),
    burst: String(sku?.profile.network_burst_kb ?? ""),
    disabled: sku?.disabled ?? false,
  };
}

export function SkuForm({ sku, trigger }: { sku?: Sku; trigger: React.ReactNode }) {
  const put = usePutSku();
  const [asked, askAnew] = useAsked(sku);
  const [typed, setTyped] = useState<Draft>();
  const draft = typed ?? draftOf(asked);
  const { code, name, shape, slotClass, gpus, profile, vcpus, memory, hugepages, bandwidth, burst, disabled } = draft;
  const set = (part: Partial<Draft>) => setTyped({ ...draft, ...part });
  const reset = () => {
    askAnew();
    setTyped(undefined);
  };
  const counts = countsOf(gpus);
  const cpus = countOf(vcpus);
  const gib = Number(memory);
  const mib = Number.isFinite(gib) && gib > 0 && Number.isInteger(gib * 1024) ? gib * 1024 : undefined;
  // bare metal has no VM
  const mbps = limitOf(shape === "baremetal" ? "" : bandwidth);
  const kb = limitOf(mbps.limit ? burst : "");
  const ready = isSlug(code) && slotClass.trim() !== "" && !!counts && !!cpus && !!mib && !mbps.problem && !kb.problem;
  const run = async () => {
    if (!counts || !cpus || !mib) return;
    await put.mutateAsync({ code, display_name: name.trim(), capacity_shape: shape, slot_class: slotClass.trim(), allowed_gpu_counts: counts, profile: { name: profile.trim() || `${slotClass.trim()}_1g_${cpus}c`, vcpus_per_gpu: cpus, memory_mib_per_gpu: mib, hugepages, network_mbps: mbps.limit, network_burst_kb: kb.limit }, disabled, etag: asked?.etag });
  };
  return (
    <Confirm needs="manage" trigger={trigger} title={asked ? `Edit ${asked.code}` : "Add a SKU"} action="Save" ready={ready} changed={asked?.etag !== sku?.etag} reset={reset} run={run}>
      {!asked && <TextField label="Code" mono value={code} onChange={(code) => set({ code })} problem={slugProblem(code)} hint="For example h200-sxm-slice." />}
      <TextField label="Display name" value={name} onChange={(name) => set({ name })} />
      <SelectField label="Shape" value={shape} onChange={(shape) => set({ shape })} options={[["gpu_slice", "Slice (virtual machine)"], ["baremetal", "Bare metal"]]} />
      <TextField label="Slot class" mono value={slotClass} onChange={(slotClass) => set({ slotClass })} hint="Class of the slots of this SKU, for example h200_sxm." />
      <TextField label="GPU counts" value={gpus} onChange={(gpus) => set({ gpus })} problem={counts ? undefined : "Enter whole numbers, for example 1, 2, 4."} />
      <TextField label="vCPUs per GPU" numeric value={vcpus} onChange={(vcpus) => set({ vcpus })} problem={cpus ? undefined : "Enter a whole number."} />
      <TextField label="Memory per GPU in GiB" numeric value={memory} onChange={(memory) => set({ memory })} problem={mib ? undefined : "Enter a number of GiB."} />
      {shape !== "baremetal" && <TextField label="Bandwidth of a VM in Mbit/s (optional)" numeric value={bandwidth} onChange={(bandwidth) => set({ bandwidth })} problem={mbps.problem} hint="In each direction, with any number of GPUs. Empty: the setting of the host." />}
      {mbps.limit && <TextField label="Burst in kilobytes (optional)" numeric value={burst} onChange={(burst) => set({ burst })} problem={kb.problem} hint="What may pass at once before the bandwidth is limited." />}
      <TextField label="Profile (optional)" mono value={profile} onChange={(profile) => set({ profile })} />
      <label className="check">
        <input type="checkbox" checked={hugepages} onChange={(event) => set({ hugepages: event.target.checked })} /> <span>Back the memory with hugepages</span>
      </label>
      {asked && (
        <label className="check">
          <input type="checkbox" checked={disabled} onChange={(event) => set({ disabled: event.target.checked })} /> <span>Disabled <small className="muted">Existing allocations and capacity reservations keep working: their projects can launch on the reserved GPUs. Other launches are refused; queued ones fail.</small></span>
        </label>
      )}
    </Confirm>
  );
}

/** That a SKU is disabled, and how many GPUs capacity reservations hold of it all the same. */
export function disabledText({ reserved_gpus = 0 }: Pick<Sku, "reserved_gpus">): string {
  if (reserved_gpus === 0) return "Disabled";
  return `Disabled, ${reserved_gpus} ${reserved_gpus === 1 ? "GPU" : "GPUs"} reserved`;
}

export function Skus() {
  const add = (
    <SkuForm
      trigger={
        <Button kind="primary">
          <Plus size={16} aria-hidden="true" /> Add a SKU
        </Button>
      }
    />
  );
  return (
    <Loaded of={[useSkus()]} lines={4} label="Loading SKUs">
      {(skus) => {
        const places = placesFor(skus.map(({ price_per_gpu_hour }) => amountOf(price_per_gpu_hour)));
        return skus.length === 0 ? (
          <Empty icon={<Cpu size={28} />} title="No SKU yet" action={add}>
            A SKU is a size that users launch. It is offered once it has a price.
          </Empty>
        ) : (
          <>
            <div className="tab-actions">{add}</div>
            <TableCard label="SKUs" columns={["SKU", ["Per GPU-hour", "number"], ["Slot class", "optional"], ["GPU counts", "optional"], ["Per GPU", "optional"], ["Actions", "number"]]}>
              {skus.map((sku) => (
                <tr key={sku.code}>
                  <td>
                    <strong>{sku.display_name || sku.code}</strong> {sku.lab && <LabMark />}
                    <br />
                    <code>{sku.code}</code>
                  </td>
                  <td className="number">{sku.price_per_gpu_hour ? <MoneyText amount={amountOf(sku.price_per_gpu_hour)} places={places} /> : <span className="fits-not">No price, not offered</span>}
                    {sku.disabled && <span className="fits-not block">{disabledText(sku)}</span>}
                  </td>
                  <td className="optional">
                    <code>{sku.slot_class}</code>
                  </td>
                  <td className="optional">{sku.allowed_gpu_counts.join(", ")}</td>
                  <td className="optional">
                    {sku.profile.vcpus_per_gpu} vCPU, {bytes((sku.profile.memory_mib_per_gpu ?? 0) * 1024 * 1024)}
                    {bandwidthText(sku.profile) && <small className="muted block">{bandwidthText(sku.profile)} per VM</small>}
                  </td>
                  <td className="number">
                    {/* its price and what is reserved of it change by themselves, and are not of the form */}
                    <SkuForm sku={sku} trigger={<Button small aria-label={`Edit ${sku.code}`}>Edit</Button>} />
                  </td>
                </tr>
              ))}
            </TableCard>
          </>
        );
      }}
    </Loaded>
  );
}
