/** Seeds that found a defect when it was there; CI runs them always. Each with what it found. */
export const onceFailed = [
  3, // the poller's report timer outlived its session
  10,
  2361, // a second model was judged although the states of its first were too many to follow: the oracle was wrong
  2425, // a call that must succeed ended by its client's own stuck detection: the oracle was wrong; also 22429, 22971
  20501, // the name of a checkpoint that had expired was held to be in use: the oracle was wrong; also 21670, 22078, 23290
  20800, // a call that must succeed had a timeout of its own: the oracle was wrong; also 21719, 22775
  40390, // two collections of unused folders at once: one removed the marker of a folder whose row the other had deleted
  40670, // a sample of a client that had not joined its session ended with a bare "Error: stuck"
];
