/** Who is registered, with the role on the whole platform: registered, disabled and enabled by administrators. */
import { useDeferredValue, useState } from "react";
import { type Principal, type PrincipalFilter, useCreatePrincipal, usePrincipalState, usePrincipals, useSetPlatformRole } from "../../api/principals";
import { sentence } from "../../lib/text";
import { type PlatformRole, ROLE_WORDS, useMay } from "../../session/rights";
import { useSession } from "../../session/session";
import { Badge, Button, Empty, Time } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Field, SearchBox, Select } from "../../ui/form";
import { Plus, Search } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { Page } from "../../ui/shell";
import { ShowMore } from "../../ui/show-more";
import { TableCard } from "../../ui/table";
import { useAsked } from "../../ui/use-asked";
import { useQueryReset, useQueryState } from "../../ui/use-query-state";
import { SelectField, TextField } from "../catalog/parts";
import { isComplete, issuerProblem, principalNameProblem } from "./rules";

const ROLES: [PlatformRole, string][] = [
  ["unspecified", "None"],
  ["auditor", "Auditor"],
  ["operator", "Operator"],
  ["admin", "Administrator"],
];
const FIRST = { name: "", display_name: "", issuer: "", subject: "", email: "" };

function Register() {
  const create = useCreatePrincipal();
  const [typed, setTyped] = useState(FIRST);
  const set = (field: keyof typeof FIRST) => (value: string) => setTyped((before) => ({ ...before, [field]: value }));
  const run = async () => {
    await create.mutateAsync(typed);
    setTyped(FIRST);
  };
  return (
    <Confirm
      needs="manage"
      trigger={
        <Button kind="primary">
          <Plus size={16} aria-hidden="true" /> Register a principal
        </Button>
      }
      title="Register a principal"
      action="Register"
      ready={isComplete(typed)}
      run={run}
    >
      <p>Registers a person of a trusted issuer. People with an invitation need no registration.</p>
      <TextField label="Name" mono value={typed.name} onChange={set("name")} problem={principalNameProblem(typed.name)} placeholder="user:alice" hint="It cannot be changed later." />
      <TextField label="Display name" value={typed.display_name} onChange={set("display_name")} />
      <TextField label="Issuer" mono value={typed.issuer} onChange={set("issuer")} problem={issuerProblem(typed.issuer)} placeholder="https://login.example.com" hint="Exactly as in its tokens." />
      <TextField label="Subject" mono value={typed.subject} onChange={set("subject")} hint="The issuer’s name for the principal." />
      <TextField label="Email (optional)" value={typed.email} onChange={set("email")} />
    </Confirm>
  );
}

export function ChangeRole({ principal }: { principal: Principal }) {
  const [asked, askAnew] = useAsked(principal);
  const change = useSetPlatformRole(asked);
  const [chosen, choose] = useState<PlatformRole>();
  const now = asked.platform_role ?? "unspecified";
  const role = chosen ?? now;
  const reset = () => {
    askAnew();
    choose(undefined);
  };
  return (
    <Confirm needs="manage" trigger={<Button small aria-label={`Role of ${principal.name}`}>Role</Button>} title={`Role of ${principal.name} on the platform`} action="Save" ready={role !== now} changed={asked.etag !== principal.etag} reset={reset} run={() => change.mutateAsync(role)}>
      <p>Auditors have read-only access. Operators can also manage nodes, images and allocations; administrators also rights, prices, quotas, regions and SKUs.</p>
      <SelectField label="Role" value={role} onChange={choose} options={ROLES} />
    </Confirm>
  );
}

const verbOf = ({ disable_time }: Principal) => (disable_time ? "enable" : "disable");

