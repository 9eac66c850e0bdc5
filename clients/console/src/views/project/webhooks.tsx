/** Webhooks of a project or an organisation: where its events are delivered to. */
import { useDeferredValue, useState } from "react";
import { useBounds } from "../../api/guardrails";
import type { Tenant } from "../../api/tenancy";
import { type Webhook, useCreateWebhook, useEventTypes, usePing, useRotateSecret, useWebhookState, useWebhooks } from "../../api/webhooks";
import { forbidden } from "../../lib/forbidden";
import { sentence } from "../../lib/text";
import { Badge, Button, Card, Empty, Time } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { SearchBox } from "../../ui/form";
import { Plus, Search, Webhook as Mark } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { ShowMore } from "../../ui/show-more";
import { useAsked } from "../../ui/use-asked";
import { TextField } from "../catalog/parts";
import { Deliveries } from "./deliveries";
import { urlProblem } from "./hooks";
import { Secret } from "./parts";

function NewWebhook({ tenant, made }: { tenant: Tenant; made: (webhook: Webhook) => void }) {
  const create = useCreateWebhook(tenant);
  const [url, setUrl] = useState("");
  const [description, setDescription] = useState("");
  const [chosen, setChosen] = useState<string[]>([]);
  const run = async () => {
    made(await create.mutateAsync({ url: url.trim(), description: description.trim(), event_types: chosen }));
    setUrl("");
    setDescription("");
    setChosen([]);
  };
  const address = url.trim();
  return (
    <Confirm
      trigger={
        <Button kind="primary">
          <Plus size={15} aria-hidden="true" /> Add a webhook
        </Button>
      }
      title="Add a webhook"
      action="Add"
      ready={address !== "" && urlProblem(address) === undefined}
      run={run}
    >
      <TextField label="Address" mono value={url} onChange={setUrl} problem={urlProblem(address)} hint="All members can see the URL. Do not put a secret into it." placeholder="https://hooks.example.com/gpuaas" />
      <TextField label="Description" value={description} onChange={setDescription} />
      <Loaded of={[useEventTypes(tenant.kind)]} lines={3} label="Loading types of events">
        {(types) => (
          <details>
            <summary>{chosen.length === 0 ? "All events" : `Events: ${chosen.length} of ${types.length}`}</summary>
            <fieldset className="checks">
              <legend>Only these events</legend>
              {types.map(({ name, summary }) => (
                <label key={name} className="check" title={summary}>
                  <input type="checkbox" checked={chosen.includes(name)} onChange={(event) => setChosen(event.target.checked ? [...chosen, name] : chosen.filter((one) => one !== name))} /> <span>{name}</span>
                </label>
              ))}
            </fieldset>
          </details>
        )}
      </Loaded>
    </Confirm>
  );
}

function State({ webhook }: { webhook: Webhook }) {
  if (webhook.state === "disabled") return <Badge tone="idle">Disabled</Badge>;
  return webhook.failing_time ? <Badge tone="bad">Failing</Badge> : <Badge tone="good">Enabled</Badge>;
}

const verbOf = ({ state }: Webhook) => (state === "disabled" ? "enable" : "disable");

export function Toggle({ webhook }: { webhook: Webhook }) {
  const [asked, askAnew] = useAsked(webhook);
  const change = useWebhookState(asked);
  const verb = verbOf(asked);
  const offered = sentence(verbOf(webhook));
  return (
    <Confirm trigger={<Button small aria-label={`${offered} ${webhook.url}`}>{offered}</Button>} title={`${sentence(verb)} the webhook?`} action={sentence(verb)} reset={askAnew} run={() => change.mutateAsync(verb)}>
      {verb === "enable" ? "Events from now on are delivered again." : "Deliveries stop, and pending ones fail. Events that happen while it is disabled are not delivered later."}
    </Confirm>
  );
}

