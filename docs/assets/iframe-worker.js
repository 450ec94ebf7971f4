// SPDX-License-Identifier: Apache-2.0
// A page that is read from a disk may start no worker, and the search is one. There it runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inside = frame.contentWindow;
      this.ready = new Promise((done) => frame.addEventListener("load", () => done(inside)));
      window.addEventListener("message", (event) => {
        if (event.source !== inside) return;
        const told = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(told);
        if (this.onmessage) this.onmessage(told);
      });
      inside.document.open();
      inside.document.write(
        "<script>postMessage = (data) => parent.dispatchEvent(new MessageEvent('message', {data, source: window}));" +
          "importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done, failed) => {" +
          "const script = document.createElement('script'); script.src = url; script.onload = done; script.onerror = failed;" +
          "document.body.appendChild(script); })), Promise.resolve());<" + "/script><script src='" + url + "'><" + "/script>",
      );
      inside.document.close();
    }
    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {}
  };
}
