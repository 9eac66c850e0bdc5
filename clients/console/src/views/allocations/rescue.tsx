/** Starts a VM from a rescue image, with its own disks beside it. */
import { useState } from "react";
import { client, unwrap } from "../../api/client";
import { useImages } from "../../api/queries";
import type { Allocation } from "../../api/types";
import { nameOf } from "../../lib/allocation-name";
import { Button } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { LifeBuoy } from "../../ui/icons";
import { rescueImages } from "./rescue-images";

export function Rescue({ allocation, done }: { allocation: Allocation; done: (next: Allocation) => void }) {
  const images = rescueImages(useImages().data ?? [], allocation);
  const [chosen, setChosen] = useState("");
  const image = chosen || images[0]?.slug || "";
  const name = nameOf(allocation);
  const path = { allocation_id: allocation.id ?? "" };
  const rescue = async () => done(await unwrap(client.POST("/api/v1/allocations/{allocation_id}:rescue", { params: { path }, body: { image } })));
  return (
    <Confirm trigger={<Button><LifeBuoy size={15} aria-hidden="true" /> Rescue</Button>} title={`Rescue ${name}?`} action="Rescue" ready={image !== ""} run={rescue}>
      <p>
        The VM stops and starts from a rescue image. Its own disks are attached as extra disks and do not change. The rescue disk is the first disk and is deleted afterwards. <strong>Billing continues.</strong>
      </p>
      {images.length === 0 ? (
        <p>No other image is compatible with the SKU, so the VM cannot be rescued.</p>
      ) : (
        <div className="field">
          <label htmlFor="rescue-image">Rescue image</label>
          <select id="rescue-image" value={image} onChange={(event) => setChosen(event.target.value)}>
            {images.map(({ slug, display_name }) => (
              <option key={slug} value={slug}>
                {display_name || slug}
              </option>
            ))}
          </select>
        </div>
      )}
    </Confirm>
  );
}
