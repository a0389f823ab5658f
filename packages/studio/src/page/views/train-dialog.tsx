/** The commands that train a model on traces. */
import { useEffect, useRef, useState } from "preact/hooks";
import { formatCount } from "../format.ts";
import { Choice, CopyButton } from "../parts.tsx";
import { session } from "../store.ts";
import { plainText } from "../text.ts";
import { canExport, type TrainMethod, type TrainSelection, trainCommands } from "../train-commands.ts";

export function TrainDialog(props: { readonly selection: TrainSelection; readonly onClose: () => void }) {
  const { selection, onClose } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const [method, setMethod] = useState<TrainMethod>("sft");
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  const needsKey = session.value?.needs_key === true;
  // What is copied is what is shown: a terminal acts on control characters.
  const commands = plainText(trainCommands(method, selection, { url: location.origin, needsKey }));
  const title =
    "traceIds" in selection
      ? `Train on ${formatCount(selection.traceIds.length)} selected ${selection.traceIds.length === 1 ? "trace" : "traces"}`
      : Object.keys(selection.filters).length === 0
        ? "Train on all traces"
        : "Train on all traces that match the filters";
  return (
    <dialog ref={dialog} class="wide" aria-labelledby="train-title" onClose={onClose}>
      <h2 id="train-title">{title}</h2>
      <Choice
        label="How to train"
        value={method}
        options={[
          ["sft", "Conversations (SFT)"],
          ["dpo", "Rated pairs (DPO)"],
        ]}
        onChange={setMethod}
      />
      {method === "sft" ? (
        <p class="soft">
          Edited answers replace the recorded ones. Conversations that are rated bad and not edited are left out.
        </p>
      ) : (
        <p class="soft">
          Pairs are answers to the same prompt with opposite ratings, and edited answers with their originals.
        </p>
      )}
      {canExport(method, selection) ? (
        <>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it */}
          <pre tabIndex={0} class="commands" data-testid="train-commands">
            {commands}
          </pre>
          <p class="soft">
            {needsKey ? "Replace tml-… with your key. " : ""}
            Secrets and e-mail addresses are replaced in the file; <code>--no-redact</code> keeps them.
          </p>
        </>
      ) : (
        <p class="problem">A search for text cannot select pairs. Select traces in the list instead.</p>
      )}
      <div class="row end">
        {canExport(method, selection) ? <CopyButton text={commands} label="Copy commands" /> : null}
        <button type="button" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </div>
    </dialog>
  );
}
