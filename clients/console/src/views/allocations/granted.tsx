/** The allocations that who reads none of the project has a grant for. */
import { useOwnGrants } from "../../api/grants";
import { projectOf } from "../../session/roles";
import { useSession } from "../../session/session";
import { Card } from "../../ui/basics";
import { Loaded } from "../../ui/loaded";
import { Named } from "../overview/named";

export default function Granted() {
  const session = useSession();
  const grants = useOwnGrants((session && projectOf(session)?.id) ?? "");
  return (
    <Card title="Allocations you have a grant for">
      <Loaded of={[grants]} lines={2} label="Loading your grants">
        {(own) =>
          own.length === 0 ? (
            <p className="muted">None. An owner of the project can grant you access to one allocation.</p>
          ) : (
            <ul className="events">
              {own.map((id) => (
                <li key={id}>
                  <Named id={id} view={{}} />
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  );
}
