// Shows what a run is at while it runs: lines come as server-sent events; when it has ended the page is asked for again.
document.querySelectorAll("[data-live]").forEach((list) => {
  const source = new EventSource(list.dataset.live);
  source.addEventListener("line", (event) => {
    const line = document.createElement("li");
    line.textContent = event.data;
    list.append(line);
    if (list.children.length > 500) list.firstElementChild.remove();
  });
  source.addEventListener("ended", () => {
    source.close();
    location.reload();
  });
});
