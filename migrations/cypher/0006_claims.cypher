// Claims by their identifier and by what they measure, requests by theirs.

CREATE CONSTRAINT claim_id IF NOT EXISTS
FOR (node:Claim) REQUIRE node.claim_id IS UNIQUE;

CREATE CONSTRAINT request_id IF NOT EXISTS
FOR (node:Request) REQUIRE node.request_id IS UNIQUE;

CREATE INDEX claim_indicator IF NOT EXISTS
FOR (node:Claim) ON (node.indicator);
