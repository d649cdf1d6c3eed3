"""Evidence packs: measurements that others made, with their manifests and signatures."""
