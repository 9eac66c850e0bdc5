/** Deliveries of a webhook: what was sent, what the endpoint said, and once more by hand. */
import { useDeferredValue } from "react";
import { type DeliveryState, type Webhook, type WebhookDelivery, deliveriesFilter, useDeliveries, useRedeliver } from "../../api/webhooks";
import { sentence, shortId } from "../../lib/text";
import { Badge, Button, Planned, Time } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { SearchBox, Select } from "../../ui/form";
import { Loaded } from "../../ui/loaded";
import { Cut } from "../../ui/no-match";
import { Table } from "../../ui/table";
import { useQueryState } from "../../ui/use-query-state";
import { deliveryTone, outcome } from "./hooks";

const STATES: { value: DeliveryState | ""; label: string }[] = [
  { value: "", label: "All" },
  { value: "pending", label: "Pending" },
  { value: "delivered", label: "Delivered" },
  { value: "failed", label: "Failed" },
];

function Row({ webhook, delivery, manages }: { webhook: Webhook; delivery: WebhookDelivery; manages: boolean }) {
  const redeliver = useRedeliver(webhook);
  const { id = "", state = "", event_type = "" } = delivery;
  return (
    <tr>
      <td>
        <strong>{event_type}</strong>
        <code className="block" title={id}>
          {shortId(id)}
        </code>
      </td>
      <td>
        <Badge tone={deliveryTone(delivery)}>{sentence(state)}</Badge>
      </td>
      <td>{outcome(delivery)}</td>
      <td className="number optional">{delivery.attempts ?? 0}</td>
      <td className="optional">{delivery.next_attempt_time && delivery.attempts ? <>Next <Planned value={delivery.next_attempt_time} short /></> : <Time value={delivery.last_attempt_time ?? delivery.create_time} />}</td>
      <td className="number">
        {manages && state !== "pending" && webhook.state !== "disabled" ? (
          <Confirm trigger={<Button small aria-label={`Redeliver ${event_type} ${shortId(id)}`}>Redeliver</Button>} title="Redeliver the event?" action="Redeliver" run={() => redeliver.mutateAsync(id)}>
            The delivery is queued again with the same id and body, so the receiver can recognise a duplicate by the id.
          </Confirm>
        ) : (
          <span className="muted">–</span>
        )}
      </td>
    </tr>
  );
}

export function Deliveries({ webhook, manages }: { webhook: Webhook; manages: boolean }) {
  // each webhook of the page has its own filter
  const [wanted, setState] = useQueryState(`deliveries-${shortId(webhook.id ?? "")}`);
  const [search, setSearch] = useQueryState(`delivery-${shortId(webhook.id ?? "")}`);
  const state = STATES.find(({ value }) => value === wanted)?.value ?? "";
  const tests = manages && webhook.state !== "disabled";
  const asked = useDeferredValue(search);
  const { filter, cut } = deliveriesFilter(asked);
  const query = useDeliveries(webhook.id ?? "", state, filter);
  return (
    <>
      <div className="filters" role="search" aria-label={`Deliveries to ${webhook.url}`}>
        <SearchBox label="Search deliveries by event, error or whole id" placeholder="Event, error or whole id" value={search} onChange={setSearch} />
        <Select label="Deliveries" value={state} onChoose={setState} options={STATES} />
      </div>
      <Cut text={cut} />
      <Loaded of={[query]} lines={3} label="Loading deliveries">
        {({ pages }) => {
          const all = pages.flatMap(({ deliveries = [] }) => deliveries);
          return all.length === 0 ? (
            <p className="muted">{search.trim() || asked.trim() || state ? "No delivery matches. Search for a part of an event or error, or for a whole id, or choose another state." : `Nothing was sent yet.${tests ? " Events are sent as they happen. Ping sends a test event now." : ""}`}</p>
          ) : (
            <>
              <Table label={`Deliveries to ${webhook.url}`} columns={["Event", "State", "Outcome", ["Attempts", "number optional"], ["When", "optional"], ["Actions", "number"]]}>
                {all.map((delivery) => (
                  <Row key={delivery.id} webhook={webhook} delivery={delivery} manages={manages} />
                ))}
              </Table>
              {query.hasNextPage && (
                <Button small busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
                  Show more
                </Button>
              )}
            </>
          );
        }}
      </Loaded>
    </>
  );
}
