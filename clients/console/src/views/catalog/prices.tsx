/** Prices: published versions, of which running allocations keep theirs. */
import { useState } from "react";
import { useCreatePrice, usePrices } from "../../api/catalog";
import { useSkus } from "../../api/queries";
import type { Sku } from "../../api/types";
import { moneyOf } from "../../lib/amount";
import { amountOf, placesFor } from "../../lib/money";
import { Badge, Button, Empty, MoneyText, Planned } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Select } from "../../ui/form";
import { Plus, ReceiptText } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { ShowMore } from "../../ui/show-more";
import { TableCard } from "../../ui/table";
import { useQueryState } from "../../ui/use-query-state";
import { SelectField, TextField } from "./parts";

function NewPrice({ skus }: { skus: Sku[] }) {
  const create = useCreatePrice();
  const [sku, setSku] = useState(skus[0]?.code ?? "");
  const [amount, setAmount] = useState("");
  const [currency, setCurrency] = useState(skus.find((one) => one.price_per_gpu_hour)?.price_per_gpu_hour?.currency_code ?? "EUR");
  const price = moneyOf(amount, currency);
  const run = async () => {
    if (price) await create.mutateAsync({ sku, price_per_gpu_hour: price });
    setAmount("");
  };
  return (
    <Confirm
      needs="manage"
      trigger={
        <Button kind="primary" disabled={skus.length === 0}>
          <Plus size={16} aria-hidden="true" /> Publish a price
        </Button>
      }
      title="Publish a price"
      action="Publish"
      ready={!!price && sku !== ""}
      run={run}
    >
      <p>The price applies to new allocations from now on; existing allocations keep their price. A published price cannot be deleted. To replace it, publish another one.</p>
      <SelectField label="SKU" value={sku} onChange={setSku} options={skus.map(({ code, display_name }) => [code, display_name || code])} />
      <TextField label="Price per GPU-hour" value={amount} onChange={setAmount} placeholder="2.50" problem={amount !== "" && !moneyOf(amount, "EUR") ? "Enter an amount such as 2.50, with at most nine decimals." : undefined} />
      <TextField label="Currency" value={currency} onChange={(text) => setCurrency(text.toUpperCase())} problem={/^[A-Z]{3}$/.test(currency) ? undefined : "Three letters, for example EUR."} />
    </Confirm>
  );
}

export function Prices() {
  const [of, setOf] = useQueryState("of");
  const found = usePrices(of);
  return (
    <Loaded of={[useSkus()]} lines={4} label="Loading SKUs">
      {(skus) => {
        const none = found.data?.length === 0 && of === "";
        const current = new Set(skus.map(({ price_version_id }) => price_version_id));
        return (
          <>
            {!none && (
              <>
                {(found.data || of !== "") && (
                  <div className="tab-actions">
                    <NewPrice skus={skus} />
                  </div>
                )}
                <div className="filters" role="search" aria-label="Prices">
                  <Select label="SKU" value={of} onChoose={setOf} options={[{ value: "", label: "All" }, ...skus.map(({ code, display_name }) => ({ value: code, label: display_name || code }))]} />
                </div>
              </>
            )}
            <Loaded of={[found]} lines={4} label="Loading prices">
              {(prices) => {
                // versions are listed newest first
                const places = placesFor(prices.map(({ price_per_gpu_hour }) => amountOf(price_per_gpu_hour)));
                if (none) {
                  return (
                    <Empty icon={<ReceiptText size={28} />} title="No price yet" action={<NewPrice skus={skus} />}>
                      {skus.length === 0 ? "Add a SKU first." : "A SKU is offered once it has a price."}
                    </Empty>
                  );
                }
                if (prices.length === 0) return <p className="muted">This SKU has no price yet.</p>;
                return (
                  <TableCard label="Prices" columns={["SKU", ["Per GPU-hour", "number"], "From", "State"]} foot={found.more && <ShowMore of={found} noun="price" />}>
                    {prices.map(({ id, sku, price_per_gpu_hour, effective_time }) => (
                      <tr key={id}>
                        <td className="tight">{sku}</td>
                        <td className="number">
                          <MoneyText amount={amountOf(price_per_gpu_hour)} places={places} />
                        </td>
                        <td>
                          <Planned value={effective_time} short />
                        </td>
                        <td>{current.has(id) ? <Badge tone="good">Current</Badge> : <span className="muted">Replaced</span>}</td>
                      </tr>
                    ))}
                  </TableCard>
                );
              }}
            </Loaded>
          </>
        );
      }}
    </Loaded>
  );
}
