/** Images: what VMs boot. */
import { useDeferredValue, useState } from "react";
import { type DriverStrategy, useAllImages, useCreateImage, useSetImageStatus } from "../../api/catalog";
import { useSkus } from "../../api/queries";
import type { Image } from "../../api/types";
import { bytes, sentence } from "../../lib/text";
import { uncheckedFor } from "../../lib/unchecked";
import { Badge, Button, Empty, type Tone } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { SearchBox, Select } from "../../ui/form";
import { HardDrive, Plus, Search } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { ShowMore } from "../../ui/show-more";
import { type Column, TableCard } from "../../ui/table";
import { useAsked } from "../../ui/use-asked";
import { useQueryReset, useQueryState } from "../../ui/use-query-state";
import { SelectField, TextField, countOf, isSlug, slugProblem } from "./parts";
import { type TypedCheck, bodyOf, isGood } from "./readiness";
import { ReadinessFields } from "./readiness-fields";

const TONES: Record<string, Tone> = { active: "good", disabled: "idle", pending: "busy", failed: "bad" };
const DRIVERS: [DriverStrategy, string][] = [
  ["none", "None"],
  ["cloud_init", "Installed at the first boot"],
  ["preinstalled", "In the image"],
];

function NewImage() {
  const create = useCreateImage();
  const skus = useSkus().data ?? [];
  const [slug, setSlug] = useState("");
  const [name, setName] = useState("");
  const [source, setSource] = useState("");
  const [drivers, setDrivers] = useState<DriverStrategy>("none");
  const [timeout, setBootTimeout] = useState("600");
  const [chosen, setChosen] = useState<string[]>([]);
  const [checks, setChecks] = useState<TypedCheck[]>([]);
  const seconds = countOf(timeout);
  const isSource = source.startsWith("oci://") && source.length > 8;
  const run = async () => {
    if (!seconds) return;
    await create.mutateAsync({ slug, display_name: name.trim(), source_uri: source.trim(), driver_strategy: drivers, boot_timeout_seconds: seconds, compatible_skus: chosen, readiness_checks: bodyOf(checks) });
    setSlug("");
    setSource("");
    setChecks([]);
  };
  return (
    <Confirm
      needs="operate"
      trigger={
        <Button kind="primary">
          <Plus size={16} aria-hidden="true" /> Add an image
        </Button>
      }
      title="Add an image"
      long
      action="Add"
      ready={isSlug(slug) && isSource && !!seconds && chosen.length > 0 && isGood(checks)}
      run={run}
    >
      <TextField label="Slug" mono value={slug} onChange={setSlug} problem={slugProblem(slug)} hint="For example ubuntu-24.04." />
      <TextField label="Display name" value={name} onChange={setName} />
      <TextField label="Source" mono value={source} onChange={setSource} placeholder="oci://registry/namespace/name:tag" problem={source !== "" && !isSource ? "Begins with oci://" : undefined} hint="Its content is verified in the registry. This takes minutes for a large image." />
      <fieldset className="checks">
        <legend>Compatible SKUs</legend>
        {skus.length === 0 && <p className="muted">No SKU yet.</p>}
        {skus.map(({ code, display_name }) => (
          <label key={code} className="check">
            <input type="checkbox" checked={chosen.includes(code)} onChange={(event) => setChosen(event.target.checked ? [...chosen, code] : chosen.filter((one) => one !== code))} /> <span>{display_name || code}</span>
          </label>
        ))}
      </fieldset>
      <SelectField label="GPU drivers" value={drivers} onChange={setDrivers} options={DRIVERS} />
      <TextField label="Boot timeout in seconds" numeric value={timeout} onChange={setBootTimeout} problem={seconds ? undefined : "Enter a whole number."} />
      <ReadinessFields checks={checks} onChange={setChecks} />
    </Confirm>
  );
}

const verbOf = ({ status }: Image) => (status === "active" ? "Disable" : "Activate");

