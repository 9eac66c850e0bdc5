/** One audit record as a row, with the rest of it to unfold. */
import { Fragment } from "react";
import type { AuditRecord } from "../../api/audit";
import { shortId } from "../../lib/text";
import { fullTime, shortTime } from "../../lib/time";
import { Badge, Facts } from "../../ui/basics";
import type { Column } from "../../ui/table";

export const COLUMNS: Column[] = ["Time", "Who", "Action", "Outcome", ["Resource", "optional"], "Address", "Details"];

/** The detail with its lines; as it is where it is no JSON. */
export function detailText(detail = ""): string {
  try {
    return JSON.stringify(JSON.parse(detail), null, 2);
  } catch {
    return detail;
  }
}

/** Whether there is more in the detail than the outcome, which the row shows. */
export function hasDetail(detail = ""): boolean {
  return !["", "{}", '{"outcome": "denied"}'].includes(detail);
}

function Sealed({ record: { position = "0", digest } }: { record: AuditRecord }) {
  if (!digest) return <>Not yet in the hash chain</>;
  return <span title={digest}>Position {position}, digest {digest.slice(0, 12)}…</span>;
}

/** Names of what has an id: projects and nodes. */
export type Names = ReadonlyMap<string, string>;

export function Row({ record, names }: { record: AuditRecord; names: Names }) {
  const { create_time = "", principal, action = "", outcome, resource, resource_id = "", address, user_agent, region, request_id, service, source, detail } = record;
  const name = names.get(resource_id);
  const denied = outcome === "denied";
  return (
    <tr className={denied ? "denied" : undefined}>
      <td className="tight">
        <time dateTime={create_time} title={fullTime(create_time)}>
          {shortTime(create_time)}
        </time>
      </td>
      <td>{principal}</td>
      <td>
        <code className="parts">
          {action.split(".").map((part, index) => (
            <Fragment key={index}>
              {index > 0 && (
                <>
                  .<wbr />
                </>
              )}
              {part}
            </Fragment>
          ))}
        </code>
      </td>
      <td>
        <Badge tone={denied ? "bad" : "good"}>{denied ? "Denied" : "Allowed"}</Badge>
      </td>
      <td className="optional" title={resource_id}>
        {resource} {name ? <strong>{name}</strong> : resource_id && <span className="muted">{shortId(resource_id)}</span>}
      </td>
      <td>{address || <span className="muted">The platform</span>}</td>
      <td>
        <details className="record">
          <summary aria-label={`Show. Details of ${action} by ${principal}`}>Show</summary>
          <Facts
            rows={[
              ["Time", fullTime(create_time)],
              ["Resource", [resource, name, resource_id].filter(Boolean).join(" ")],
              ["Request", request_id || "–"],
              ["Client", user_agent || "–"],
              ["Region", region || "–"],
              ["Written by", service || source],
              ["Hash chain", <Sealed record={record} />],
            ]}
          />
          {hasDetail(detail) && <pre>{detailText(detail)}</pre>}
        </details>
      </td>
    </tr>
  );
}
