// Keys of what is known of packages beyond their versions: vulnerabilities, and native
// interfaces with the artifacts that need and the environments that provide them.

CREATE CONSTRAINT vulnerability_id IF NOT EXISTS
FOR (node:Vulnerability) REQUIRE node.vulnerability_id IS UNIQUE;

CREATE CONSTRAINT artifact_sha256 IF NOT EXISTS
FOR (node:Artifact) REQUIRE node.sha256 IS UNIQUE;

CREATE CONSTRAINT native_interface IF NOT EXISTS
FOR (node:NativeInterface) REQUIRE node.interface IS UNIQUE;

CREATE CONSTRAINT native_environment_digest IF NOT EXISTS
FOR (node:NativeEnvironment) REQUIRE node.digest IS UNIQUE;
