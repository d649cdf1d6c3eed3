// Results of other benchmark systems by their identifiers, and by what they are searched by.

CREATE CONSTRAINT benchmark_system_key IF NOT EXISTS
FOR (node:BenchmarkSystem) REQUIRE node.key IS UNIQUE;

CREATE CONSTRAINT benchmark_id IF NOT EXISTS
FOR (node:Benchmark) REQUIRE node.benchmark_id IS UNIQUE;

CREATE CONSTRAINT benchmark_entry_id IF NOT EXISTS
FOR (node:BenchmarkEntry) REQUIRE node.entry_id IS UNIQUE;

CREATE CONSTRAINT benchmark_result_id IF NOT EXISTS
FOR (node:BenchmarkResult) REQUIRE node.result_id IS UNIQUE;

CREATE CONSTRAINT software_id IF NOT EXISTS
FOR (node:Software) REQUIRE node.software_id IS UNIQUE;

CREATE CONSTRAINT hardware_part_id IF NOT EXISTS
FOR (node:HardwarePart) REQUIRE node.part_id IS UNIQUE;

CREATE INDEX benchmark_entry_system IF NOT EXISTS
FOR (node:BenchmarkEntry) ON (node.system);

CREATE INDEX software_name IF NOT EXISTS
FOR (node:Software) ON (node.name);
