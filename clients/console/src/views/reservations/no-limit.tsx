/** In place of the form, for a project whose members cannot reserve. */
import { Empty } from "../../ui/basics";
import { CalendarClock } from "../../ui/icons";

export function NoLimit() {
  return (
    <Empty icon={<CalendarClock size={28} />} title="This project cannot reserve GPUs yet">
      Its reservation limit is 0. Ask an operator to raise the limit, or to reserve GPUs for the project.
    </Empty>
  );
}