export function Toggle({ image }: { image: Image }) {
  const set = useSetImageStatus();
  const slug = image.slug ?? "";
  const [asked, askAnew] = useAsked(image);
  const disables = verbOf(asked) === "Disable";
  return (
    <Confirm
      needs="operate"
      trigger={
        <Button small aria-label={`${verbOf(image)} ${slug}`}>
          {verbOf(image)}
        </Button>
      }
      title={`${verbOf(asked)} ${slug}?`}
      long={!disables}
      action={verbOf(asked)}
      reset={askAnew}
      run={() => set.mutateAsync({ slug, status: disables ? "disabled" : "active", etag: asked.etag })}
    >
      {disables ? "Nobody can launch this image any more. Existing allocations continue." : "The image is verified in the registry and offered again."}
    </Confirm>
  );
}

function Row({ image }: { image: Image }) {
  const skus = useSkus().data ?? [];
  const unchecked = uncheckedFor(image, skus);
  return (
    <tr>
      <td>
        <strong>{image.slug}</strong>
        <br />
        <small className="muted">{image.display_name}</small>
        {unchecked.length > 0 && (
          <>
            <br />
            <Badge tone="warn">No readiness checks</Badge> <small className="muted">Its VMs become active without a GPU test ({unchecked.join(", ")}). Add checks in a new image version.</small>
          </>
        )}
        {!!image.readiness_checks?.length && (
          <>
            <br />
            <small className="muted">Checks: {image.readiness_checks.map(({ name }) => name).join(", ")}</small>
          </>
        )}
      </td>
      <td>
        <Badge tone={TONES[image.status ?? ""] ?? "idle"}>{sentence(image.status ?? "")}</Badge>
      </td>
      <td className="optional">{image.compatible_skus?.join(", ")}</td>
      <td className="number optional">{bytes(Number(image.size_bytes ?? 0))}</td>
      <td className="optional">
        <code title={image.digest}>{image.digest?.slice(0, 19) || "–"}</code>
      </td>
      <td className="number">
        <Toggle image={image} />
      </td>
    </tr>
  );
}

const COLUMNS: Column[] = ["Image", "Status", ["SKUs", "optional"], ["Size", "number optional"], ["Digest", "optional"], ["Actions", "number"]];
const STATUSES = [
  { value: "", label: "All" },
  { value: "active", label: "Active" },
  { value: "disabled", label: "Disabled" },
];

export function Images() {
  const [search, setSearch] = useQueryState("search");
  const [status, setStatus] = useQueryState("status");
  const clear = useQueryReset(["search", "status"]);
  const asked = useDeferredValue(search);
  const found = useAllImages(asked, status);
  // what was found may be of an older search than the one that is typed
  const filtered = search.trim() !== "" || asked.trim() !== "" || status !== "";
  const none = found.data?.length === 0 && !filtered;
  return (
    <>
      {!none && (
        <>
          {(found.data || filtered) && (
            <div className="tab-actions">
              <NewImage />
            </div>
          )}
          <div className="filters" role="search" aria-label="Images">
            <SearchBox label="Search by slug or name" placeholder="Slug or name" value={search} onChange={setSearch} />
            <Select label="Status" value={status} onChoose={setStatus} options={STATUSES} />
          </div>
        </>
      )}
      <Loaded of={[found]} lines={4} label="Loading images">
        {(images) =>
          images.length > 0 ? (
            <TableCard label="Images" columns={COLUMNS} foot={found.more && <ShowMore of={found} noun="image" />}>
              {images.map((image) => (
                <Row key={image.slug} image={image} />
              ))}
            </TableCard>
          ) : none ? (
            <Empty icon={<HardDrive size={28} />} title="No image yet" action={<NewImage />}>
              Push an image to the registry with <code>oras</code> or <code>skopeo</code>, then add it here.
            </Empty>
          ) : (
            <Empty icon={<Search size={28} />} title="No image matches" action={<Button onClick={clear}>Clear the filters</Button>}>
              Search for a part of a slug or name, or choose another status.
            </Empty>
          )
        }
      </Loaded>
    </>
  );
}
