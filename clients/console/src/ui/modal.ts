/** What all dialogs that stand in front of the page have in common. */

let open = 0;

function count(more: 1 | -1): void {
  open += more;
  const page = document.getElementById("root");
  if (page) page.inert = open > 0;
}

/**
 * Of the content of a dialog: nothing behind it is reached by keyboard, or by software that reads the page, while it is open.
 * From when the dialog takes the focus on, since it knows by then where to return it to.
 */
export const MODAL = { onOpenAutoFocus: () => count(1), onCloseAutoFocus: () => count(-1) };
