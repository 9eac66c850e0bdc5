/** What somebody sees who is in no project, in the place of what belongs to one: the way into one. */
import { Link } from "wouter";
import { useMay } from "../session/rights";
import { useSession } from "../session/session";
import { Empty } from "./basics";
import { KeyRound } from "./icons";

export function NoProject() {
  const owns = useSession()?.organisations?.some(({ role }) => role === "owner");
  const administers = useMay("manage");
  const way = owns ? <Link href="/organisation?tab=projects">Add a project to your organisation</Link> : administers && <Link href="/admin/organisations">Show the organisations</Link>;
  return (
    <Empty icon={<KeyRound size={28} />} title="You belong to no project" action={way}>
      {owns ? "Allocations, quotas and cost belong to a project. Add one, or ask an owner of another for an invitation." : "Ask an owner of a project for an invitation, and open the link that you get."}
    </Empty>
  );
}
