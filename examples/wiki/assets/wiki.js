// Shows recent changes as they happen. The items come escaped from the wiki itself.
const list = document.getElementById("recent");
if (list) {
  const stream = new EventSource("/recent/stream");
  stream.onmessage = (event) => list.insertAdjacentHTML("afterbegin", event.data);
  stream.addEventListener("missed", () => location.reload());
}