export function ChangeState({ principal }: { principal: Principal }) {
  const [asked, askAnew] = useAsked(principal);
  const change = usePrincipalState(asked);
  const [reason, setReason] = useState("");
  const verb = verbOf(asked);
  const offered = sentence(verbOf(principal));
  return (
    <Confirm needs="manage" danger={verb === "disable"} trigger={<Button small aria-label={`${offered} ${principal.name}`}>{offered}</Button>} title={`${sentence(verb)} ${principal.name}?`} action={sentence(verb)} reset={askAnew} run={() => change.mutateAsync({ verb, reason: reason.trim() })}>
      <p>{verb === "disable" ? "Every call is refused, and open terminals and streams end within seconds. Allocations continue and are billed." : "Calls are accepted again, with the existing roles."}</p>
      {verb === "disable" && (
        <Field label="Reason (optional)" hint="For the audit trail.">
          {({ id, describedBy }) => <input id={id} aria-describedby={describedBy} value={reason} maxLength={500} autoComplete="off" onChange={(event) => setReason(event.target.value)} />}
        </Field>
      )}
    </Confirm>
  );
}

function Row({ principal, own, manages }: { principal: Principal; /** It is the reader. */ own: boolean; manages: boolean }) {
  const { name, display_name, email, kind, platform_role, issuer, subject, disable_time, create_time } = principal;
  const person = kind !== "service_account";
  return (
    <tr>
      <td>
        <strong>{display_name || name}</strong> {own && <small className="muted">you</small>} {disable_time && <Badge tone="bad">Disabled</Badge>} {!person && <Badge tone="idle">Service account</Badge>}
        <small className="muted block">{[display_name !== name && display_name && name, email].filter(Boolean).join(", ")}</small>
      </td>
      <td>{sentence(ROLE_WORDS[platform_role ?? "unspecified"]) || <span className="muted">None</span>}</td>
      <td className="optional">
        <code className="block breaks">{issuer || "–"}</code>
        <small className="muted breaks">{subject}</small>
      </td>
      <td className="number optional">
        <Time value={create_time} />
      </td>
      <td className="number">
        {manages && person ? (
          <span className="page-actions">
            <ChangeRole principal={principal} />
            <ChangeState principal={principal} />
          </span>
        ) : (
          <span className="muted">–</span>
        )}
      </td>
    </tr>
  );
}

export default function Principals() {
  const [search, setSearch] = useQueryState("search");
  const [role, setRole] = useQueryState("role");
  const [state, setState] = useQueryState("state");
  const clear = useQueryReset(["search", "role", "state"]);
  const manages = useMay("manage");
  const own = useSession()?.principal;
  const filter: PrincipalFilter = { search: useDeferredValue(search), platform_role: ROLES.find(([value]) => value === role)?.[0] ?? "", state: state === "enabled" || state === "disabled" ? state : "" };
  const found = usePrincipals(filter);
  const filtered = search.trim() !== "" || role !== "" || state !== "";
  return (
    <Page title="Principals" actions={<Register />}>
      <div className="filters" role="search" aria-label="Principals">
        <SearchBox label="Search by name, display name or email" placeholder="Name, display name or email" value={search} onChange={setSearch} />
        <Select label="Role" value={filter.platform_role} onChoose={setRole} options={[{ value: "", label: "All" }, ...ROLES.slice(1).map(([value, label]) => ({ value: value as string, label }))]} />
        <Select label="State" value={filter.state} onChoose={setState} options={[{ value: "", label: "All" }, { value: "enabled", label: "Enabled" }, { value: "disabled", label: "Disabled" }]} />
      </div>
      <Loaded of={[found]} lines={6} label="Loading principals">
        {(principals) =>
          principals.length > 0 ? (
            <TableCard label="Principals" columns={["Name", "Role", ["Issuer and subject", "optional"], ["Registered", "number optional"], ["Actions", "number"]]} foot={found.more && <ShowMore of={found} noun="principal" />}>
              {principals.map((principal) => (
                <Row key={principal.id} principal={principal} own={principal.name === own} manages={manages} />
              ))}
            </TableCard>
          ) : filtered ? (
            <Empty icon={<Search size={28} />} title="No principal matches" action={<Button onClick={clear}>Clear the filters</Button>}>
              Search for a part of a name, display name or email address, or choose another role or state.
            </Empty>
          ) : (
            <Empty icon={<Search size={28} />} title="Nobody is registered yet">
              {manages ? "Register a principal, or invite the owner of an organisation." : "Administrators register principals."}
            </Empty>
          )
        }
      </Loaded>
    </Page>
  );
}
