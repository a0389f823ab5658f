// The one place that names which releases of the official Python SDK serve as the oracle. The libraries that decide
// what is recorded (validation, number formatting, wire encoding) are pinned too, so that recording again next month
// gives the same bytes. To move to a newer release: change `newest`, run `npm run parity -- --update`, read the diff.

/** Libraries whose own behaviour shows in the fixtures. */
export const libraries = ["pydantic==2.14.3", "pydantic_core==2.50.4", "numpy==2.4.6", "protobuf==7.36.2"];

/**
 * The recorded releases. `name` is the folder under `.venv/`, `version` the folder `test/fixtures/tinker-<version>`.
 * @type {{ name: string, version: string, packages: string[] }[]}
 */
export const oracles = [
  { name: "tinker-0.25.0", version: "0.25.0", packages: ["tinker==0.25.0", ...libraries] },
  { name: "tinker-newest", version: "0.36.0", packages: ["tinker==0.36.0", ...libraries] },
];

/** What a release needs to be used with everything it can do, against our server: `ensureVenv(...withEverything(oracle))`. */
export const withEverything = ({ name, packages }) => [
  `${name}-server`,
  [...packages, "transformers", "huggingface_hub", "safetensors"],
  { torch: true }, // for forward_backward_custom
];
