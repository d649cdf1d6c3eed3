// One node with the name of the last batch that was projected.

CREATE CONSTRAINT projection_checkpoint_name IF NOT EXISTS
FOR (node:ProjectionCheckpoint) REQUIRE node.name IS UNIQUE;
