// Advice by its identifier, and by time: the last of all are what is asked for most.

CREATE CONSTRAINT advice_id IF NOT EXISTS
FOR (node:Advice) REQUIRE node.advice_id IS UNIQUE;

CREATE INDEX advice_created_at IF NOT EXISTS
FOR (node:Advice) ON (node.created_at);
