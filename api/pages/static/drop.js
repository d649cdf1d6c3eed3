"use strict";
// Files that are dropped anywhere on the form are chosen, as if the file field had opened them.
(() => {
  const field = document.getElementById("uploads");
  const form = field.form;
  const hint = document.createElement("span");
  hint.className = "note";
  hint.textContent = " or drop them here";
  hint.setAttribute("role", "status");
  field.after(hint);
  const mark = (event, on) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    form.classList.toggle("dropping", on);
  };
  form.addEventListener("dragover", (event) => mark(event, true));
  form.addEventListener("dragleave", (event) => mark(event, false));
  form.addEventListener("drop", (event) => {
    mark(event, false);
    if (!event.dataTransfer?.files.length) return;
    field.files = event.dataTransfer.files;
    hint.textContent = ` ${[...field.files].map((file) => file.name).join(", ")}`;
  });
})();