function One({ webhook, made, manages, allowed }: { webhook: Webhook; made: (webhook: Webhook) => void; manages: boolean; /** By the organisation: otherwise it can be deleted alone. */ allowed: boolean }) {
  const change = useWebhookState(webhook);
  const rotate = useRotateSecret(webhook);
  const ping = usePing(webhook);
  const disabled = webhook.state === "disabled";
  const url = webhook.url ?? "";
  return (
    <Card
      title={
        <>
          <span className="breaks">{webhook.description || url}</span> <State webhook={webhook} />
        </>
      }
      aside={
        manages && <span className="page-actions">
          {allowed && !disabled && (
            <Confirm trigger={<Button small aria-label={`Ping ${url}`}>Ping</Button>} title="Send a ping?" action="Send" run={() => ping.mutateAsync()}>
              A delivery of the type <code>webhook.ping</code> is queued.
            </Confirm>
          )}
          {allowed && (
            <Confirm trigger={<Button small aria-label={`Rotate secret of ${url}`}>Rotate secret</Button>} title="Rotate the secret?" action="Rotate" run={async () => made(await rotate.mutateAsync())}>
              You get a new secret. Deliveries carry both signatures for a day.
            </Confirm>
          )}
          {allowed && (
            <Toggle webhook={webhook} />
          )}
          <Confirm danger trigger={<Button small aria-label={`Delete ${url}`}>Delete</Button>} title="Delete the webhook?" action="Delete" run={() => change.mutateAsync("delete")}>
            This is permanent. Its deliveries are deleted too.
          </Confirm>
        </span>
      }
    >
      <p className="muted">
        <code className="block breaks">{url}</code>
        {webhook.event_types?.length ? webhook.event_types.join(", ") : "All events"}
        {webhook.disable_reason && <>. {webhook.disable_reason}</>}
        {!disabled && webhook.failing_time && (
          <>
            . Deliveries have failed since the last success; the first failure was <Time value={webhook.failing_time} />.
          </>
        )}
      </p>
      <Deliveries webhook={webhook} manages={manages && allowed} />
    </Card>
  );
}

export function Webhooks({ tenant, manages }: { tenant: Tenant; manages: boolean }) {
  const [made, setMade] = useState<Webhook>();
  const [search, setSearch] = useState("");
  const asked = useDeferredValue(search);
  const found = useWebhooks(tenant, asked);
  // what was found may be of an older search than the one that is typed
  const none = found.data?.length === 0 && search.trim() === "" && asked.trim() === "";
  const bounds = useBounds(tenant.kind === "organisation" ? { organisation_id: tenant.id } : { project_id: tenant.id });
  const refused = forbidden(bounds.data, "webhooks_disabled");
  const adds = manages && !refused;
  return (
    <>
      {refused && <p className="notice">{refused} Existing webhooks receive nothing and can only be deleted.</p>}
      {made?.secret && (
        <Secret title="The secret of the webhook" label="secret" text={made.secret} close={() => setMade(undefined)}>
          <p>
            <strong>It is shown once.</strong> Your endpoint uses it to verify deliveries.
          </p>
        </Secret>
      )}
      {!none && (
        <>
          {adds && (found.data || search !== "" || asked !== "") && (
            <div className="tab-actions">
              <NewWebhook tenant={tenant} made={setMade} />
            </div>
          )}
          <div className="filters" role="search" aria-label="Webhooks">
            <SearchBox label="Search by address or description" placeholder="Address or description" value={search} onChange={setSearch} />
          </div>
        </>
      )}
      <Loaded of={[found, bounds]} lines={4} label="Loading webhooks">
        {(webhooks, _bounds) =>
          webhooks.length === 0 && !none ? (
            <Empty icon={<Search size={28} />} title="No webhook matches" action={<Button onClick={() => setSearch("")}>Clear the search</Button>}>
              Search for a part of an address or description.
            </Empty>
          ) : webhooks.length === 0 ? (
            <Empty icon={<Mark size={28} />} title="No webhooks" action={adds && <NewWebhook tenant={tenant} made={setMade} />}>
              An endpoint of yours receives signed events of {tenant.kind === "organisation" ? "the organisation and all of its projects" : "the project"} as they happen. {refused ? "" : manages ? "Add its URL." : "Owners add it."}
            </Empty>
          ) : (
            <>
              {webhooks.map((webhook) => (
                <One key={webhook.id} webhook={webhook} made={setMade} manages={manages} allowed={!refused} />
              ))}
              <ShowMore of={found} noun="webhook" />
            </>
          )
        }
      </Loaded>
    </>
  );
}
