// What scripts add: progress that moves by itself. Every page says the same without.
"use strict";
document.querySelectorAll("[data-events]").forEach((live) => {
  const events = new EventSource(live.dataset.events);
  events.addEventListener("audit", (event) => {
    const job = JSON.parse(event.data);
    live.querySelector(".state").textContent = job.state;
    live.querySelector(".passes").textContent = `${job.done} of ${job.of}`;
    const bar = live.querySelector("progress");
    bar.max = Math.max(job.of, 1);
    bar.value = job.done;
    if (job.state === "done" || job.state === "failed") {
      events.close();
      location.reload();
    }
  });
});
