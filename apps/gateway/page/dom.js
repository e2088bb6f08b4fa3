// Short ways to the elements of the page.

/** The element with this id. */
export const $ = (id) => document.getElementById(id);

/** A new element with a text: never markup. */
export function make(name, text = "", className = "") {
  const element = document.createElement(name);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

/** A copy of the first element of a template. */
export const copyOf = (template) => $(template).content.firstElementChild.cloneNode(true);

/** Sets the text of an element, if it is another one: a selection in it and what is read aloud stay as they are. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
