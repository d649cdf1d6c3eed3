// One node for one key. Each of these keys is what the projection looks a node up by,
// and the index behind the constraint is what keeps that fast.

CREATE CONSTRAINT package_name IF NOT EXISTS
FOR (node:Package) REQUIRE node.name IS UNIQUE;

CREATE CONSTRAINT package_version_purl IF NOT EXISTS
FOR (node:PackageVersion) REQUIRE node.purl IS UNIQUE;

CREATE CONSTRAINT package_index_name IF NOT EXISTS
FOR (node:PackageIndex) REQUIRE node.name IS UNIQUE;

CREATE CONSTRAINT stack_digest IF NOT EXISTS
FOR (node:Stack) REQUIRE node.digest IS UNIQUE;

CREATE CONSTRAINT hardware_digest IF NOT EXISTS
FOR (node:Hardware) REQUIRE node.digest IS UNIQUE;

CREATE CONSTRAINT runtime_environment_digest IF NOT EXISTS
FOR (node:RuntimeEnvironment) REQUIRE node.digest IS UNIQUE;

CREATE CONSTRAINT base_image_name IF NOT EXISTS
FOR (node:BaseImage) REQUIRE node.name IS UNIQUE;

CREATE CONSTRAINT native_package_name IF NOT EXISTS
FOR (node:NativePackage) REQUIRE node.name IS UNIQUE;

CREATE CONSTRAINT performance_indicator_id IF NOT EXISTS
FOR (node:PerformanceIndicator) REQUIRE node.indicator_id IS UNIQUE;

CREATE CONSTRAINT inspection_document_id IF NOT EXISTS
FOR (node:Inspection) REQUIRE node.document_id IS UNIQUE;

CREATE CONSTRAINT observation_id IF NOT EXISTS
FOR (node:Observation) REQUIRE node.observation_id IS UNIQUE;
