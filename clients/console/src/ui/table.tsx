/** Tables, and rows that lead to a page of their own. */
import type { CSSProperties, ReactNode } from "react";
import { Link, useLocation } from "wouter";

/** A column by its title, or by its title and class: "number" stands at the right, "optional" is hidden on narrow screens. */
export type Column = string | [title: ReactNode, className?: string];

interface TableProps {
  label: string;
  columns: Column[];
  /** A click on a row does something. */
  rowsAct?: boolean;
  /** The rows. */
  children: ReactNode;
}

/** The titles for the style sheet, which puts them before the cells where the table is too narrow for columns. */
export function titlesOf(columns: Column[]): CSSProperties {
  const titles = columns.map((column, index) => {
    const title = typeof column === "string" ? column : column[0];
    return [`--column-${index + 1}`, typeof title === "string" ? JSON.stringify(title) : '""'];
  });
  return Object.fromEntries(titles) as CSSProperties;
}

export function Table({ label, columns, rowsAct = false, children }: TableProps) {
  return (
    <table className={rowsAct ? "rows" : "rows still"} aria-label={label} style={titlesOf(columns)}>
      <thead>
        <tr>
          {columns.map((column, index) => {
            const [title, className] = typeof column === "string" ? [column] : column;
            return (
              <th key={index} className={className}>
                {title}
              </th>
            );
          })}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}

/** A table on a card of its own, with a footer. */
export function TableCard({ foot, ...table }: TableProps & { foot?: ReactNode }) {
  return (
    <div className="table-card">
      <Table {...table} />
      {foot && <footer className="table-foot">{foot}</footer>}
    </div>
  );
}

/** A row that links to a page of its own. The link is in the name; a click anywhere else in the row is a shortcut to it. */
export function LinkRow({ to, name, mark, before, children }: { to: string; name: ReactNode; mark?: ReactNode; /** Stands before the name and is no part of the link, such as a checkbox. */ before?: ReactNode; children: ReactNode }) {
  const [, navigate] = useLocation();
  return (
    <tr onClick={() => navigate(to)}>
      <td className="tight">
        {before && (
          <span className="row-before" onClick={(event) => event.stopPropagation()}>
            {before}
          </span>
        )}
        <Link href={to} className="row-name" onClick={(event) => event.stopPropagation()}>
          {name}
        </Link>
        {mark}
      </td>
      {children}
    </tr>
  );
}
