"use strict";
// A dropped file is chosen, as if the file field had opened it. Files are dropped on the fieldset of
// a file field, or anywhere on the form if the field is in none.
for (const field of document.querySelectorAll("input[type=file]")) {
  const zone = field.closest("fieldset") ?? field.form;
  const hint = document.createElement("span");
  hint.className = "note";
  const invitation = field.multiple ? " or drop them here" : " or drop it here";
  hint.textContent = invitation;
  hint.setAttribute("role", "status");
  field.after(hint);
  const mark = (event, on) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    zone.classList.toggle("dropping", on);
  };
  zone.addEventListener("dragover", (event) => mark(event, true));
  zone.addEventListener("dragleave", (event) => mark(event, false));
  zone.addEventListener("drop", (event) => {
    mark(event, false);
    if (!event.dataTransfer?.files.length) return;
    const chosen = new DataTransfer();
    for (const file of [...event.dataTransfer.files].slice(0, field.multiple ? undefined : 1)) {
      chosen.items.add(file);
    }
    field.files = chosen.files;
    hint.textContent = ` ${[...field.files].map((file) => file.name).join(", ")}`;
  });
  field.addEventListener("change", () => { hint.textContent = invitation; });
}
