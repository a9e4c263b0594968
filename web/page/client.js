// Asks the worker, which holds the model. If the worker ends, another one takes its place, without a model.

export class Client {
  #worker = null;
  #open = new Map();
  #next = 0;
  #onEnd;
  #onBusy;

  /** `onEnd` is called with a message when a worker has ended. `onBusy` is called with whether an answer is awaited. */
  constructor(onEnd, onBusy) {
    this.#onEnd = onEnd;
    this.#onBusy = onBusy;
    this.#start();
  }

  #start() {
    const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    this.#worker = worker;
    worker.onmessage = ({ data }) => {
      const asked = this.#open.get(data.id);
      this.#open.delete(data.id);
      this.#onBusy(this.#open.size > 0);
      if (data.ended) {
        asked?.reject(new Error(data.error));
        this.restart(data.error);
      } else if (data.error !== undefined) asked?.reject(new Error(data.error));
      else asked?.resolve(data.answer);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      const why = event.message || "the browser could not load it";
      // A worker that can't start would be started again and again.
      worker.terminate();
      this.#rejectAll(`the page's worker failed: ${why}; use a browser of 2023 or later, and put all files of the page on the server`);
    };
  }

  #rejectAll(message) {
    const open = [...this.#open.values()];
    this.#open.clear();
    this.#onBusy(false);
    open.forEach(({ reject }) => reject(new Error(message)));
  }

  /** Ends the worker, whatever it does, and starts another one. */
  restart(message) {
    this.#worker.terminate();
    this.#rejectAll(message);
    this.#start();
    this.#onEnd(message);
  }

  /** Asks the worker for an answer. Buffers among the arguments are transferred to it. */
  ask(what, ...given) {
    const id = this.#next++;
    const buffers = given.filter((argument) => argument instanceof ArrayBuffer);
    return new Promise((resolve, reject) => {
      this.#open.set(id, { resolve, reject });
      this.#onBusy(true);
      this.#worker.postMessage({ id, what, given }, buffers);
    });
  }
}
