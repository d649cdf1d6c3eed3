// Observations that were projected before rates had a unit; all of them are in FLOP/s.
// Those that come later bring theirs, so that a second time changes nothing.

MATCH (node:Observation) WHERE node.rate IS NOT NULL AND node.unit IS NULL
SET node.unit = 'FLOP/s';
