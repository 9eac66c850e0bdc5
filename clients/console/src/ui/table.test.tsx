import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { Router } from "wouter";
import { LinkRow, Table, TableCard } from "./table";

it("a table has its columns with their classes, and says whether its rows do something", () => {
  const still = renderToStaticMarkup(<Table label="Things" columns={["Name", ["GPUs", "number"]]} children={null} />);
  expect(still).toBe('<table class="rows still" aria-label="Things" style="--column-1:&quot;Name&quot;;--column-2:&quot;GPUs&quot;"><thead><tr><th>Name</th><th class="number">GPUs</th></tr></thead><tbody></tbody></table>');
  expect(renderToStaticMarkup(<Table label="Things" columns={[]} rowsAct children={null} />)).toContain('<table class="rows" ');
});

it("a card has a foot where something is to be said, and a row leads where its name does", () => {
  const show = (foot: string | undefined) =>
    renderToStaticMarkup(
      <Router ssrPath="/">
        <TableCard label="Things" columns={["Name"]} foot={foot}>
          <LinkRow to="/things/1" name="one" mark={<b>new</b>}>
            <td>4</td>
          </LinkRow>
        </TableCard>
      </Router>,
    );
  expect(show("1 thing")).toContain('</table><footer class="table-foot">1 thing</footer></div>');
  expect(show(undefined)).not.toContain("<footer");
  expect(show(undefined)).toContain('<tr><td class="tight"><a href="/things/1" class="row-name">one</a><b>new</b></td><td>4</td></tr>');
});
