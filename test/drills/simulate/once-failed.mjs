/** Seeds that found a defect when it was there; CI runs them always. Each with what it found. */
export const onceFailed = [
  3, // the poller's report timer outlived its session
  10,
];
